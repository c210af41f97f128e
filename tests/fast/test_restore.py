"""A restore from each source, broken at every change: local, fetched, and where the copies lie."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from errno import ENOSPC
from zoneinfo import ZoneInfo

import pytest

from tests.fast.archive import (
    gone_while_read,
    held_while_read,
    in_two_files,
    keep_archives,
    with_a_short_epoch,
    with_an_unreadable_epoch,
)
from tests.fast.breaking import WAYS, every_break
from tests.fast.right import portrait, require_nothing_left, require_well
from tests.fast.server import UUID, position
from tests.fast.world import CLONES, World
from zbackup.destinations.zfs_destination import ZfsSession
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.cleanup.cleanup import reconcile
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones.clone_datasets import find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.restore import destination_source
from zbackup.jobs.restore.archived_log import ADDED, DAMAGED
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.foreign_source import FOREIGN
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import plan_restore, restore
from zbackup.jobs.ship.prune_at import prune_at
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.watch.window import window_at
from zbackup.model.backup import Backup
from zbackup.model.errors import (
    Disproved,
    NotFound,
    NotRecoverable,
    Refused,
    ReplayFailed,
    Taken,
    VerificationFailed,
)
from zbackup.model.log import Transaction
from zbackup.model.moment import Moment
from zbackup.model.proof import ProofSubject, Sight
from zbackup.model.table_name import TableName
from zbackup.model.target import BeforeTransaction, UnseenTransaction, WholeLog
from zbackup.model.transaction_name import Gtid

_MEANT = re.compile(r", \('zbackup:making.r1.copy', '[^']*'\)")
OPTIONS = RestoreOptions(name="r1")
THERE = "vault/zbackup"
SEEN = Sight(tables=frozenset({("orders", "")}))
ROWS = "/srv/clones/r1/0"


@pytest.fixture
def ctx(world: World) -> Context:
    """Production with two backups, both shipped."""
    made = world.context(destinations=(world.destination(),), elsewhere=(THERE,))
    for _ in range(2):
        snapshot(made)
        ship(made, made.destinations[0])
        world.state.elapsed += timedelta(minutes=1)
    return made


@pytest.fixture
def moment(world: World, ctx: Context) -> Moment:
    """Between the two backups, when a transaction was just committed: that one is not wanted."""
    newest = ctx.catalog().backups[-1]
    at = world.server.times[world.content_of(newest)[-6]]
    return Moment(at, "then", ZoneInfo("UTC"))


def require_same_in_the_end(
    world: World,
    ctx: Context,
    job: Callable[[], object],
    moment: Moment,
    *,
    place: str = CLONES,
) -> int:
    """However it is broken, run again it ends as if nothing had been; returns how many breaks."""
    kept = world.keep()
    job()
    wanted_rows = tuple(n for n, at in world.server.times.items() if at < moment.exclusive_end)
    assert world.content(ROWS)["rows"] == wanted_rows
    wanted = _portrait(world)
    world.put_back(kept)
    count = 0
    for each in every_break(world, job):
        count += 1
        if not each.dead:
            _require_failure_cleaned_up(world, each.broke, place)
        if each.known:
            continue
        require_well(world, ctx)
        _again(world, ctx, job)
        require_well(world, ctx)
        assert world.content(ROWS)["rows"] == wanted_rows, each
        assert _portrait(world) == wanted, each
        assert set(world.state.servers) == {"r1"}, each
        clones.destroy(ctx.everywhere(), "r1")
        require_nothing_left(world)
        assert not world.state.servers
    return count


def _again(world: World, ctx: Context, job: Callable[[], object]) -> None:
    try:
        job()
    except Taken:
        found = [c for at in ctx.everywhere() if (c := find_clone(at, "r1"))]
        assert found and found[0][0].state == "ready"
        # What it could not remove or release was told of, and others do it.
        reconcile(ctx)
        prune_at(ctx, ctx.destinations[0])


def _require_failure_cleaned_up(world: World, broke: tuple[str, ...], place: str) -> None:
    """Of a restore that failed nothing runs; what is left of it is what could not be removed."""
    found = world.pools.datasets.get(f"{place}/r1")
    ready = found is not None and '"state":"ready"' in found.properties.get("zbackup:clone", "")
    assert found is None or ready, f"{broke}: the clone is left"
    if not ready:
        assert not world.state.servers


def _portrait(world: World) -> list[str]:
    """Without the log's snapshot that a restore has to take; there may be one more of them. That a copy is to
    be made may stay written down until it is destroyed. What could not be removed of a second clone goes with
    the first."""
    lines = (_MEANT.sub("", line) for line in portrait(world) if "'zbackup:purpose', 'log'" not in line)
    lines = (line for line in lines if "/second" not in line and "@zbackup-second" not in line)
    return [line for line in lines if "@zbackup-" not in line or not line.startswith("tank/db")]


@pytest.mark.parametrize(("only_reads", "least"), [(True, 11), (False, 23)], ids=["in place", "a clone"])
def test_local(world: World, ctx: Context, moment: Moment, only_reads: bool, least: int) -> None:
    """With the log read where it lies in its snapshot, and with a clone of that."""
    world.only_reads = only_reads
    assert require_same_in_the_end(world, ctx, lambda: restore(ctx, moment, OPTIONS), moment) >= least * 4 + 1


@pytest.mark.parametrize("alone", [False, True], ids=["beside backups", "alone"])
def test_a_snapshot_of_others(world: World, ctx: Context, alone: bool) -> None:
    """Nothing is written on it, and it stays. What its server was like, backups tell or the server itself."""
    if alone:
        for backup in ctx.catalog().backups:
            for each in backup.snapshots:
                world.pools.snapshot_called(str(each)).holds.clear()
                ctx.zfs.destroy_snapshot(each)
    target = FOREIGN.snapshot(ctx, "tank/db@by-hand")
    plan = plan_restore(ctx, target, OPTIONS, FOREIGN)
    assert plan.as_it_is and "crash-consistent" in plan.reason
    assert (plan.base.record.position, plan.base.record.gtid, plan.base.record.lock) == ("", "", "none")
    assert ("the running server" in plan.warnings[0]) == alone
    moment = Moment(world.server.times[3] + timedelta(microseconds=1), "by hand", ZoneInfo("UTC"))

    def job() -> object:
        return restore(ctx, target, OPTIONS, FOREIGN)

    assert require_same_in_the_end(world, ctx, job, moment) >= 9


def test_a_snapshot_of_others_that_no_server_can_be_made_of(world: World, ctx: Context) -> None:
    world.pools.snapshot(["tank/db@torn"], {})
    world.commit()
    world.pools.snapshot(["tank/db/log@torn"], {})
    before = portrait(world)
    for name, said in (
        ("tank/db@torn", "taken one after the other"),
        ("tank/db@zbackup-20200101T000000Z", "there is none of tank/db/log"),
    ):
        with pytest.raises(NotRecoverable, match=said):
            FOREIGN.snapshot(ctx, name)
    for name in ("tank/other@zbackup-1", "tank/db@none"):
        with pytest.raises(NotFound, match="zbackup list shop --foreign"):
            FOREIGN.snapshot(ctx, name)
    ours = ctx.catalog().backups[-1]
    with pytest.raises(Refused, match=f"--to-backup {ours.name}"):
        FOREIGN.snapshot(ctx, str(ours.snapshots[0]))
    assert portrait(world) == before


def test_now_by_a_snapshot_of_the_log(world: World, ctx: Context) -> None:
    """Nobody knows what "now" will be: all that was committed before the command began is there."""
    now = Moment(world.now, "now", ZoneInfo("UTC"), is_now=True)
    kept = world.keep()
    assert restore(ctx, now, OPTIONS).plan.stop == WholeLog(now.exclusive_end)
    world.put_back(kept)
    for each in every_break(world, lambda: restore(ctx, now, OPTIONS), ("fails late", "killed before")):
        if each.known:
            continue
        require_well(world, ctx)
        _again(world, ctx, lambda: restore(ctx, now, OPTIONS))
        require_well(world, ctx)
        rows = world.content(ROWS)["rows"]
        assert set(rows) >= {n for n, at in world.server.times.items() if at < now.at}, each
        clones.destroy([ctx], "r1")
        require_nothing_left(world)
        assert all(b.complete and b.finished for b in ctx.catalog().backups), each


def test_fetched(world: World, ctx: Context, moment: Moment) -> None:
    count = require_same_in_the_end(
        world, ctx, lambda: restore(ctx, moment, OPTIONS, DestinationSource(ctx.destinations[0])), moment
    )
    assert count >= 30 * 4 + 1


def test_where_the_copies_lie(world: World, ctx: Context, moment: Moment) -> None:
    world.pools.create(THERE, {"mountpoint": "/srv/clones", "canmount": "off", "zbackup:clones": "1"})
    source = DestinationSource(ctx.destinations[0], run_at_destination=True)
    count = require_same_in_the_end(
        world,
        ctx,
        lambda: restore(ctx, moment, OPTIONS, source),
        moment,
        place=THERE,
    )
    assert count >= 30 * 4 + 1


@pytest.fixture
def archived(world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch) -> Moment:
    """Behind all backups there is archived log: the moment of its last transaction but two."""
    keep_archives(monkeypatch, world)
    for _ in range(6):
        world.state.elapsed += timedelta(seconds=1)
        world.commit()
    world.archive()
    newest = ctx.catalog().backups[-1].record
    at = world.server.times[world.state.archive[-2]]
    assert newest.complete_to and at > newest.complete_to
    return Moment(at, "then", ZoneInfo("UTC"))


def test_fetched_with_archived_log(world: World, ctx: Context, archived: Moment) -> None:
    """Whatever of it was left, the next run makes it anew."""
    source = DestinationSource(ctx.destinations[0])
    count = require_same_in_the_end(world, ctx, lambda: restore(ctx, archived, OPTIONS, source), archived)
    assert count >= 32 * 4 + 1


def test_with_archived_log_where_the_copies_lie(world: World, ctx: Context, archived: Moment) -> None:
    world.pools.create(THERE, {"mountpoint": "/srv/clones", "canmount": "off", "zbackup:clones": "1"})
    source = DestinationSource(ctx.destinations[0], run_at_destination=True)
    count = require_same_in_the_end(
        world, ctx, lambda: restore(ctx, archived, OPTIONS, source), archived, place=THERE
    )
    assert count >= 32 * 4 + 1


def test_what_only_names_in_an_archive_claim_is_no_restore_up_to_there(
    world: World, ctx: Context, archived: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = DestinationSource(ctx.destinations[0])
    monkeypatch.setattr(ZfsSession, "proven_to", lambda *_: None)
    with pytest.raises(VerificationFailed, match="proves to lead up to"):
        restore(ctx, archived, OPTIONS, source)
    restore(ctx, source.latest(ctx, OPTIONS), OPTIONS, source)
    assert world.content(ROWS)["rows"] == world.state.archive


@pytest.mark.parametrize("back", [2, 8], ids=["archived", "in a backup"])
def test_before_a_transaction_whose_place_is_known_only_when_its_log_is_here(
    world: World, ctx: Context, archived: Moment, monkeypatch: pytest.MonkeyPatch, back: int
) -> None:
    rows = world.state.archive[:-back]
    name, base = Gtid("mysql", UUID, 7), ctx.catalog().backups[0].record
    begin, end = position(len(rows)), position(len(rows) + 1)
    place = Transaction(start=begin, end=end, committed=world.server.times[rows[-1] + 1])
    found = BeforeTransaction(name=name, transaction=place, logs=frozenset((base.log_id,)))
    monkeypatch.setattr(destination_source, "locate_in", lambda *_: found)
    restore(ctx, UnseenTransaction(name, archived.at), OPTIONS, DestinationSource(ctx.destinations[0]))
    assert world.content(ROWS)["rows"] == rows


def test_latest_is_all_that_was_archived(world: World, ctx: Context, archived: Moment) -> None:
    source = DestinationSource(ctx.destinations[0])
    restore(ctx, source.latest(ctx, OPTIONS), OPTIONS, source)
    assert world.content(ROWS)["rows"] == world.state.archive
    clones.destroy([ctx], "r1")
    report = window_at(ctx, ctx.destinations[0])
    found = report.window.overall
    assert "verify shop --at vault --read all proves it" in report.on_trust and report.note == ""
    assert found and found.end and found.end > archived.at
    beyond = replace(archived, at=found.end + timedelta(seconds=1))
    with pytest.raises(NotRecoverable, match="backups and archived log at zfs:vault"):
        restore(ctx, beyond, OPTIONS, source)
    require_nothing_left(world)


def test_what_is_damaged_keeps_nobody_from_what_lies_in_front_of_it(
    world: World, ctx: Context, archived: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_two_files(monkeypatch, world)
    source = DestinationSource(ctx.destinations[0])
    with pytest.raises(VerificationFailed, match=r"binlog.000002 is damaged; what is archived in front of"):
        restore(ctx, source.latest(ctx, OPTIONS), OPTIONS, source)
    holders: list[Backup] = []
    monkeypatch.setattr(destination_source, "_require_proven", lambda *asked: holders.append(asked[-1]))
    restore(ctx, archived, OPTIONS, source)
    assert world.content(ROWS)["rows"] == world.state.archive[:-2]
    assert "binlog.000002 is damaged" in holders[-1].record.server[DAMAGED], "who searches it has to know"


def test_who_searches_knows_that_an_epoch_could_not_be_read(
    world: World, ctx: Context, archived: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is good but what the backup has: an older epoch counts, and may lack the last drop."""
    with_an_unreadable_epoch(monkeypatch, world)
    holders: list[Backup] = []
    monkeypatch.setattr(destination_source, "_require_proven", lambda *asked: holders.append(asked[-1]))
    restore(ctx, archived, OPTIONS, DestinationSource(ctx.destinations[0]))
    assert world.content(ROWS)["rows"] == world.state.archive[:-2]
    assert holders[-1].record.server[DAMAGED] == "its first chunk is damaged"


