"""Dev clones, made, reset, promoted and destroyed, broken at every change."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.fast.breaking import every_break
from tests.fast.right import portrait, require_nothing_left, require_well
from tests.fast.world import CLONES, World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.cleanup.cleanup import reconcile
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones.clone_datasets import find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, create, plan_create
from zbackup.jobs.dev_clones.promote import promote
from zbackup.jobs.dev_clones.reset import reset
from zbackup.jobs.dev_clones.snapshot import snapshot as snapshot_clone
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import plan_restore, restore
from zbackup.model.errors import NotFound, Refused, Taken, UsageError
from zbackup.model.moment import Moment

DEV = CreateOptions(name="dev")


@pytest.fixture
def ctx(world: World) -> Context:
    """Production with two backups."""
    made = world.context()
    for _ in range(2):
        snapshot(made)
        world.state.elapsed += timedelta(minutes=1)
    return made


def make(ctx: Context, options: CreateOptions = DEV) -> None:
    list(create(ctx, options))


def test_a_drills_name_is_nobody_elses(world: World, ctx: Context) -> None:
    """A restore or dev clone of that name would be taken for what a drill left, and removed."""
    ctx = replace(ctx, cloning=replace(ctx.cloning, reserved=frozenset({"shop-drill", "dev-2"})))
    now = Moment(world.now, "now", ZoneInfo("UTC"), is_now=True)
    kept = portrait(world)
    for job in (
        lambda: restore(ctx, now, RestoreOptions(name="shop-drill")),
        lambda: plan_restore(ctx, now, RestoreOptions(name="shop-drill")),
        lambda: make(ctx, CreateOptions(name="shop-drill")),
        lambda: make(ctx, CreateOptions(name="shop-drill", target=now)),
        lambda: make(ctx, CreateOptions(name="dev", count=2)),
        lambda: plan_create(ctx, CreateOptions(name="shop-drill")),
    ):
        with pytest.raises(UsageError, match="is a name that zbackup uses for that instance"):
            job()
    assert portrait(world) == kept


def make_or_find(ctx: Context, options: CreateOptions = DEV) -> None:
    """Who is killed after the last change has made it. What a recovery could not remove, the daemon does."""
    try:
        make(ctx, options)
    except Taken:
        found = find_clone(ctx, options.name)
        assert found and found[0].state == "ready"
        reconcile(ctx)


def require_same_in_the_end(
    world: World,
    ctx: Context,
    job: Callable[[], object],
    again: Callable[[], object] | None = None,
    left: tuple[str, ...] = ("dev",),
) -> int:
    """However the job is broken, run again it ends as if nothing had been; returns how many breaks."""
    kept = world.keep()
    job()
    wanted = portrait(world)
    world.put_back(kept)
    count = 0
    for each in every_break(world, job):
        count += 1
        if each.known:
            continue
        require_well(world, ctx)
        (again or job)()
        require_well(world, ctx)
        assert portrait(world) == wanted, each
        require_nothing_left(world, left)
    return count


def test_create(world: World, ctx: Context) -> None:
    """When it fails nothing is left but what the daemon removes, or the clone is ready; the next makes it."""
    before, kept = portrait(world), world.keep()
    make(ctx)
    wanted = portrait(world)
    world.put_back(kept)
    count = 0
    for each in every_break(world, lambda: make(ctx)):
        count += 1
        found = find_clone(ctx, "dev")
        assert each.dead or found is None or found[0].state == "ready", each
        if each.known:
            continue
        require_well(world, ctx)
        left = world.keep()
        reconcile(ctx)
        found = find_clone(ctx, "dev")
        assert portrait(world) == (wanted if found else before), each
        world.put_back(left)
        make_or_find(ctx)
        require_well(world, ctx)
        assert portrait(world) == wanted, each
        require_nothing_left(world, ("dev",))
    assert count >= 9 * 4 + 1


def test_create_of_a_moment(world: World, ctx: Context) -> None:
    moment = Moment(world.now - timedelta(seconds=90), "then", ZoneInfo("UTC"))
    options = CreateOptions(name="dev", target=moment)
    snapshot(ctx)
    count = 0
    kept = world.keep()
    make(ctx, options)
    rows = world.content("/srv/clones/dev/0")["rows"]
    assert rows == tuple(n for n, at in world.server.times.items() if at < moment.at)
    wanted = _but_beginnings(world)
    world.put_back(kept)
    for each in every_break(world, lambda: make(ctx, options)):
        count += 1
        if each.known:
            continue
        require_well(world, ctx)
        make_or_find(ctx, options)
        require_well(world, ctx)
        assert _but_beginnings(world) == wanted, each
        assert world.content("/srv/clones/dev/0")["rows"] == rows, each
        require_nothing_left(world, ("dev",))
    assert count >= 14 * 4 + 1


def _but_beginnings(world: World) -> list[str]:
    """A clone that is ready is not thrown away because it could not keep what it is reset to."""
    return [line for line in portrait(world) if "@zbackup-origin" not in line]


def test_destroy(world: World, ctx: Context) -> None:
    make(ctx)

    def again() -> None:
        try:
            clones.destroy([ctx], "dev")
        except NotFound:
            return

    assert require_same_in_the_end(world, ctx, lambda: clones.destroy([ctx], "dev"), again, ()) >= 5 * 4 + 1


def test_reset(world: World, ctx: Context) -> None:
    make(ctx)
    dataset = world.dataset_at("/srv/clones/dev/0")
    dataset.files["rows"] = (*dataset.files["rows"], 10**6)
    assert require_same_in_the_end(world, ctx, lambda: reset([ctx], "dev", latest=False)) >= 12 * 4 + 1
    reset([ctx], "dev", latest=False)
    assert 10**6 not in world.dataset_at("/srv/clones/dev/0").files["rows"]


def test_a_clone_keeps_its_port_whatever_is_configured_later(world: World, ctx: Context) -> None:
    make(replace(ctx, cloning=replace(ctx.cloning, ports=(32600, 32699))))
    found = find_clone(ctx, "dev")
    assert found and 32600 <= (port := found[0].port) <= 32699 and ctx.cloning.ports[1] < port
    for job in (clones.stop, clones.start, lambda all_of, name: reset(all_of, name, latest=True)):
        job([ctx], "dev")
        assert (clones.show([ctx], "dev").clone.port, clones.way_in([ctx], "dev").port) == (port, port)
    make(ctx, replace(DEV, name="new"))
    made = find_clone(ctx, "new")
    assert made and ctx.cloning.ports[0] <= made[0].port <= ctx.cloning.ports[1]
    require_well(world, ctx)


def test_reset_to_the_newest(world: World, ctx: Context) -> None:
    make(ctx)
    snapshot(ctx)
    assert require_same_in_the_end(world, ctx, lambda: reset([ctx], "dev", latest=True)) >= 12 * 4 + 1


def test_reset_of_a_moment(world: World, ctx: Context) -> None:
    snapshot(ctx)
    moment = Moment(world.now - timedelta(seconds=90), "then", ZoneInfo("UTC"))
    make(ctx, CreateOptions(name="dev", target=moment))
    assert require_same_in_the_end(world, ctx, lambda: reset([ctx], "dev", latest=False)) >= 12 * 4 + 1


def test_promote(world: World, ctx: Context) -> None:
    make(ctx)

    def again() -> None:
        found = find_clone(ctx, "dev")
        assert found
        if not (found[0].copied and found[0].state == "ready"):
            promote([ctx], "dev")

    assert require_same_in_the_end(world, ctx, lambda: promote([ctx], "dev"), again) >= 12 * 4 + 1


def test_a_child(world: World, ctx: Context) -> None:
    make(ctx)
    snapshot_clone([ctx], "dev", "one")
    child = CreateOptions(name="kid", parent="dev")
    assert (
        require_same_in_the_end(
            world, ctx, lambda: make(ctx, child), lambda: make_or_find(ctx, child), ("dev", "kid")
        )
        >= 9 * 4 + 1
    )


def test_what_somebody_put_into_a_clone_is_not_destroyed(world: World, ctx: Context) -> None:
    make(ctx)
    world.pools.create(f"{CLONES}/dev/mine", {"canmount": "noauto"})
    for job in (lambda: clones.destroy([ctx], "dev"), lambda: reset([ctx], "dev", latest=False)):
        with suppress(Refused):
            job()
        assert f"{CLONES}/dev/mine" in world.pools.datasets
