"""A prune, broken at every change; here, and at a destination."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from tests.fast.breaking import Break, every_break
from tests.fast.right import portrait, require_nothing_left, require_well
from tests.fast.world import World
from zbackup.config.load import parse
from zbackup.daemon.tasks import jobs
from zbackup.jobs.backup.end_keep import end_keep, find_kept
from zbackup.jobs.backup.prune import PruneReport, prune
from zbackup.jobs.backup.snapshot import SnapshotOptions, snapshot
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.context import Context
from zbackup.jobs.journal import Journal
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.errors import CommandFailed, NotFound, ZbackupError
from zbackup.model.moment import Moment
from zbackup.model.record import from_properties
from zbackup.model.retention import CONDEMNED, Retention, Span

MONTH = 30 * 86_400.0
RULES = Retention(last=2, minimum=1, window=Span(1, "minute"))


@pytest.fixture
def ctx(world: World) -> Context:
    """Five backups, of which three are to go."""
    made = world.context(retention=RULES)
    for _ in range(5):
        snapshot(made)
        world.state.elapsed += timedelta(hours=1)
        world.commit()
    return made


def test_the_next_prune_does_the_rest(world: World, ctx: Context) -> None:
    kept = world.keep()
    prune(ctx)
    wanted = portrait(world)
    world.put_back(kept)
    newest = {b.record.backup for b in ctx.catalog().backups[-2:]}
    # The look at each backup is one change: the mark on the first, and the end of both.
    assert _breaks(world, ctx, lambda each: _require_rest_goes(world, ctx, wanted, newest, each)) == 9 * 4 + 1


def _breaks(world: World, ctx: Context, look: Callable[[Break], None]) -> int:
    count = 0
    for each in every_break(world, lambda: prune(ctx)):
        count += 1
        if not each.known:
            look(each)
    return count


def _require_rest_goes(world: World, ctx: Context, wanted: list[str], newest: set[str], each: Break) -> None:
    require_well(world, ctx)
    there = ctx.catalog().backups
    assert newest <= {b.record.backup for b in there if b.complete and b.finished}, each
    incomplete = [b for b in there if not b.complete]
    assert all(CONDEMNED in dict(s.properties) for b in incomplete for s in b.snapshots), each
    report = prune(ctx)
    assert not report.skipped, each
    require_well(world, ctx)
    require_nothing_left(world)
    assert portrait(world) == wanted, each


def test_a_snapshot_that_took_a_name_over_is_not_destroyed(world: World, ctx: Context) -> None:
    """Between the look and the act somebody destroys one and takes another of the same name."""
    oldest = ctx.catalog().backups[0]
    name, swapped = str(oldest.snapshots[1]), []

    def swap(argv: tuple[str, ...], mutates: bool, act: Callable[[], object]) -> object:
        if argv[1] == "get" and argv[-1] == name and "guid" in argv and not swapped:
            world.pools.destroy_snapshot(name)
            world.pools.snapshot([name], {})
            swapped.append(world.pools.snapshot_called(name).guid)
        return act()

    world.passing = swap
    report = prune(ctx)
    assert [s.backup.record.backup for s in report.skipped] == [oldest.record.backup]
    assert world.pools.snapshot_called(name).guid == swapped[0]


def test_what_is_condemned_and_wanted_again_is_spared(world: World, ctx: Context) -> None:
    """A prune was cut short before anything went, and the rules are wider by now."""
    for each in every_break(world, lambda: prune(ctx), ("killed after",)):
        assert CONDEMNED in str(each.broke)
        break
    wide = world.context(retention=Retention(last=5, minimum=1, window=Span(1, "minute")))
    spared = 0
    for each in every_break(world, lambda: prune(wide)):
        if each.known:
            continue
        require_well(world, wide)
        spared += 1
        assert not prune(wide).destroyed
        assert not [s for s in world.pools.all_snapshots() if CONDEMNED in s.properties]
        assert len(wide.catalog().backups) == 5
    assert spared >= 2, "the mark is taken off, which can be broken before and after"


def test_one_that_is_held_stays_and_the_others_go(world: World, ctx: Context) -> None:
    held = ctx.catalog().backups[1].snapshots[1]
    world.pools.snapshot_called(str(held)).holds["late"] = 0
    try:
        prune(ctx)
    except ZbackupError as failure:
        raise AssertionError from failure
    assert str(held) in {str(s) for s in world.pools.all_snapshots()}
    assert len(ctx.catalog().backups) == 3


@pytest.mark.parametrize("sees", [True, False])
def test_the_log_that_a_restore_reads_is_left_with_a_word_on_who_reads_it(
    world: World, ctx: Context, sees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where prune may not look at the restore's process, as root's from the daemon's user."""
    if not sees:
        monkeypatch.setattr("zbackup.jobs.backup.prune.processes_in", lambda _: [])
    first, second, third, *_ = ctx.catalog().backups
    between = Moment(world.server.times[world.content_of(second)[-2]], "then", ZoneInfo("UTC"))
    reports = list[PruneReport]()

    def watched(argv: tuple[str, ...], _: bool, act: Callable[[], object]) -> object:
        if argv[1] == "recover":
            reports.append(prune(ctx))
        return act()

    world.passing = watched
    restore(ctx, between, RestoreOptions(name="r1"), LOCAL)
    [report] = reports
    assert report.destroyed == (third,), "the first is the clone's origin"
    [skipped] = report.skipped
    assert skipped.backup == second
    does = "being read by" if sees else "in use, maybe by"
    who = f"zbackup restore (pid {os.getpid()}), which works on the clone r1: left for the next prune"
    assert skipped.why == f"{second.snapshots[1]} is {does} {who}"
    assert [b.record.backup for b in prune(ctx).destroyed] == [second.record.backup]
    clones.destroy([ctx], "r1")
    assert prune(ctx).destroyed == (first,)


