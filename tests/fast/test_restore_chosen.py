"""The choice of a restore on this host, by what is stored, what the server says, and what is asked for."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fast.right import portrait, require_nothing_left
from tests.fast.server import DATA, UUID, FakeEngine, FakeRecovery, position
from tests.fast.world import World
from zbackup.jobs.backup.snapshot import SnapshotOptions, snapshot
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones.clone_datasets import find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.restore.foreign_source import FOREIGN
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import plan_restore, restore
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.log import Transaction
from zbackup.model.moment import Moment
from zbackup.model.recovery import Recovered, RecoveryFiles, ReplayRange
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import Gtid
from zbackup.model.unreplayable import Unreplayable

OPTIONS = RestoreOptions(name="r1")
ROWS = "/srv/clones/r1/0"
UTC = ZoneInfo("UTC")
OFF = "the binlog is off: set log_bin"
LEAVES_OUT = "the binlog leaves databases out (shop)"


@pytest.fixture
def ctx(world: World) -> Context:
    """Production with two backups."""
    made = world.context()
    for _ in range(2):
        snapshot(made)
        world.state.elapsed += timedelta(minutes=1)
    return made


@pytest.fixture
def between(world: World, ctx: Context) -> Moment:
    """A moment that the second backup's log reaches."""
    newest = ctx.catalog().backups[-1]
    return Moment(world.server.times[world.content_of(newest)[-3]], "then", UTC)


def now(world: World, text: str = "now") -> Moment:
    return Moment(world.now, text, UTC, is_now=True)


