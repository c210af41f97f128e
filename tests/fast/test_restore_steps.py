"""Steps of a restore: its locks, and what it does with what was fetched or cloned at a destination."""

import fcntl
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fast.right import portrait, require_nothing_left, require_well
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, VAULT, World
from zbackup.destinations.copies import StreamStep
from zbackup.destinations.zfs_destination import ZfsSession
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones.clone_datasets import find_clone
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.context import Context
from zbackup.jobs.restore.at_destination import clean_up
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.fetch import fetch, mounted
from zbackup.jobs.restore.foreign_source import FOREIGN
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import plan_restore, restore
from zbackup.jobs.restore.source import BackupSource
from zbackup.jobs.ship.ship import ship
from zbackup.model.errors import CommandFailed, NotResumable, Refused, Taken, UsageError, VerificationFailed
from zbackup.model.log import ClusterTime
from zbackup.model.moment import Moment
from zbackup.model.target import RestoreTarget

OPTIONS = RestoreOptions(name="r1")
ROWS = "/srv/clones/r1/0"
THERE = "vault/zbackup"
HOME = f"{VAULT}/shop/tank/db"
COPY = f"{CLONES}/r1.copy"


@pytest.fixture
def ctx(world: World) -> Context:
    """Production with two backups, both shipped, and a place for clones beside the copies."""
    made = world.context(destinations=(world.destination(),), elsewhere=(THERE,))
    world.pools.create(THERE, {"mountpoint": "/srv/clones", "canmount": "off", "zbackup:clones": "1"})
    for _ in range(2):
        snapshot(made)
        ship(made, made.destinations[0])
        world.state.elapsed += timedelta(minutes=1)
    return made


@pytest.fixture
def moment(world: World, ctx: Context) -> Moment:
    """Between the two backups."""
    newest = ctx.catalog().backups[-1]
    return Moment(world.server.times[world.content_of(newest)[-6]], "then", ZoneInfo("UTC"))


@pytest.fixture
def there(ctx: Context) -> DestinationSource:
    return DestinationSource(ctx.destinations[0], run_at_destination=True)


@pytest.fixture
def fetched(ctx: Context) -> DestinationSource:
    return DestinationSource(ctx.destinations[0])


def wanted(world: World, moment: Moment) -> tuple[int, ...]:
    return tuple(n for n, at in world.server.times.items() if at < moment.exclusive_end)


def is_locked(file: Path) -> bool:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


Asked = Callable[[Context, Moment], tuple[RestoreTarget, BackupSource]]


