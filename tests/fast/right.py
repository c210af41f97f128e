"""The rules that must hold whatever was broken, and the comparison of two worlds."""

import re
from collections.abc import Sequence

from tests.fast.objects import FileSystem, Snapshot
from tests.fast.pool import Pools
from tests.fast.server import position
from tests.fast.world import CLONES, VAULT, World
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.clone import INTENT
from zbackup.plan.recovery.window import usable_bases

_CHANGING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(\+00:00|Z)?"), "TIME"),
    (re.compile(r"[0-9]{8}[tT][0-9]{6}[zZ](-[0-9]+)?"), "TIME"),
    (re.compile(r"[0-9]{18,20}"), "GUID"),
    (re.compile(r"binlog\.000001:[0-9]+"), "POSITION"),
    (re.compile(r"boot [0-9.]+ synchronised"), "CLOCK"),
)


def require_well(world: World, ctx: Context) -> None:
    """At any time, after any failure: nothing foreign is touched, and what is listed is true."""
    require_foreign_untouched(world)
    world.writing = False
    require_backups_true(world, ctx)
    require_commits_true(world, ctx)
    world.writing = True


def require_foreign_untouched(world: World) -> None:
    """What was there and is not zbackup's is there, as it was."""
    pools = world.pools
    assert not [name for name, guid in pools.destroyed if guid in world.foreign]
    own = {
        str(d.name): {k: v for k, v in d.properties.items() if not k.startswith("zbackup:")}
        for d in pools.datasets.values()
        if d.name.split("/")[-1] in ("foreign", "other") or d.name.startswith(f"{VAULT}/foreign")
    }
    foreign = ("tank/other", f"{CLONES}/foreign", f"{VAULT}/foreign", f"{VAULT}/foreign/db")
    assert own == {name: {"canmount": "noauto", "mine": "1", "my:own": "1"} for name in foreign}
    by_hand = [s for s in pools.all_snapshots() if s.name == "by-hand"]
    assert [s.properties for s in by_hand] == [{"my:own": "1"}] * 2
    assert [s.holds for s in by_hand if s.holds] == [{"mine": 0}]
    assert any("mine" in d.bookmarks for d in pools.datasets.values())


def require_backups_true(world: World, ctx: Context) -> None:
    """Whatever a restore would start from is what it says it is."""
    catalog = ctx.catalog()
    assert catalog.unreadable == ()
    for backup in usable_bases(catalog.backups):
        there = [_snapshot(world.pools, s.guid) for s in backup.snapshots]
        assert len({s.txg for s in there}) == 1, f"{backup.name} is of several moments"
        require_true(world, backup, [s.files for s in there])


def require_true(world: World, backup: Backup, files: Sequence[dict[str, object]]) -> None:
    """A backup's record against what its snapshots hold."""
    record = backup.record
    rows, log = files[0]["rows"], files[1]["log"]
    assert isinstance(rows, tuple) and isinstance(log, tuple)
    assert log[: len(rows)] == rows
    if record.purpose == "base":
        assert record.position == position(len(rows)) and log == rows
    assert record.as_of == world.server.times[rows[-1]]
    assert record.complete_to is not None and record.complete_to > world.server.times[log[-1]]
    assert record.log_id


def require_commits_true(world: World, ctx: Context) -> None:
    """A destination lists a backup only when all of it is there."""
    for destination in ctx.destinations:
        with destination.adapter.connect() as session:
            copies, inventory = session.copies(), session.inventory()
        assert copies.unreadable == ()
        listed = {b.record.backup for b in copies.backups}
        assert listed <= inventory.committed
        for backup in copies.backups:
            assert len(backup.snapshots) == len(backup.record.members)
            require_true(
                world, backup, [_snapshot(world.pools, s.guid, VAULT).files for s in backup.snapshots]
            )


def require_nothing_left(world: World, clones: Sequence[str] = ()) -> None:
    """Of what jobs make for themselves: no hold, clone, server, note, mark or file but of these clones."""
    pools = world.pools
    below = {d.name.removeprefix(f"{CLONES}/").partition("/")[0] for d in pools.children(CLONES)}
    assert below == {"foreign", *clones}
    assert set(world.state.servers) <= set(clones)
    assert not [k for d in pools.datasets.values() for k in d.properties if k.startswith(INTENT)]
    holds = [f"{s} {tag}" for s in pools.all_snapshots() for tag in s.holds if tag != "mine"]
    assert not holds
    assert not [d.name for d in pools.datasets.values() if d.partial]
    assert not [d.name for d in pools.datasets.values() if "/fresh-" in d.name]


def portrait(world: World) -> list[str]:
    """All there is, without what no two runs have in common: numbers, times and identities.

    Production's own content, and how many backups there are, is left to those who know what it must be.
    """
    datasets = sorted(world.pools.datasets.values(), key=lambda d: d.name)
    return same("\n".join(line for d in datasets for line in _lines(d))).split("\n")


def _lines(dataset: FileSystem) -> list[str]:
    origin = str(dataset.origin) if dataset.origin else "-"
    own = sorted(dataset.properties.items())
    lines = [f"{dataset.name} from {origin} at {dataset.mounted} used by {sorted(dataset.users)} {own}"]
    lines += [f"{s} {sorted(s.holds)} {sorted(s.properties.items())}" for s in dataset.snapshots.values()]
    lines += [f"{dataset.name}#{name}" for name in sorted(dataset.bookmarks)]
    return lines


def same(text: str) -> str:
    """Without numbers, times and identities."""
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return text


def _snapshot(pools: Pools, guid: int, below: str = "") -> Snapshot:
    return next(s for s in pools.all_snapshots() if s.guid == guid and s.of.name.startswith(below or "tank"))
