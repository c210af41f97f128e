"""The overview of a host's instances and clones that the pages are shown."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.fast.right import portrait
from tests.fast.server import FakeRecovery
from tests.fast.test_drill import POOL
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, World
from zbackup.features.webpage.overview import inspect as room
from zbackup.features.webpage.overview.inspect import Subject, inspect
from zbackup.jobs.archive.state import ArchiveState
from zbackup.jobs.backup.snapshot import SnapshotOptions, snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.jobs.dev_clones.lease import protect
from zbackup.jobs.drills.verdicts import write_down
from zbackup.jobs.journal import JobState
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.jobs.ship.lag import Shipped
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.watch import status
from zbackup.model.cloning import CloneRules, Mask
from zbackup.model.drill import DrillVerdict
from zbackup.model.errors import CommandFailed, DatasetNotFound, Refused
from zbackup.model.operator_notes import NO_NOTES, OperatorNotes, Pause
from zbackup.model.overview import Overview, OverviewBackup, OverviewDestination, OverviewInstance
from zbackup.model.record import Record
from zbackup.model.retention import Retention, Span, Tier
from zbackup.model.space import DatasetSettings, Space
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.zfs.facts import ZfsFacts

HOUR = timedelta(hours=1)
RULES = Retention(
    tiers=(Tier(step=Span(1, "hour"), span=None), Tier(step=Span(1, "day"), span=Span(9, "day"))), minimum=1
)
SETTINGS = (("timezone", "Europe/Berlin"),)
EMPTIED = Shipped(destination="vault", newest=None, behind=None, max_lag=None)
QUOTAS = {f"{CLONES}/dev": "4096"}


@pytest.fixture
def ctx(world: World, monkeypatch: pytest.MonkeyPatch) -> Context:
    """Three backups, two of one hour, on a pool with room; nothing is committed by the way."""
    free = Space(data=7, snapshots=5, clones=3, available=1 << 40, pool=POOL)

    def settings(_: object, names: Sequence[str]) -> tuple[DatasetSettings, ...]:
        assert names, "that would be all there are"
        if gone := [name for name in names if name not in world.pools.datasets]:
            raise DatasetNotFound(("zfs", "get", *names), 1, f"cannot open '{gone[0]}'")
        return tuple(DatasetSettings(name=n, values={"quota": QUOTAS[n]}) for n in names if n in QUOTAS)

    monkeypatch.setattr(ZfsFacts, "settings", settings)
    monkeypatch.setattr(status, "space", lambda *_: free)
    monkeypatch.setattr(status, "server_process", world.server_process)
    made = world.context(retention=RULES)
    for hours in (0.1, 1, 1):
        snapshot(made)
        world.state.elapsed += hours * HOUR
    world.writing = False
    return made


def shown(*contexts: Context, jobs: Sequence[JobState] = (), notes: OperatorNotes = NO_NOTES) -> Overview:
    subjects = [Subject(each, Expected()) for each in contexts]
    return inspect(subjects, "db1", jobs, notes, daemon_runs=True, settings=SETTINGS)


def instance(ctx: Context, **more: Any) -> OverviewInstance:
    (found,) = shown(ctx, **more).instances
    assert not found.problem
    return found


def backups(ctx: Context) -> list[OverviewBackup]:
    return list(instance(ctx).backups)


def test_an_instance_is_shown_with_its_newest_backup_and_nothing_is_changed(
    world: World, ctx: Context
) -> None:
    job = JobState(instance="shop", job="prune", failures=3, failed=world.now, message="busy")
    before, newest = portrait(world), ctx.catalog().backups[-1]
    seen = shown(ctx, jobs=(job, replace(job, instance="wiki")))
    assert portrait(world) == before
    assert (seen.host, seen.zone, seen.settings) == ("db1", "Europe/Berlin", SETTINGS) and seen.daemon_runs
    (found,) = seen.instances
    assert (found.name, found.engine, found.problem) == ("shop", "mysql", "")
    assert (found.newest, found.newest_taken) == (newest.name, newest.record.taken)
    assert [(j.job, j.failures, j.message) for j in found.jobs] == [("prune", 3, "busy")]
    assert [(r.live, r.to <= world.now) for r in found.ranges] == [(True, True)]
    assert seen.clones == () and seen.clones_problem == ""


def test_where_there_is_no_backup_yet_nothing_is_the_newest(ctx: Context) -> None:
    found = instance(replace(ctx, instance="new"))
    assert (found.newest, found.newest_taken, found.backups) == ("", None, ())
    assert found.room and found.room.days is None and found.health != "ok"


def test_what_cannot_be_looked_at_keeps_nothing_else_from_being_shown(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = replace(ctx, instance="wiki", datasets=("tank/wiki",))
    well, lost = shown(ctx, gone).instances
    assert (well.problem, well.backups != ()) == ("", True)
    assert (lost.name, lost.health) == ("wiki", "critical") and "tank/wiki" in lost.problem

    def broken(*_: object) -> None:
        raise CommandFailed(("zfs", "list"), 1, "out of order")

    monkeypatch.setattr(room, "list_clones", broken)
    seen = shown(ctx)
    assert seen.clones == () and "out of order" in seen.clones_problem and seen.instances[0].backups


def test_a_backup_is_shown_with_the_tiers_that_keep_it_and_how_long(ctx: Context) -> None:
    first, second, third = backups(ctx)
    assert [each.tiers for each in (first, second, third)] == [("hourly", "daily"), (), ("hourly",)]
    assert first.keep[0].startswith("hourly ") and first.forever
    assert (second.keep, second.until) == ((), None), "it goes at the next prune"
    assert {each.kind for each in (first, second, third)} == {"base"}
    record = ctx.catalog().backups[0].record
    assert (first.taken, first.as_of, first.label) == (record.taken, record.as_of, "")
    snapshot(ctx, SnapshotOptions(label="before the migration"))
    assert backups(ctx)[-1].label == "before the migration"


def test_a_backup_of_which_something_is_missing_is_unsound(world: World, ctx: Context) -> None:
    first, second, _ = ctx.catalog().backups
    for part in second.snapshots:
        for fact in ("as_of", "complete_to"):
            world.pools.snapshot_called(str(part)).properties.pop(f"zbackup:{fact}", None)
    ctx.zfs.destroy_snapshot(first.snapshots[1])
    assert [each.kind for each in backups(ctx)] == ["unsound", "unsound", "base"]


def test_a_log_that_was_taken_alone_is_no_backup(world: World, ctx: Context) -> None:
    world.commit()
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="r1"))
    assert [each.kind for each in backups(ctx)][-1] == "log"


def test_what_cannot_be_opened_is_shown_as_that(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ctx.catalog().backups[1].record.backup

    def check(_: object, record: Record) -> None:
        if record.backup == odd:
            raise Refused("no mysqld of its version is here")

    monkeypatch.setattr(FakeRecovery, "check_openable", check)
    assert [each.opens for each in backups(ctx)] == [True, False, True]


def test_what_drills_proved_is_on_the_backup_and_in_the_list(world: World, ctx: Context) -> None:
    first, second, _ = ctx.catalog().backups
    for each, why in ((first, ""), (second, "it does not open")):
        verdict = DrillVerdict(
            backup=each.record.backup, name=each.name, at=world.now, tables=4, unchecked=2, why=why
        )
        write_down(ctx, "", each, verdict)
    found = instance(ctx)
    assert [each.drill for each in found.backups] == ["passed", "failed", ""]
    assert [(d.destination, d.backup, d.tables, d.unchecked, d.why) for d in found.drills] == [
        ("", first.name, 4, 2, ""),
        ("", second.name, 4, 2, "it does not open"),
    ]


def test_how_long_the_room_lasts_is_told_where_anything_is_written(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for written, days in ((None, None), (0.0, None), (float(POOL.free) / 8, 8.0)):
        monkeypatch.setattr(room, "written_a_day", lambda *_, a_day=written: a_day)
        found = instance(ctx).room
        assert found and (found.days, found.pool, found.data, found.snapshots, found.clones) == (
            days, POOL.name, 7, 5, 3,
        )  # fmt: skip


def test_a_pause_is_shown_with_its_end_and_its_reason_if_there_is_one(world: World, ctx: Context) -> None:
    end = world.now.replace(hour=20, minute=0, second=0, microsecond=7)
    for reason, said in (("", ""), ("a new rack", ": a new rack")):
        notes = OperatorNotes(paused={"shop": Pause(until=end, reason=reason)})
        assert instance(ctx, notes=notes).paused == f"until 2024-05-01 22:00:00 CEST{said}"
    assert instance(ctx).paused == ""


def destination(ctx: Context) -> tuple[OverviewDestination, datetime]:
    """How it is shown, and when that was looked at."""
    seen = instance(ctx)
    (found,) = seen.destinations
    return found, seen.looked


def test_a_destination_is_shown_with_what_arrived_there(world: World, ctx: Context) -> None:
    there = world.destination()
    bare = replace(ctx, destinations=(there,))
    found, _ = destination(bare)
    assert (found.name, found.address, found.newest) == ("vault", there.adapter.address, "")
    assert (found.taken, found.as_of, found.lost, found.max_lag, found.archived) == (None,) * 5
    ship(bare, there)
    newest = ctx.catalog().backups[-1]
    found, looked = destination(replace(ctx, destinations=(replace(there, max_lag=2 * HOUR),)))
    assert (found.newest, found.taken) == (newest.name, newest.record.taken)
    assert (found.as_of, found.max_lag, found.archived) == (newest.record.as_of, 7200.0, None)
    assert found.lost == (looked - newest.record.taken).total_seconds()


def test_what_would_be_lost_is_no_more_than_what_is_not_archived(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = world.destination()
    bare = replace(ctx, destinations=(there,))
    ship(bare, there)
    taken = ctx.catalog().backups[-1].record.taken
    long_ago, not_yet, just_now = (world.now + hours * HOUR for hours in (-9, 9, 0))
    for archived, since in ((long_ago, taken), (not_yet, taken), (just_now, just_now)):
        state = ArchiveState(destination="vault", every=60, tried=world.now, archived=archived)
        monkeypatch.setattr(status, "archive_states", lambda *_, state=state: (state,))
        found, looked = destination(bare)
        assert (found.archived, found.lost) == (archived, (looked - since).total_seconds())
    monkeypatch.setattr(status, "shipped", lambda *_: (EMPTIED,))
    assert destination(bare)[0].lost is None, "what is archived leads nowhere without a backup"


def test_a_clone_is_shown_with_where_it_came_from_and_how_far_it_may_grow(world: World, ctx: Context) -> None:
    rules = CloneRules(lease=3600.0, quota=4096, mask=(Mask(sql="/x"),))
    newest = ctx.catalog().backups[-1].name
    list(create(ctx, CreateOptions(name="dev", lease=3600)))
    unfinished(ctx, "theirs", kind="dev", state="ready", instance="wiki")
    unfinished(ctx, "child", kind="dev", state="ready", parent="dev", target="2024-05-01T12:00:00+00:00")
    unfinished(ctx, "own", kind="dev", state="ready", parent="dev", copied=True)
    seen = shown(replace(ctx, cloning=rules))
    (found,) = seen.instances
    assert (found.clone_lease, found.clone_quota, found.clone_masks) == (3600.0, 4096, 1)
    child, dev, own = sorted(seen.clones, key=lambda clone: clone.name)
    assert (dev.origin, child.origin, own.origin) == (newest, "dev", "its own copy")
    assert (dev.running, child.running) == (True, False)
    assert (dev.quota, child.quota) == (4096, 0)
    assert dev.lease_ends and dev.lease_ends - dev.created >= HOUR and child.lease_ends is None
    assert child.target and child.target.isoformat() == "2024-05-01T12:00:00+00:00" and own.target is None
    assert dev.protected_until is None
    end = world.now + 9 * HOUR
    protect([ctx], "dev", end)
    (dev,) = (clone for clone in shown(ctx).clones if clone.name == "dev")
    assert dev.protected_until == dev.lease_ends == end


def test_a_clone_that_goes_meanwhile_takes_no_others_bound_away(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(create(ctx, CreateOptions(name="dev")))
    listed = room.list_clones

    def with_one_gone(contexts: Sequence[Context]) -> Any:
        found = listed(contexts)
        gone = replace(found.clones[0], dataset=f"{CLONES}/gone")
        return replace(found, clones=(gone, *found.clones))

    monkeypatch.setattr(room, "list_clones", with_one_gone)
    assert [clone.quota for clone in shown(ctx).clones] == [0, 4096]
