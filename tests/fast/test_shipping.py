"""Shipping, and what is done at a destination, broken at every change."""

from datetime import timedelta

import pytest

from tests.fast.breaking import every_break
from tests.fast.right import portrait, require_nothing_left, require_well
from tests.fast.world import VAULT, World
from zbackup.jobs.backup.prune import prune
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.ship.prune_at import prune_at
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.ship.stale_holds import release_stale
from zbackup.jobs.ship.verify_at import verify_at
from zbackup.model import long_value, shipping
from zbackup.model.errors import ZbackupError
from zbackup.model.retention import CONDEMNED, Retention, Span

RULES = Retention(last=2, minimum=1, window=Span(1, "minute"))
HOME = f"{VAULT}/shop/tank/db"


@pytest.fixture
def ctx(world: World) -> Context:
    """One backup that has arrived, and one that has not."""
    made = world.context(destinations=(world.destination(),))
    snapshot(made)
    ship(made, made.destinations[0])
    world.state.elapsed += timedelta(hours=1)
    snapshot(made)
    return made


def test_a_first_ship(world: World) -> None:
    ctx = world.context(destinations=(world.destination(),))
    snapshot(ctx)
    # The mark of what arrived, holds, bookmarks, containers, streams, commit, and the holds again.
    assert _require_next_ship_arrives(world, ctx) >= 14 * 4 + 1


def test_the_next_ship(world: World, ctx: Context) -> None:
    assert _require_next_ship_arrives(world, ctx) >= 10 * 4 + 1


def test_a_ship_of_a_backup_with_a_long_list_of_parts(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_value, "CHUNK", 5)
    monkeypatch.setattr(shipping, "CHUNK", 5)
    monkeypatch.setattr(shipping, "MOST_OF_VALUE", 5)
    assert _require_next_ship_arrives(world, ctx) >= 10 * 4 + 1
    ship(ctx, ctx.destinations[0])
    marks = world.pools.datasets[HOME].newest.properties  # type: ignore[union-attr]
    assert shipping.PARTS not in marks and shipping.LONG_PARTS[1] in marks


def _require_next_ship_arrives(world: World, ctx: Context) -> int:
    destination = ctx.destinations[0]
    kept = world.keep()
    ship(ctx, destination)
    wanted = portrait(world)
    world.put_back(kept)
    count = 0
    for each in every_break(world, lambda: ship(ctx, destination)):
        count += 1
        if each.known:
            continue
        require_well(world, ctx)
        ship(ctx, destination)
        require_well(world, ctx)
        require_nothing_left(world)
        assert portrait(world) == wanted, each
        _require_next_is_incremental(world, ctx)
    return count


def _require_next_is_incremental(world: World, ctx: Context) -> None:
    """Although all that was shipped is pruned here: each dataset has a bookmark of its newest copy."""
    for name in ("tank/db", "tank/db/log"):
        there = world.pools.datasets[f"{VAULT}/shop/{name}"].newest
        marks = {mark.guid for short, mark in world.pools.datasets[name].bookmarks.items() if short != "mine"}
        assert there and marks == {there.guid}


def test_a_stream_that_is_cut_off(world: World, ctx: Context) -> None:
    """What arrived in part is no copy, and the next ship resumes it."""
    destination = ctx.destinations[0]
    for nth in (1, 2):
        kept = world.keep()
        world.cut = nth
        with pytest.raises(ZbackupError):
            ship(ctx, destination)
        require_well(world, ctx)
        assert sum(d.partial is not None for d in world.pools.datasets.values()) == 1
        sent = world.resumed
        ship(ctx, destination)
        assert world.resumed == sent + 1
        require_well(world, ctx)
        require_nothing_left(world)
        _require_next_is_incremental(world, ctx)
        world.put_back(kept)


def test_pruned_here_while_it_is_shipped(world: World, ctx: Context) -> None:
    """Between a broken ship and the next, what is not held is pruned, and the next goes on all the same."""
    destination = ctx.destinations[0]
    rules = world.context(
        destinations=ctx.destinations, retention=Retention(last=1, minimum=1, window=Span(1, "minute"))
    )
    for each in every_break(world, lambda: ship(ctx, destination)):
        if each.known:
            continue
        world.state.elapsed += timedelta(hours=1)
        world.commit()
        snapshot(rules)
        prune(rules)
        ship(ctx, destination)
        require_well(world, ctx)
        _require_next_is_incremental(world, ctx)
        require_nothing_left(world)
        prune(rules)
        assert len(ctx.catalog().backups) == 1, each


def test_stale_marks(world: World, ctx: Context) -> None:
    """Of a destination that is gone."""
    for each in every_break(world, lambda: ship(ctx, ctx.destinations[0]), ("killed before",)):
        if each.broke[:2] == ("zfs", "send"):
            break
    without = world.context()
    kept = world.keep()
    release_stale(without)
    wanted = portrait(world)
    world.put_back(kept)
    for each in every_break(world, lambda: release_stale(without)):
        if each.known:
            continue
        require_well(world, without)
        release_stale(without)
        assert portrait(world) == wanted, each
    world.put_back(kept)


@pytest.fixture
def full(world: World) -> Context:
    """Five backups at the destination, of which three are to go there."""
    made = world.context(destinations=(world.destination(RULES),))
    for _ in range(5):
        snapshot(made)
        ship(made, made.destinations[0])
        world.state.elapsed += timedelta(hours=1)
    return made


def test_prune_at_a_destination(world: World, full: Context) -> None:
    destination = full.destinations[0]
    kept = world.keep()
    assert len(prune_at(full, destination).destroyed) == 3
    wanted = portrait(world)
    world.put_back(kept)
    count = 0
    for each in every_break(world, lambda: prune_at(full, destination)):
        count += 1
        if each.known:
            continue
        require_well(world, full)
        left = [s for s in world.pools.all_snapshots() if CONDEMNED in s.properties]
        assert all(str(s).startswith(HOME) for s in left)
        prune_at(full, destination)
        require_well(world, full)
        require_nothing_left(world)
        assert portrait(world) == wanted, each
        _require_next_is_incremental(world, full)
    assert count == 9 * 4 + 1


def test_verify_at_a_destination(world: World, full: Context) -> None:
    """It changes nothing, and never says that all is well when something could not be asked."""
    destination = full.destinations[0]
    before = portrait(world)
    report = verify_at(full, destination, most=0)
    assert not report.problems and len(report.compared) == 5 and len(report.read) == 2
    assert portrait(world) == before
    world.pools.datasets[HOME].newest.files["rows"] = ()  # type: ignore[union-attr]
    assert "holds other data" in verify_at(full, destination, most=0).problems[0]