@pytest.mark.parametrize(
    ("asked", "last"),
    [
        (lambda _, moment: (moment, LOCAL), "recover"),
        (lambda _, moment: (replace(moment, is_now=True), LOCAL), "recover"),
        (lambda ctx, _: (LOCAL.backup(ctx, ctx.catalog().backups[0].name), LOCAL), "open"),
        (lambda ctx, _: (FOREIGN.snapshot(ctx, "tank/db@by-hand"), FOREIGN), "open"),
    ],
)
def test_others_may_work_on_the_instance_as_soon_as_all_is_cloned(
    world: World, ctx: Context, moment: Moment, asked: Asked, last: str
) -> None:
    """Until then a prune could destroy what was chosen; the clone is its maker's to the end."""
    seen: dict[str, set[tuple[bool, bool]]] = {}
    made: set[str] = set()

    def watched(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        locks = is_locked(ctx.lock_file), is_locked(ctx.shared / "clone-r1.lock")
        seen.setdefault(argv[1], set()).add(locks)
        made.update(argv if argv[1] == "create" else ())
        if argv[1] == "recover":
            assert any(s.looked_into for s in world.pools.all_snapshots()), "its log is kept mounted"
        return act()

    target, source = asked(ctx, moment)
    world.passing = watched
    restore(ctx, target, OPTIONS, source)
    assert seen["clone"] == {(True, True)} and seen[last] == {(False, True)}
    assert seen.get("snapshot", {(True, True)}) == {(True, True)}
    assert f"{CLONES}/r1" in made and f"{CLONES}/r1.log" not in made, "a log that is only read needs no clone"


def test_a_log_that_is_written_to_is_read_on_a_clone(world: World, ctx: Context, moment: Moment) -> None:
    seen: list[str] = []

    def watched(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        seen.extend(argv if argv[1] == "create" else ())
        return act()

    world.only_reads, world.passing = False, watched
    restore(ctx, moment, OPTIONS)
    assert f"{CLONES}/r1.log" in seen


def test_whoever_holds_the_clones_name_already_says_so(world: World, ctx: Context, moment: Moment) -> None:
    with working_on(ctx, "r1", "zbackup switch"):
        restore(ctx, moment, OPTIONS, locked=True)
    assert world.content(ROWS)["rows"] == wanted(world, moment)


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_fetch_that_is_cut_off_goes_on_where_it_was(
    world: World, ctx: Context, moment: Moment, fetched: DestinationSource, cut: int
) -> None:
    world.cut = cut
    with pytest.raises(CommandFailed):
        restore(ctx, moment, OPTIONS, fetched)
    assert any("is kept in tank/zbackup/r1.copy: the same command continues" in note for note in world.notes)
    assert sum(d.partial is not None for d in world.pools.datasets.values()) == 1
    world.pools.unmount(COPY)
    restore(ctx, moment, OPTIONS, fetched)
    assert world.resumed == 1 and f"continuing with what was fetched into {COPY}" in world.notes
    assert sum("is kept in" in note for note in world.notes) == 1, "of the first, and not of what succeeded"
    assert world.content(ROWS)["rows"] == wanted(world, moment)
    found = find_clone(ctx, "r1.copy")
    assert found and found[0].state == "ready" and world.pools.datasets[COPY].mounted
    require_well(world, ctx)
    clones.destroy([ctx], "r1")
    require_nothing_left(world)


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_what_a_fetch_has_left_can_be_destroyed(
    world: World, ctx: Context, moment: Moment, fetched: DestinationSource, cut: int
) -> None:
    world.cut = cut
    with pytest.raises(CommandFailed):
        restore(ctx, moment, OPTIONS, fetched)
    clones.destroy([ctx], "r1")
    assert find_clone(ctx, "r1.copy") is None
    restore(ctx, moment, OPTIONS, fetched)
    clones.destroy([ctx], "r1")
    require_nothing_left(world)


def test_what_cannot_be_gone_on_with_is_fetched_from_its_beginning(
    world: World, ctx: Context, moment: Moment, fetched: DestinationSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cut = 1
    with pytest.raises(CommandFailed):
        restore(ctx, moment, OPTIONS, fetched)
    really = ZfsSession.fetch

    def refuses(session: ZfsSession, step: StreamStep, token: str, *rest: Any) -> int:
        if token:
            raise NotResumable("its snapshot is another one")
        return really(session, step, token, *rest)

    monkeypatch.setattr(ZfsSession, "fetch", refuses)
    restore(ctx, moment, OPTIONS, fetched)
    assert any("is fetched from its beginning: its snapshot is another one" in note for note in world.notes)
    assert world.content(ROWS)["rows"] == wanted(world, moment)


@pytest.mark.parametrize("begun", [False, True])
def test_a_fetch_that_is_refused_otherwise_is_no_reason_to_begin_anew(
    world: World,
    ctx: Context,
    moment: Moment,
    fetched: DestinationSource,
    monkeypatch: pytest.MonkeyPatch,
    *,
    begun: bool,
) -> None:
    """Nothing was there to go on with, or more is there now than was."""
    if begun:
        world.cut = 1
        with pytest.raises(CommandFailed):
            restore(ctx, moment, OPTIONS, fetched)

    def refuses(*_: object) -> int:
        part = world.pools.datasets.get(f"{COPY}/0")
        if part and part.partial:
            part.partial = replace(part.partial, source="more of it")
        raise NotResumable("no")

    monkeypatch.setattr(ZfsSession, "fetch", refuses)
    with pytest.raises(NotResumable, match=r"^no$"):
        restore(ctx, moment, OPTIONS, fetched)


def test_what_never_arrived_is_no_backup(
    world: World, ctx: Context, moment: Moment, fetched: DestinationSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ZfsSession, "fetch", lambda *_: 0)
    with pytest.raises(VerificationFailed, match=r"what arrived in tank/zbackup/r1.copy/0 is not vault"):
        restore(ctx, moment, OPTIONS, fetched)


def test_another_snapshot_of_the_same_name_is_not_what_was_wanted(
    world: World, ctx: Context, moment: Moment, fetched: DestinationSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = ZfsSession.fetch

    def another(session: ZfsSession, step: StreamStep, *rest: Any) -> int:
        count = really(session, step, *rest)
        world.pools.snapshot_called(f"{COPY}/0@{step.copy.name}").guid += 1
        return count

    monkeypatch.setattr(ZfsSession, "fetch", another)
    with pytest.raises(VerificationFailed, match="is not vault"):
        restore(ctx, moment, OPTIONS, fetched)


def test_what_was_fetched_for_other_backups_is_removed(
    world: World, ctx: Context, moment: Moment, fetched: DestinationSource
) -> None:
    world.cut = 2
    with pytest.raises(CommandFailed):
        restore(ctx, fetched.backup(ctx, ctx.catalog().backups[-1].name), OPTIONS, fetched)
    restore(ctx, moment, OPTIONS, fetched)
    assert f"{COPY} holds other backups than are needed now, and is removed" in world.notes
    assert world.content(ROWS)["rows"] == wanted(world, moment)
    clones.destroy([ctx], "r1")
    require_nothing_left(world)


def test_streams_that_begin_anew_get_datasets_of_their_own(
    world: World, ctx: Context, moment: Moment, fetched: DestinationSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a bucket has them, where none leads on from another."""
    monkeypatch.setattr(
        ZfsSession, "stream_steps", lambda _, copies: [StreamStep(each, None) for each in copies]
    )
    restore(ctx, moment, OPTIONS, fetched)
    assert world.content(ROWS)["rows"] == wanted(world, moment)
    parts = {d.name: list(d.snapshots) for d in world.pools.children(COPY)}
    names = [b.name for b in ctx.catalog().backups]
    assert [parts[f"{COPY}/{n}"] for n in range(4)] == [names[:1], names[:1], names[1:], names[1:]]


def test_one_backup_is_fetched_once(world: World, ctx: Context, fetched: DestinationSource) -> None:
    one = ctx.catalog().backups[0]
    plan = plan_restore(ctx, fetched.backup(ctx, one.name), OPTIONS, fetched)
    assert plan.fetch == 2 * 4194304
    with fetched.destination.adapter.connect() as session:
        base = session.copies().backups[0]
        catalog = fetch(ctx, session, "r1", base, base, 0)
    assert [b.name for b in catalog.backups] == [one.name] and len(catalog.datasets) == 2
    with pytest.raises(VerificationFailed, match="only 2 of 3 datasets arrived"):
        mounted(ctx, COPY, 3)


@pytest.mark.parametrize(
    ("said", "failure"), [("Key is not loaded: key", Refused), ("pool is busy", CommandFailed)]
)
def test_a_copy_that_cannot_be_mounted_for_want_of_its_key_says_so(
    world: World,
    ctx: Context,
    moment: Moment,
    fetched: DestinationSource,
    said: str,
    failure: type[Exception],
) -> None:
    def refuses(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv == ("zfs", "mount", "--", f"{COPY}/0"):
            raise CommandFailed(argv, 1, said)
        return act()

    world.passing = refuses
    with pytest.raises(failure, match="zfs load-key tank/zbackup/r1.copy/0" if failure is Refused else said):
        restore(ctx, moment, OPTIONS, fetched)


def test_copies_whose_key_is_not_loaded_are_not_cloned(
    world: World, ctx: Context, moment: Moment, there: DestinationSource
) -> None:
    world.pools.datasets[HOME].properties.update(keystatus="unavailable", encryptionroot="vault")
    before = portrait(world)
    with pytest.raises(
        Refused, match=r"(?s)tank/db is encrypted and its key is not loaded.*zfs load-key vault$"
    ):
        restore(ctx, moment, OPTIONS, there)
    assert portrait(world) == before


def test_what_was_fetched_is_no_leftover_of_what_is_cloned_there(
    world: World, ctx: Context, moment: Moment, there: DestinationSource
) -> None:
    fetching = DestinationSource(ctx.destinations[0])
    world.cut = 2
    with pytest.raises(CommandFailed):
        restore(ctx.at(THERE), moment, OPTIONS, fetching)
    with pytest.raises(Taken, match=r"vault/zbackup/r1.copy holds what was fetched for another restore"):
        restore(ctx, moment, OPTIONS, there)
    assert find_clone(ctx.at(THERE), "r1.copy")
    clean_up(ctx.at(THERE), "r1")
    assert find_clone(ctx.at(THERE), "r1.copy"), "it is gone on with"


def test_what_is_cloned_there_is_whole_and_goes_unless_something_needs_it(
    world: World, ctx: Context, moment: Moment, there: DestinationSource
) -> None:
    at = ctx.at(THERE)
    restore(ctx, moment, OPTIONS, there)
    found = find_clone(at, "r1.copy")
    assert found and found[0].state == "ready"
    assert {d.properties.get("readonly") for d in world.pools.children(f"{THERE}/r1.copy")} == {"on"}
    assert len(world.pools.children(f"{THERE}/r1.copy")) == 4
    clean_up(at, "r1")
    assert find_clone(at, "r1.copy"), "the clone r1 is of it"
    clones.destroy([at], "r1")
    assert not world.pools.children(THERE)
    one = there.backup(ctx, ctx.catalog().backups[0].name)
    restore(ctx, one, OPTIONS, there)
    assert len(world.pools.children(f"{THERE}/r1.copy")) == 2
    clones.destroy([at], "r1")

    def fails(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[1] == "recover":
            raise CommandFailed(argv, 1, "no")
        return act()

    world.passing = fails
    with pytest.raises(CommandFailed):
        restore(ctx, moment, OPTIONS, there)
    assert not world.pools.children(THERE)


def test_an_oplogs_words_are_for_mongodb_alone(world: World, ctx: Context) -> None:
    """And a member of a set is known by its port, and writes."""
    before = portrait(world)
    asked = replace(OPTIONS, replica_set="rs", port=4000)
    moment = Moment(world.now, "now", ZoneInfo("UTC"), is_now=True)
    for job in (plan_restore, restore):
        for target, options in ((ClusterTime(1714557720, 1), OPTIONS), (moment, asked)):
            with pytest.raises(UsageError, match="only MongoDB has cluster times and replica sets"):
                job(ctx, target, options)
        mongodb = replace(ctx, engine_name="mongodb")
        with pytest.raises(UsageError, match="--as-replica-set needs --port"):
            job(mongodb, moment, replace(asked, port=0))
        with pytest.raises(UsageError, match="exclude each other"):
            job(mongodb, moment, replace(asked, read_only=True))
    assert portrait(world) == before
    plan_restore(replace(ctx, engine_name="mongodb"), moment, asked)


def test_a_name_is_free_or_a_killed_runs(world: World, ctx: Context, moment: Moment) -> None:
    """Also that of the clone of a log, and on each pool that clones may be on."""
    for at, name in ((ctx, "r1"), (ctx, "r1.log"), (ctx.at(THERE), "r1"), (ctx.at(THERE), "r1.log")):
        unfinished(at, name, state="ready")
        for job in (plan_restore, restore):
            with pytest.raises(Taken, match=f"{at.clones}/{name} exists"):
                job(ctx, moment, OPTIONS)
        clones.destroy([at], name)
    for name in ("r1", "r1.log"):
        unfinished(ctx, name, state="building")
        plan_restore(ctx, moment, OPTIONS)
    restore(ctx, moment, OPTIONS)
    for name in ("r1", "r1.log"):
        assert f"removing what a killed run left of {name}" in world.notes
    assert not find_clone(ctx, "r1.log")
    other = replace(OPTIONS, name="r2")
    unfinished(ctx, "r2", state="building")
    world.pools.datasets[f"{CLONES}/r2"].properties["zbackup:clone"] = "nonsense"
    with pytest.raises(Refused, match="r2 cannot be read"):
        plan_restore(ctx, moment, other)
    with pytest.raises(UsageError):
        plan_restore(ctx, moment, replace(OPTIONS, name="Not one"))
    assert plan_restore(ctx, moment, replace(OPTIONS, name="")).name.startswith("shop-2024")
