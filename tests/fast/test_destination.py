"""A destination on ZFS: what it says of itself, and what it does to its own copies alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fast.world import VAULT, World
from zbackup.destinations.copies import by_home
from zbackup.destinations.zfs_destination import ZfsDestination, ZfsSession
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.ship.ship import ship
from zbackup.model.archive_order import LOG
from zbackup.model.errors import NotFound, NotResumable, VerificationFailed, ZbackupError
from zbackup.model.retention import CONDEMNED
from zbackup.model.shipping import COMMITTED
from zbackup.proc.pipeline import Command, Meter
from zbackup.proc.ssh import SshHost
from zbackup.zfs.datasets import Zfs

HOME = f"{VAULT}/shop"
NOW = "2024-05-01T12:00:00+00:00"


@pytest.fixture
def there(world: World) -> ZfsDestination:
    """Two backups have arrived."""
    ctx = world.context(destinations=(world.destination(),))
    for _ in range(2):
        snapshot(ctx)
        ship(ctx, ctx.destinations[0])
    return adapter(ctx)


def adapter(ctx: Context) -> ZfsDestination:
    found = ctx.destinations[0].adapter
    assert isinstance(found, ZfsDestination)
    return found


def changes(world: World) -> list[tuple[str, ...]]:
    """From now on, what changes anything."""
    found: list[tuple[str, ...]] = []

    def noting(argv: tuple[str, ...], mutates: bool, act: object) -> object:
        if mutates:
            found.append(argv)
        return act()  # type: ignore[operator]

    world.passing = noting
    return found


def test_instances_are_those_with_a_committed_backup(world: World, there: ZfsDestination) -> None:
    pools = world.pools
    assert there.instances() == [("", "shop")]
    for name in (f"{VAULT}/Bad name", f"{VAULT}/Bad name/db", f"{VAULT}/far", f"{VAULT}/far/cart"):
        pools.create(name, {})
    arrived = next(iter(pools.datasets[f"{HOME}/tank/db"].snapshots.values()))
    for name, instance in ((f"{VAULT}/Bad name/db", "Bad name"), (f"{VAULT}/far/cart", "cart")):
        pools.snapshot([f"{name}@x"], {})
        pools.snapshot_called(f"{name}@x").properties |= arrived.properties | {"zbackup:instance": instance}
    assert there.instances() == [("", "shop")], "nothing of the others is committed"
    for each in pools.datasets[f"{HOME}/tank/db"].snapshots.values():
        each.properties.pop(COMMITTED)
    assert there.instances() == []
    with pytest.raises(NotFound, match="import its pool"):
        replace(there, root="vault/gone").instances()


def test_an_address_that_is_one_instances_own_is_refused(world: World, there: ZfsDestination) -> None:
    with pytest.raises(NotFound, match="that of the instance shop alone: name the dataset above"):
        replace(there, root=HOME).instances()


def test_a_dataset_called_like_an_instance_below_it_is_an_address(world: World) -> None:
    ctx = world.context(destinations=(world.destination(),))
    same = replace(adapter(ctx), root=f"{VAULT}/shop")
    world.pools.create(f"{VAULT}/shop", {})
    snapshot(ctx)
    ship(ctx, replace(ctx.destinations[0], adapter=same))
    assert same.instances() == [("", "shop")]


def test_no_instance_has_a_name_that_none_can_have(world: World, there: ZfsDestination) -> None:
    world.run(("zfs", "rename", HOME, f"{VAULT}/Bad name"))
    for each in world.pools.all_snapshots():
        if str(each).startswith(f"{VAULT}/Bad name/"):
            each.properties["zbackup:instance"] = "Bad name"
    assert len(by_home(VAULT, Zfs(world.run).snapshots_below(VAULT))) == 1
    assert there.instances() == []


def test_copies_lie_below_their_instance_and_containers_in_between(
    world: World, there: ZfsDestination
) -> None:
    below = {name.removeprefix(HOME) for name in world.pools.datasets if name.startswith(HOME)}
    assert below == {"", "/tank", "/tank/db", "/tank/db/log"}


def test_a_pool_that_was_not_imported_is_no_empty_one(world: World, there: ZfsDestination) -> None:
    with replace(there, instance="new").connect() as new:
        assert new.inventory().datasets == () and new.copies().backups == ()
        assert new.archived().files == ()
    with replace(there, root="vault/gone").connect() as gone:
        for look in (gone.inventory, gone.copies, gone.archived):
            with pytest.raises(NotFound, match="no dataset vault/gone at"):
                look()


def test_the_log_s_archive_is_no_line_of_copies(world: World, there: ZfsDestination) -> None:
    world.pools.create(f"{HOME}/{LOG}", {})
    with there.connect() as session:
        assert [line.name for line in session.inventory().datasets if line.copies] == [
            "tank/db",
            "tank/db/log",
        ]
        assert LOG not in [line.name for line in session.inventory().datasets]


def test_one_with_several_parts_is_marked_before_any_goes_and_its_first_goes_last(
    world: World, there: ZfsDestination
) -> None:
    with there.connect() as session:
        first, second = session.copies().backups
        done = changes(world)
        session.remove(first, NOW)
        names = [str(s) for s in first.snapshots]
        assert done[0] == ("zfs", "set", f"{CONDEMNED}={NOW}", names[0]) and len(done) == 3
        assert [argv[-1] for argv in done[1:]] == [*names[:0:-1], names[0]]
        assert session.copies().backups == (second,)
        del done[:]
        session.remove(replace(second, snapshots=second.snapshots[:1]), NOW)
        assert [argv[:2] for argv in done] == [("zfs", "destroy")], "nothing can be left of one part"
        session.remove(replace(second, snapshots=second.snapshots[:1]), NOW)


def test_what_arrived_must_be_what_was_sent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = world.context(destinations=(world.destination(),))
    snapshot(ctx)

    def another(sender: Command, receiver: Command, meter: Meter) -> int:
        count = world.transfer(sender, receiver, meter)
        newest = world.pools.datasets[receiver.argv[-1]].newest
        assert newest
        newest.guid += 1
        return count

    monkeypatch.setattr("zbackup.destinations.zfs_destination.transfer", another)
    with pytest.raises(VerificationFailed, match="it is not what was sent"):
        ship(ctx, ctx.destinations[0])
    with adapter(ctx).connect() as session:
        assert session.copies().backups == ()


def test_a_fetch_that_cannot_be_continued_passes_nothing_on(world: World, there: ZfsDestination) -> None:
    with there.connect() as session:
        [*_, step] = session.stream_steps([b.snapshots[0] for b in session.copies().backups])
        assert step.base and session.size(step) > 0
        with pytest.raises(NotResumable, match="cannot be continued"):
            session.fetch(step, "1-nonsense", receiving(session), Meter())
        assert "tank/back" not in world.pools.datasets


def test_a_fetch_begins_from_what_was_fetched_before_or_goes_on_where_it_was_cut_off(
    there: ZfsDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, ...]] = []

    def noting(sender: Command, receiver: Command, meter: Meter) -> int:
        sent.append(sender.argv)
        return 7

    monkeypatch.setattr("zbackup.destinations.zfs_destination.transfer", noting)
    monkeypatch.setattr("zbackup.zfs.streams.ZfsStreams.token", lambda *_: object())
    with there.connect() as session:
        first, second = session.stream_steps([b.snapshots[0] for b in session.copies().backups])
        for step, token in ((first, ""), (second, ""), (second, "1-token")):
            assert session.fetch(step, token, receiving(session), Meter()) == 7
    whole, later, rest = sent
    assert "-i" not in whole and whole[-1] == str(first.copy)
    assert later[later.index("-i") + 1] == str(first.copy) and later[-1] == str(second.copy)
    assert rest[-2:] == ("-t", "1-token")


def receiving(session: ZfsSession) -> Command:
    return session.command(("zfs", "receive", "tank/back"))


def test_a_copy_is_held_and_released(world: World, there: ZfsDestination) -> None:
    with there.connect() as session:
        copy = session.copies().backups[0].snapshots[0]
        session.hold("mine", copy)
        assert session.holds([replace(copy, holds=1)])[copy.guid] == ("mine",)
        session.release("mine", copy)
        assert not world.pools.snapshot_called(str(copy)).holds


def test_what_arrived_in_part_can_be_given_up(world: World) -> None:
    ctx = world.context(destinations=(world.destination(),))
    snapshot(ctx)
    world.cut = 1
    with pytest.raises(ZbackupError):
        ship(ctx, ctx.destinations[0])
    with adapter(ctx).connect() as session:
        (line,) = [line for line in session.inventory().datasets if line.partial]
        session.abort(line.name)
        assert not [line for line in session.inventory().datasets if line.partial]


def test_what_is_to_go_of_an_archive_goes(there: ZfsDestination) -> None:
    gone: list[object] = []
    with there.connect() as session:
        replace(session, logs=cast(Any, SimpleNamespace(remove=gone.append))).remove_log(cast(Any, "file"))
    assert gone == ["file"]


def test_only_what_it_needs_of_an_encrypted_one_is_asked_and_that_once(
    world: World, there: ZfsDestination, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def encrypted(_: object, dataset: str) -> bool:
        asked.append(dataset)
        return dataset.endswith("log")

    monkeypatch.setattr("zbackup.zfs.streams.ZfsStreams.encrypted", encrypted)
    with there.connect() as session:
        for number, raw in ((0, False), (1, True)):
            for step in session.stream_steps([b.snapshots[number] for b in session.copies().backups]):
                assert ("-w" in session._send(step)) == raw
    assert asked == [f"{HOME}/tank/db", f"{HOME}/tank/db/log"]


def test_here_no_file_is_needed_and_far_away_a_connection_that_is_closed(
    there: ZfsDestination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (there.here, there.files) == (VAULT, ())
    asked: list[tuple[str, ...]] = []

    def noting(argv: Sequence[str], **_: object) -> str:
        asked.append(tuple(argv))
        return ""

    monkeypatch.setattr("zbackup.proc.ssh.secure_files.exists", lambda _: True)
    host = SshHost(user="u", host="h", identity=tmp_path / "id")
    far = replace(there, target=host, control=tmp_path / "control", runner=noting)
    assert (far.here, far.files) == ("", (tmp_path / "id",))
    with pytest.raises(NotFound, match="gone away"), far.connect() as session:
        assert session.command(("zfs", "list")).argv[0] == "ssh"
        assert asked == []
        raise NotFound("gone away")
    assert len(asked) == 1 and asked[0][0] == "ssh" and "exit" in asked[0]