def test_what_archived_log_goes_on_from_is_held_while_that_is_read(
    world: World, ctx: Context, archived: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prune keeps what a backup needs that it cannot destroy."""
    held = held_while_read(monkeypatch, world)
    restore(ctx, archived, OPTIONS, DestinationSource(ctx.destinations[0]))
    assert held and all(held)


def test_archived_log_that_is_pruned_meanwhile_is_told_in_one_line(
    world: World, ctx: Context, archived: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone_while_read(monkeypatch, world)
    with pytest.raises(
        NotFound, match=r"binlog.000001 .* was removed from the log archive at there mean.*again"
    ):
        restore(ctx, archived, OPTIONS, DestinationSource(ctx.destinations[0]))
    clones.destroy([ctx], "r1.copy")
    require_nothing_left(world)


def test_of_two_ways_nobody_chooses_but_who_restores(
    world: World, ctx: Context, archived: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_a_short_epoch(monkeypatch, world)
    source = DestinationSource(ctx.destinations[0])
    with pytest.raises(Refused, match=r"two ways from binlog.000001 on.*--epoch 7 or --epoch 0"):
        restore(ctx, source.latest(ctx, OPTIONS), OPTIONS, source)
    copy = find_clone(ctx, "r1.copy")
    assert copy and copy[0].state == "ready", "it can be gone on with"
    assert not [d.name for d in world.pools.children(f"{CLONES}/r1.copy") if ADDED in d.properties]
    chosen = replace(OPTIONS, epoch=7)
    restore(ctx, source.latest(ctx, chosen), chosen, source)
    assert world.content(ROWS)["rows"] == world.state.archive[:-1]
    clones.destroy([ctx], "r1")
    chosen = replace(OPTIONS, epoch=0)
    restore(ctx, source.latest(ctx, chosen), chosen, source)
    assert world.content(ROWS)["rows"] == world.state.archive
    copy = find_clone(ctx, "r1.copy")
    assert copy and copy[0].state == "ready"


def test_archived_log_of_another_history_is_not_restored_from(
    world: World, ctx: Context, archived: Moment
) -> None:
    """It has the right name and number. Nothing else that lies there is touched."""
    world.state.archive = tuple(reversed(world.state.archive))
    source, before = DestinationSource(ctx.destinations[0]), _portrait(world)
    with pytest.raises(NotRecoverable, match="the archived log is another one"):
        restore(ctx, source.latest(ctx, OPTIONS), OPTIONS, source)
    clones.destroy([ctx], "r1.copy")
    assert _portrait(world) == before
    require_nothing_left(world)


def test_destroying_what_was_fetched_for(world: World, ctx: Context, moment: Moment) -> None:
    before = _portrait(world)
    restore(ctx, moment, OPTIONS, DestinationSource(ctx.destinations[0]))
    for each in every_break(world, lambda: clones.destroy([ctx], "r1")):
        if each.known:
            continue
        require_well(world, ctx)
        try:
            clones.destroy([ctx], "r1")
        except NotFound:
            # An unmount that took effect has not failed: the first run came to its end.
            assert each.nth > 4 or each.broke[1] == "unmount"
        assert _portrait(world) == before, each
        require_nothing_left(world)


@pytest.mark.parametrize("only_reads", [True, False])
def test_kept_for_a_look(world: World, ctx: Context, moment: Moment, only_reads: bool) -> None:
    """With `keep` what failed stays, and nothing else: with the clone of the log where there was one."""
    world.only_reads = only_reads
    keeping = replace(OPTIONS, keep=True)
    for each in every_break(world, lambda: restore(ctx, moment, keeping), WAYS[:1]):
        require_well(world, ctx)
        if each.broke[1] == "recover":
            assert find_clone(ctx, "r1")
            assert bool(find_clone(ctx, "r1.log")) != only_reads


def test_what_was_searched_for_is_proven_in_a_second_clone(
    world: World, ctx: Context, moment: Moment
) -> None:
    """Of which nothing is left, however the proof is broken: the last changes of a restore are its own."""
    proving = replace(OPTIONS, proves=ProofSubject())
    report = restore(ctx, moment, proving)
    assert report.proof and report.proof.result == "proved"
    assert set(world.state.servers) == {"r1"}
    assert not [line for line in portrait(world) if "second" in line]
    clones.destroy([ctx], "r1")
    require_nothing_left(world)
    require_same_in_the_end(world, ctx, lambda: restore(ctx, moment, proving), moment)


@pytest.mark.parametrize(
    ("sights", "in_production", "goes_on"),
    [
        ((Sight(),), None, True),
        ((SEEN, SEEN), True, True),
        ((SEEN, SEEN), False, False),
        ((SEEN, SEEN), None, False),
    ],
)
def test_what_is_disproved_is_refused_and_nothing_is_left(
    world: World,
    ctx: Context,
    moment: Moment,
    sights: tuple[Sight, ...],
    in_production: bool | None,
    goes_on: bool,
) -> None:
    world.sights, world.production_has = sights, in_production
    subject = ProofSubject(kind="drop", table=TableName("shop", "orders"))
    with pytest.raises(Disproved, match="is not what you asked for: in the recovered server, ") as wrong:
        restore(ctx, moment, replace(OPTIONS, proves=subject))
    assert wrong.value.goes_on == goes_on and wrong.value.exit_status == 11
    require_nothing_left(world)
    assert not world.state.servers


@pytest.mark.parametrize("failure", [OSError(ENOSPC, "No space left on device"), NotFound("it is gone")])
def test_what_keeps_the_second_clone_from_being_looked_at_takes_nothing_of_what_was_recovered(
    world: World, ctx: Context, moment: Moment, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fails(*_: object) -> Sight:
        raise failure

    monkeypatch.setattr(ctx.recovery, "step_on", fails)
    report = restore(ctx, moment, replace(OPTIONS, proves=ProofSubject()))
    assert report.proof and report.proof.result == "open"
    assert set(world.state.servers) == {"r1"}
    assert not [line for line in portrait(world) if "second" in line]


def test_a_statement_that_fails_one_transaction_later_is_not_the_one(
    world: World, ctx: Context, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sights = (SEEN,)

    def fails(*_: object) -> Sight:
        raise ReplayFailed("replay failed: Unknown table")

    monkeypatch.setattr(ctx.recovery, "step_on", fails)
    subject = ProofSubject(kind="drop", table=TableName("shop", "orders"))
    with pytest.raises(Disproved, match="the statement fails: replay failed"):
        restore(ctx, moment, replace(OPTIONS, proves=subject))
    world.sights = (Sight(),)
    report = restore(ctx, moment, replace(OPTIONS, proves=ProofSubject()))
    assert report.proof and report.proof.result == "open", (
        "a transaction that no server can replay has a name"
    )
    assert "warning: the result of the search could not be checked" in " ".join(world.notes)