def test_what_is_half_gone_and_held_by_now_stays_condemned(world: World, ctx: Context) -> None:
    """It will never be a backup again, and goes when nobody holds it any more."""
    for each in every_break(world, lambda: prune(ctx), ("killed after",)):
        if each.broke[1] == "destroy":
            break
    [half] = [b for b in ctx.catalog().backups if not b.complete]
    [rest] = half.snapshots
    ctx.zfs.hold("late", rest)
    assert half.record.backup not in {b.record.backup for b in prune(ctx).destroyed}
    assert CONDEMNED in world.pools.snapshot_called(str(rest)).properties
    ctx.zfs.release("late", rest)
    prune(ctx)
    assert str(rest) not in {str(s) for s in world.pools.all_snapshots()}


def test_the_lock_is_released_on_the_way_and_nothing_is_tried_twice(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With time for one backup at a time, and the first of them held since it was looked at."""
    monkeypatch.setattr("zbackup.jobs.backup.prune.SLICE_S", 1.0)
    [first, second, third] = [b.record.backup for b in ctx.catalog().backups[:3]]
    monkeypatch.setattr("zbackup.jobs.backup.prune.pins", lambda *_: {})
    ctx.zfs.hold("late", ctx.catalog().backups[0].snapshots[1])
    released = list[float]()
    monkeypatch.setattr("zbackup.jobs.backup.prune.time", SimpleNamespace(sleep=released.append))
    report = prune(ctx)
    assert [s.backup.record.backup for s in report.skipped] == [first]
    assert [b.record.backup for b in report.destroyed] == [second, third]
    assert len(released) >= 2 and (report.left, report.more) == (0, False)


@pytest.mark.parametrize(("powerless", "held"), [(True, False), (False, True), (False, False)])
def test_a_daemon_that_may_destroy_nothing_has_not_pruned(
    world: World, ctx: Context, powerless: bool, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads what its prune skipped. One that is held since it was looked at is no failure."""

    def refuses(argv: tuple[str, ...], _: bool, act: Callable[[], object]) -> object:
        if powerless and argv[1] == "destroy":
            raise CommandFailed(argv, 1, "cannot destroy snapshots: permission denied")
        return act()

    do = jobs(lambda: parse(""), Journal(Path("nowhere")), lambda: False)
    world.passing = refuses
    if held:
        monkeypatch.setattr("zbackup.jobs.backup.prune.pins", lambda *_: {})
        for each in ctx.catalog().backups[:3]:
            ctx.zfs.hold("late", each.snapshots[0])
    if powerless:
        with pytest.raises(CommandFailed, match="permission denied"):
            do("prune", ctx)
        assert len(ctx.catalog().backups) == 5
        return
    report = do("prune", ctx)
    assert (bool(report.destroyed), bool(report.skipped)) == (not held, held)


@pytest.mark.parametrize(("limit", "more"), [(10.0, True), (0.0, False)])
def test_a_prune_that_is_bounded_says_how_many_are_left(ctx: Context, limit: float, more: bool) -> None:
    report = prune(ctx, limit)
    assert report.left == 3 - len(report.destroyed) > 0 and report.more == more == bool(report.destroyed)


def test_a_date_that_is_ended_is_over_wherever_that_was_cut_short(world: World) -> None:
    """Two of a label and one of another; ended again, it is done. Nothing else of the backups changes."""
    made = world.context(retention=RULES)
    for label in ("deploy", "deploy", "other", "", ""):
        keep = MONTH if label else None
        snapshot(made, SnapshotOptions(label=label, keep=keep))
        world.state.elapsed += timedelta(hours=1)
        world.commit()
    before = made.catalog().backups
    wanted = [replace(b.record, server=b.record.without_date) for b in before[:2]]
    count = 0
    for each in every_break(world, lambda: end_keep(made, "deploy")):
        if each.known:
            continue
        count += 1
        require_well(world, made)
        with suppress(NotFound):  # both were done
            end_keep(made, "deploy")
        there = made.catalog().backups
        assert [b.record for b in there[:2]] == wanted, each
        assert there[2:] == before[2:] and [b.record.label for b in there[:2]] == ["deploy"] * 2, each
        assert all(from_properties(dict(s.properties)) == b.record for b in there for s in b.snapshots), each
    assert count == 5
    end_keep(made, "deploy")
    report = prune(made)
    assert [b.record.backup for b in report.plan.retention.destroy] == [b.record.backup for b in before[:2]]


def test_what_is_not_kept_is_named_with_what_is(world: World) -> None:
    made = world.context(retention=RULES)
    with pytest.raises(NotFound, match="labelled deploy is kept until a date: none is kept"):
        find_kept(made, "deploy")
    taken = snapshot(made, SnapshotOptions(label="deploy", keep=MONTH)).backup
    snapshot(made)
    with pytest.raises(NotFound, match=rf"labelled deplo is .*: kept are {taken.name} \(deploy\)$"):
        find_kept(made, "deplo")
    assert find_kept(made, taken.name) == find_kept(made, "deploy")
    world.state.elapsed += timedelta(days=31)
    with pytest.raises(NotFound, match="none is kept"):
        find_kept(made, "deploy")
