"""A snapshot, broken at every change."""

import pytest

from tests.adapters import changed
from tests.fast.breaking import Break, every_break
from tests.fast.right import require_nothing_left, require_well
from tests.fast.server import FakeEngine
from tests.fast.world import World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.cleanup.cleanup import reconcile
from zbackup.jobs.context import Context
from zbackup.model.errors import LockNotTaken


def test_the_next_snapshot_puts_all_right(world: World) -> None:
    ctx = world.context()
    snapshot(ctx)
    broken = 0
    for each in every_break(world, lambda: snapshot(ctx)):
        broken += 1
        _require_next_is_well(world, ctx, each)
    # The lock, the look for leftovers, the snapshot, and its end written on each of two datasets.
    assert broken == 5 * 4 + 1


def test_a_question_without_an_answer_holds_nobody_up(world: World) -> None:
    """Of those between the lock and its end, and of all others."""
    ctx = world.context()
    snapshot(ctx)
    asked = 0
    for each in every_break(world, lambda: snapshot(ctx), ("fails", "interrupted"), questions=True):
        asked += each.broke[:2] in (("zfs", "list"), ("zfs", "get"))
        _require_next_is_well(world, ctx, each)
    assert asked >= 2 * 4


def _require_next_is_well(world: World, ctx: Context, each: Break) -> None:
    listed = len(ctx.catalog().backups)
    # What failed or was interrupted leaves no draft. Who was killed leaves at most one, unfinished.
    # So does he who could not look at what had been taken, or write on it.
    one_more = each.dead or "set" in each.broke or (each.questions and "snapshot" not in each.broke[:2])
    assert listed in ((1, 2) if one_more else (1,)), each
    if each.known:
        return
    require_well(world, ctx)
    snapshot(ctx)
    require_well(world, ctx)
    backups = ctx.catalog().backups
    assert all(b.complete and b.finished for b in backups), each
    assert len(backups) in (listed, listed + 1), each
    assert len({b.record.log_id for b in backups}) == 1, each
    require_nothing_left(world)
    _require_no_strays(world)


def test_reconciling_finishes_what_a_snapshot_has_left(world: World) -> None:
    ctx = world.context()
    for each in every_break(world, lambda: snapshot(ctx)):
        if each.known:
            continue
        reconcile(ctx)
        require_well(world, ctx)
        assert all(b.complete and b.finished for b in ctx.catalog().backups)
        require_nothing_left(world)
        _require_no_strays(world)


def test_reconciling_is_done_by_the_next_when_it_is_broken(world: World) -> None:
    ctx = world.context()
    for each in every_break(world, lambda: snapshot(ctx), ("killed after",)):
        if each.broke[1] == "snapshot":
            break
    kept = world.keep()
    for each in every_break(world, lambda: reconcile(ctx)):
        if each.known:
            continue
        require_well(world, ctx)
        reconcile(ctx)
        require_well(world, ctx)
        assert all(b.complete and b.finished for b in ctx.catalog().backups)
    world.put_back(kept)


def test_a_lock_that_did_not_last_leaves_no_backup(world: World) -> None:
    """A write gets in between the position and the snapshot."""
    before = sorted(str(s) for s in world.pools.all_snapshots())
    ctx = world.context()
    with pytest.raises(LockNotTaken, match="the lock was lost"):
        snapshot(changed(ctx, engine=FakeEngine(world, loses_lock=True)))
    assert sorted(str(s) for s in world.pools.all_snapshots()) == before


def test_what_is_left_of_one_that_was_discarded_is_no_sign_of_a_rollback(world: World) -> None:
    ctx = world.context()
    snapshot(ctx)
    log = ctx.catalog().backups[-1].record.log_id
    unsound = changed(ctx, engine=FakeEngine(world, loses_lock=True))
    halves = 0

    def discarded() -> None:
        with pytest.raises(LockNotTaken):
            snapshot(unsound)

    for _ in every_break(world, discarded):
        halves += not all(b.complete for b in ctx.catalog().backups)
        assert not any(b.lost_parts for b in ctx.catalog().backups)
        assert snapshot(ctx).backup.record.log_id == log
    assert halves


def _require_no_strays(world: World) -> None:
    """Each snapshot on production's datasets is a backup's, or was there before."""
    ctx = world.context()
    own = {s.guid for b in ctx.catalog().backups for s in b.snapshots}
    there = {s.guid for d in ("tank/db", "tank/db/log") for s in world.pools.datasets[d].snapshots.values()}
    assert there - own == {g for g in world.foreign if g in there}