def say(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """The server says that of itself."""
    really = FakeEngine.inspect
    monkeypatch.setattr(FakeEngine, "inspect", lambda engine: replace(really(engine), **changes))


def restored(world: World, ctx: Context) -> tuple[int, ...]:
    rows: tuple[int, ...] = world.content(ROWS)["rows"]
    clones.destroy([ctx], "r1")
    require_nothing_left(world)
    return rows


def names(ctx: Context) -> list[str]:
    return [b.name for b in ctx.catalog().backups]


def lose_a_part(world: World, ctx: Context, backup: Backup) -> None:
    world.pools.snapshot_called(str(backup.snapshots[1])).holds.clear()
    ctx.zfs.destroy_snapshot(backup.snapshots[1])


def test_a_backup_that_cannot_be_read_is_told_of(world: World, ctx: Context, between: Moment) -> None:
    snapshot(ctx)
    broken = f"tank/db@{names(ctx)[-1]}"
    world.pools.snapshot_called(broken).properties["zbackup:taken"] = "some day"
    for job in (plan_restore, restore):
        world.notes.clear()
        job(ctx, between, OPTIONS)
        assert [note for note in world.notes if note.startswith(f"{broken} and so its backup cannot be read")]


def test_a_backup_that_is_not_finished_keeps_nobody_from_the_others(
    world: World, ctx: Context, between: Moment
) -> None:
    first, _ = names(ctx)
    snapshot(ctx)
    for part in ctx.catalog().backups[-1].snapshots:
        for fact in ("as_of", "complete_to"):
            world.pools.snapshot_called(str(part)).properties.pop(f"zbackup:{fact}", None)
    assert not ctx.catalog().backups[-1].finished
    assert plan_restore(ctx, between, OPTIONS).base.name == first


def test_what_cannot_be_left_out_is_refused_before_a_snapshot_is_taken(world: World, ctx: Context) -> None:
    after = Transaction(start=position(99), end=position(100), committed=world.now)
    had = names(ctx)
    for job in (plan_restore, restore):
        with pytest.raises(Refused, match="is not before the target anyway"):
            job(ctx, now(world), replace(OPTIONS, skip=after))
    assert names(ctx) == had


def test_latest_of_a_server_without_a_log_is_its_newest_backup(world: World, ctx: Context) -> None:
    """No log leads on from that one to now."""
    world.server.blockers = (OFF,)
    snapshot(ctx)
    world.commit()
    newest = ctx.catalog().backups[-1]
    latest = LOCAL.latest(ctx, OPTIONS)
    assert (latest.at, latest.is_now) == (newest.record.as_of, False)
    assert plan_restore(ctx, latest, OPTIONS).as_it_is
    for job in (plan_restore, restore):
        with pytest.raises(Refused, match=r"cannot be recovered to a moment: the binlog is off.*--to-backup"):
            job(ctx, now(world), OPTIONS)
    restore(ctx, latest, OPTIONS)
    assert restored(world, ctx) == world.content_of(newest)


def test_what_cannot_be_opened_is_refused_before_anything_is_made(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.server.blockers = (OFF,)
    snapshot(ctx)
    own, foreign = LOCAL.latest(ctx, OPTIONS), FOREIGN.snapshot(ctx, "tank/db@by-hand")
    before = portrait(world)
    for check in ("check_openable", "check_program"):

        def refuses(*_: object, check: str = check) -> str:
            raise Refused(f"not with this one: {check}")

        with monkeypatch.context() as patch:
            patch.setattr(FakeRecovery, check, refuses)
            for job in (plan_restore, restore):
                with pytest.raises(Refused, match=check):
                    job(ctx, own, OPTIONS)
                with pytest.raises(Refused, match=check):
                    job(ctx, foreign, OPTIONS, FOREIGN)
    assert portrait(world) == before


def test_what_the_server_logs_now_is_no_matter_where_its_backups_have_the_log(
    world: World, ctx: Context, between: Moment
) -> None:
    world.server.blockers = (LEAVES_OUT,)
    had = names(ctx)
    plan_restore(ctx, between, OPTIONS)
    restore(ctx, between, OPTIONS)
    assert names(ctx) == had, "no snapshot is taken for a log that is there"
    wanted = tuple(n for n, at in world.server.times.items() if at < between.exclusive_end)
    assert restored(world, ctx) == wanted


def test_what_another_server_says_and_what_is_not_of_the_log_keeps_nobody_back(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for changes in (
        {"server_uuid": UUID.replace("3", "4"), "blockers": (LEAVES_OUT,)},
        {"blockers": ("InnoDB's redo log is disabled",)},
    ):
        with monkeypatch.context() as patch:
            say(patch, **changes)
            asked = now(world)
            for job in (plan_restore, restore):
                job(ctx, asked, OPTIONS)
        assert set(restored(world, ctx)) >= {n for n, at in world.server.times.items() if at < asked.at}


def test_latest_does_not_end_in_silence_where_the_log_left_something_out(world: World, ctx: Context) -> None:
    """As it does where the log ended, which is said."""
    oldest = names(ctx)[0]
    world.server.blockers = (LEAVES_OUT,)
    snapshot(ctx)
    world.server.blockers = ()
    latest = Moment(world.now, "latest", UTC, is_now=True)
    for job in (plan_restore, restore):
        with pytest.raises(NotRecoverable, match=r"no whole log leads there.*leaves databases out"):
            job(ctx, latest, replace(OPTIONS, base=oldest))


def test_a_drill_reads_the_log_that_is_stored_and_takes_no_snapshot(world: World, ctx: Context) -> None:
    """Of what is stored that which leads farthest, whatever is newer but does not lead on."""
    stored = replace(OPTIONS, stored_only=True)
    first, second = ctx.catalog().backups
    world.server.blockers = (LEAVES_OUT,)
    plan_restore(ctx, now(world), stored)
    for _ in range(2):
        world.commit()
    snapshot(ctx)
    had = names(ctx)
    restore(ctx, now(world), replace(stored, base=first.name))
    assert names(ctx) == had
    assert restored(world, ctx) == world.content_of(second)


def test_where_no_record_tells_of_the_log_a_drill_reads_the_newest_whole_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = world.context()
    monkeypatch.setattr(FakeRecovery, "log_span", lambda *_, **__: None)
    for _ in range(3):
        snapshot(ctx)
    first, second, third = ctx.catalog().backups
    lose_a_part(world, ctx, third)
    restore(ctx, now(world), replace(OPTIONS, stored_only=True, base=first.name))
    assert restored(world, ctx) == world.content_of(second)


def test_a_server_that_goes_down_meanwhile_is_not_believed_to_have_sent_its_log(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is read through it, and was, and could not be when the snapshot was taken."""
    world.server.sealed = True
    asked = now(world)
    really = FakeRecovery.bring_up_to_date

    def goes_down(recovery: FakeRecovery, live: Any) -> None:
        really(recovery, live)
        world.server.running = False

    monkeypatch.setattr(FakeRecovery, "bring_up_to_date", goes_down)
    with pytest.raises(NotRecoverable, match=r"has to send.*does not answer.*--to latest"):
        restore(ctx, asked, OPTIONS)
    require_nothing_left(world)


def test_what_a_replica_lacks_is_told_once_also_where_only_its_replay_shows_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, role="replica")
    ctx = world.context()
    snapshot(ctx)
    world.server.running = False
    later = now(world)
    lacking = "what its source committed after that and before the target is not in it"

    def told() -> list[str]:
        world.notes.clear()
        restore(ctx, later, OPTIONS)
        clones.destroy([ctx], "r1")
        return [note for note in world.notes if lacking in note]

    found: list[ReplayRange] = []
    examine, recover = FakeRecovery.examine, FakeRecovery.recover

    def proven(recovery: FakeRecovery, *given: Any, **options: Any) -> Recovered:
        return replace(recover(recovery, *given, **options), replay=found[-1])

    monkeypatch.setattr(FakeRecovery, "recover", proven)
    for afterwards in (False, True):

        def examined(*given: Any, afterwards: bool = afterwards) -> ReplayRange | None:
            replay = examine(*given)
            assert replay
            found.append(replay)
            return None if afterwards else replay

        monkeypatch.setattr(FakeRecovery, "examine", examined)
        assert len(told()) == 1


def test_what_was_accepted_of_a_clock_is_in_the_report(world: World, ctx: Context, between: Moment) -> None:
    report = restore(ctx, between, OPTIONS)
    assert not report.clock_accepted
    assert replace(report, recovered=replace(report.recovered, clock_accepted=True)).clock_accepted
    replay = report.replay
    assert replay
    disputed = replace(report.plan, replay=replace(replay, later=replay))
    assert replace(report, plan=disputed).clock_accepted


def test_the_clone_says_up_to_where_it_was_recovered(world: World, ctx: Context, between: Moment) -> None:
    report = restore(ctx, between, OPTIONS)
    found = find_clone(ctx, "r1")
    assert found and found[0].reached == report.recovered.position != ""


def test_what_is_asked_for_as_it_is_was_so_at_its_own_moment(world: World, ctx: Context) -> None:
    world.writing = False
    snapshot(ctx, SnapshotOptions(label="deploy"))
    newest = ctx.catalog().backups[-1]
    assert newest.record.as_of != newest.record.taken
    for target in (LOCAL.backup(ctx, newest.name), LOCAL.labelled(ctx, "deploy")):
        assert (target.name, target.at) == (newest.name, newest.record.as_of)


def test_before_a_transaction_is_by_its_place_whatever_its_time_says(world: World, ctx: Context) -> None:
    """A base that holds it already does not do, though it is from before that time."""
    first, second = ctx.catalog().backups
    number = len(world.content_of(first))
    transaction = Transaction(start=position(number), end=position(number + 1), committed=world.now)
    logs = frozenset((first.record.log_id,))
    target = BeforeTransaction(name=Gtid("mysql", UUID, 7), transaction=transaction, logs=logs)
    plan = plan_restore(ctx, target, OPTIONS)
    assert (plan.base.name, plan.log and plan.log.name) == (first.name, second.name)
    restore(ctx, target, OPTIONS)
    assert restored(world, ctx) == world.content_of(second)[:number]


def test_the_next_log_is_read_where_one_proves_not_to_lead_on(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless what failed is kept for a look."""
    snapshot(ctx)
    first, second, third = ctx.catalog().backups
    target = Moment(world.server.times[world.content_of(first)[-1] + 2], "then", UTC)
    plan = plan_restore(ctx, target, OPTIONS)
    assert plan.log == second and plan.others == (third,)
    assert not plan.reason.endswith("does not lead there")
    really, examine = FakeRecovery.recover, FakeRecovery.examine

    def leads_on(recovery: FakeRecovery, base: Any, log: Any, *rest: Any) -> ReplayRange | None:
        if second.name in str(log.where.path(DATA)):
            raise NotRecoverable("another server's")
        return examine(recovery, base, log, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(FakeRecovery, "examine", leads_on)
        plan = plan_restore(ctx, target, OPTIONS)
        assert plan.log == third and plan.reason.endswith(", but does not lead there")
    tried: list[str] = []

    def leads_on_later(
        recovery: FakeRecovery, base: RecoveryFiles, log: RecoveryFiles, *rest: Any, **options: Any
    ) -> Recovered:
        tried.append(str(log.where.path(DATA)))
        if len(tried) == 1:
            raise NotRecoverable("another server's")
        return really(recovery, base, log, *rest, **options)

    monkeypatch.setattr(FakeRecovery, "recover", leads_on_later)
    report = restore(ctx, target, OPTIONS)
    assert report.plan.log == third and report.plan.others == ()
    assert [second.name in tried[0], third.name in tried[1]] == [True, True]
    assert f"{second.name} does not lead there (another server's): trying {third.name}" in world.notes
    assert restored(world, ctx) == tuple(
        n for n, at in world.server.times.items() if at < target.exclusive_end
    )
    tried.clear()
    with pytest.raises(NotRecoverable, match="another server's"):
        restore(ctx, target, replace(OPTIONS, keep=True))
    assert len(tried) == 1


def test_of_a_foreign_snapshot_its_nearest_whole_backup_tells(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of that nothing that was so at its own moment alone."""
    ctx = world.context()
    facts: dict[str, str] = {"datadir": f"{DATA}/data/", "oplog_bytes": "990", "oplog_first": "7"}
    for torn in (0, 0, 3):
        with monkeypatch.context() as patch:
            say(patch, server=facts, non_transactional_count=torn)
            snapshot(ctx, SnapshotOptions(label="deploy"))
    first, second, third = ctx.catalog().backups
    target = FOREIGN.snapshot(ctx, "tank/db@by-hand")
    lose_a_part(world, ctx, first)
    plan = plan_restore(ctx, target, OPTIONS, FOREIGN)
    assert plan.warnings == (f"what its server was like is taken from {second.name}",)
    known = plan.base.record
    lose_a_part(world, ctx, second)
    assert plan_restore(ctx, target, OPTIONS, FOREIGN).warnings == (
        f"what its server was like is taken from {third.name}",
        "about 3 tables without transactions may be torn: check them",
    )
    assert (known.server.get("oplog_bytes"), known.server.get("oplog_first"), known.label) == (
        "990",
        None,
        "",
    )


@pytest.mark.parametrize("lacking", [1, 2])
def test_a_base_that_lacks_a_temporary_table_gives_way_to_an_older_one(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    """The newest is passed over. Where none is left, or it was asked for by name, the restore refuses."""
    backups = ctx.catalog().backups
    bad = {b.record.backup for b in backups[-lacking:]}
    examine = FakeRecovery.examine

    def stopped(recovery: FakeRecovery, base: Any, *rest: Any) -> ReplayRange | None:
        replay = examine(recovery, base, *rest)
        assert replay
        subject = Transaction(start="f:1", end="f:2", committed=world.now, gtid="0-1-2")
        why = Unreplayable(subject, "it uses temporary tables of session 7", of_base=True)
        return replace(replay, stopped=why) if base[0].backup in bad else replay

    monkeypatch.setattr(FakeRecovery, "examine", stopped)
    with pytest.raises(NotRecoverable, match="session 7"):
        plan_restore(ctx, now(world), replace(OPTIONS, base=backups[-1].name))
    if lacking == len(backups):
        with pytest.raises(NotRecoverable, match="session 7"):
            restore(ctx, now(world), OPTIONS)
        return
    plan = plan_restore(ctx, now(world), OPTIONS)
    assert plan.base == backups[0] and "lacks temporary tables" in plan.reason
    assert restore(ctx, now(world), OPTIONS).plan.base == backups[0]
    assert restored(world, ctx)
