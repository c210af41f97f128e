"""Datasets that somebody else keeps mounted: nothing is done by halves, whoever would destroy them."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.fast.right import portrait, require_nothing_left
from tests.fast.test_clone_care import ctx as with_clones
from tests.fast.test_drill import NAME, THERE, host
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, World
from zbackup.jobs.backup.prune import prune
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.cleanup.cleanup import reconcile, remove_own_leftovers
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones.temporary import own_name
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.lease import reap
from zbackup.jobs.dev_clones.promote import promote
from zbackup.jobs.dev_clones.reset import reset
from zbackup.jobs.drills.drill import drill, drill_here
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.errors import DatasetBusy
from zbackup.model.retention import CONDEMNED, Retention, Span
from zbackup.plan.clones.clone_name import drill_names, undo_names

__all__ = ["with_clones"]

with_backups = pytest.fixture(host, name="with_backups")

WHO = "it is mounted at /x in the mount namespace of sleep (pid 7)"


def keep(world: World, *names: str) -> None:
    """Somebody has these mounted. Without names: whatever is below the clones' dataset."""
    there = [n for n in world.pools.datasets if n.startswith(f"{CLONES}/") and "foreign" not in n]
    world.mounted_elsewhere = dict.fromkeys(names or there, WHO)


def begin_again(ctx: Context) -> None:
    """A restore where a killed one left something."""
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="r2"))


@pytest.mark.parametrize(
    "act",
    [
        lambda ctx: clones.destroy([ctx], "dev"),
        lambda ctx: clones.destroy([ctx], "r1"),
        lambda ctx: reset([ctx], "dev", latest=False),
        lambda ctx: reset([ctx], "dev", latest=True),
        lambda ctx: promote([ctx], "dev"),
        begin_again,
    ],
    ids=["destroy dev", "destroy restore", "reset", "reset latest", "promote", "restore again"],
)
def test_who_keeps_it_is_named_before_anything_is_changed(
    world: World, with_clones: Context, act: Callable[[Context], object]
) -> None:
    unfinished(with_clones, "r2")
    keep(world)
    before, servers = portrait(world), [clones.show([with_clones], n).running for n in ("dev", "r1")]
    with pytest.raises(DatasetBusy) as refused:
        act(with_clones)
    assert str(refused.value).startswith(WHO) and "Nothing was changed" in str(refused.value)
    assert portrait(world) == before
    assert [clones.show([with_clones], n).running for n in ("dev", "r1")] == servers
    world.mounted_elsewhere = {}
    act(with_clones)


def test_of_two_datasets_the_second_counts_as_the_first(world: World, with_clones: Context) -> None:
    before = portrait(world)
    for name in ("dev", "dev/0", "dev/1"):
        keep(world, f"{CLONES}/{name}")
        with pytest.raises(DatasetBusy, match="sleep"):
            clones.destroy([with_clones], "dev")
        assert portrait(world) == before


def test_leases_and_the_daemons_start_leave_it_whole(world: World, with_clones: Context) -> None:
    unfinished(with_clones, "left")
    world.state.elapsed += timedelta(days=400)
    ctx = with_clones
    keep(world)
    before = portrait(world)
    said = [*reap(ctx).left, *reconcile(ctx).reported]
    assert all(WHO in each for each in said if "left" in each or "dev" in each) and said
    assert portrait(world) == before
    world.mounted_elsewhere = {}
    assert [text for text in reconcile(ctx).healed if "left" in text]


@pytest.mark.parametrize("there", [False, True])
def test_a_drill_has_passed_and_the_next_takes_another_name(
    world: World, with_backups: Context, there: bool
) -> None:
    """Its verdict counts, what is left is told with who keeps it, and goes when nobody does."""
    ctx, root = with_backups, THERE if there else CLONES

    def drilled() -> str:
        report = drill(ctx, ctx.destinations[0]) if there else drill_here(ctx)
        assert report.verdict.passed
        return report.left

    before = set(world.pools.datasets)
    assert drilled() == "" and set(world.pools.datasets) == before
    keep(world, f"{root}/{NAME}/0")
    assert drilled() == f"{root}/{NAME} will be removed later: {WHO}. {END}"
    assert f"{root}/{NAME}/0" in world.pools.datasets and f"{root}/{NAME}/1" in world.pools.datasets
    assert drilled() == ""
    keep(world, *world.mounted_elsewhere, f"{root}/{NAME}-2/0")
    assert "-2 will be removed later" in drilled()
    assert drilled() == "" and not [name for name in world.pools.datasets if "-3" in name]
    assert len(remove_own_leftovers(ctx)) >= 2
    world.mounted_elsewhere = {}
    assert remove_own_leftovers(ctx) == () and set(world.pools.datasets) == before
    require_nothing_left(world)


END = "Nothing was changed. End this use, then run the same command again"


def test_when_no_name_is_free_the_drill_does_not_begin(world: World, with_backups: Context) -> None:
    ctx = with_backups
    for name in drill_names("shop"):
        unfinished(ctx, name)
    keep(world)
    before = portrait(world)
    with pytest.raises(DatasetBusy, match="sleep"):
        drill_here(ctx)
    assert portrait(world) == before
    world.mounted_elsewhere = {}
    assert drill_here(ctx).left == ""


def test_only_leftovers_of_its_own_are_removed_for_a_name(world: World, with_clones: Context) -> None:
    (first, second, *_) = undo_names("shop")
    unfinished(with_clones, first)
    with own_name(with_clones, ("r1", first), "zbackup undo") as name:
        assert name == "r1" and clones.show([with_clones], "r1").clone.state == "ready"
    keep(world, f"{CLONES}/{first}")
    with own_name(with_clones, (first, second), "zbackup undo") as name:
        assert name == second
    world.mounted_elsewhere = {}
    with own_name(with_clones, (first, second), "zbackup undo") as name:
        assert name == first and f"{CLONES}/{first}" not in world.pools.datasets


def test_a_prune_leaves_a_backup_whole_of_which_a_part_is_mounted(world: World) -> None:
    ctx = world.context(retention=Retention(last=1, minimum=1, window=Span(1, "minute")))
    for _ in range(3):
        snapshot(ctx)
        world.state.elapsed += timedelta(hours=1)
    first = ctx.catalog().backups[0]
    for part in first.snapshots:
        keep(world, str(part))
        (skipped,) = (s for s in prune(ctx).skipped if s.backup.name == first.name)
        assert WHO in skipped.why
        (kept,) = (b for b in ctx.catalog().backups if b.name == first.name)
        assert kept.complete and not any(CONDEMNED in dict(s.properties) for s in kept.snapshots)
    world.mounted_elsewhere = {}
    prune(ctx)
    assert first.name not in {b.name for b in ctx.catalog().backups}
