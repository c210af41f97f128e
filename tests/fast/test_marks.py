"""Holds and bookmarks, here and at a destination: whose they are decides, and who may still need them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fast.right import portrait, require_well
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, VAULT, World
from zbackup.destinations.base import Session
from zbackup.destinations.copies import Copies
from zbackup.jobs.backup.prune import prune
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.context import Context
from zbackup.jobs.ship import ship as shipping
from zbackup.jobs.ship.remote_holds import holds_at_destination, release_forgotten, remote_holds
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.ship.stale_holds import find_stale, release_stale
from zbackup.model.errors import Diverged, Refused
from zbackup.model.retention import Retention, Span
from zbackup.model.shipping import (
    Inventory,
    Origin,
    SourceDataset,
    TargetDataset,
    bookmark_name,
    hold_tag,
    restore_tag,
)

HOME = f"{VAULT}/shop/tank/db"


@pytest.fixture
def ctx(world: World) -> Context:
    """One backup, which has arrived."""
    made = world.context(destinations=(world.destination(),))
    snapshot(made)
    ship(made, made.destinations[0])
    return made


@contextmanager
def at_vault(ctx: Context) -> Iterator[tuple[Any, Copies]]:
    with ctx.destinations[0].adapter.connect() as session:
        yield session, session.copies()


def held_there(world: World) -> set[str]:
    names = (tag.rpartition(":")[2] for s in world.pools.all_snapshots() for tag in s.holds)
    return set(names) - {"mine"}


def test_what_a_restore_holds_there_stays_while_it_may_need_it(world: World, ctx: Context) -> None:
    """Its maker lives, or something of it is here that has not all arrived, or nobody can tell."""
    ours, pool = ctx.destinations[0].tag, int(ctx.zfs.values("tank", "guid")[0])
    others = restore_tag(hold_tag("that.host", "shop", "vault"), pool, "theirs")
    names = ("alive", "begun", "arrived", "odd", "dead", "-x", "../x")
    with at_vault(ctx) as (session, copies):
        copy = copies.backups[0].snapshots[0]
        for tag in (*(restore_tag(ours, pool, name) for name in names), others, "mine"):
            session.hold(tag, copy)
    for name, state in (("begun", "building"), ("arrived", "ready"), ("odd", "building")):
        unfinished(ctx, f"{name}.copy", kind="copy", state=state)
    world.pools.datasets[f"{CLONES}/odd.copy"].properties["zbackup:clone"] = "nonsense"
    with at_vault(ctx) as (session, copies), working_on(ctx, "alive", "zbackup restore"):
        assert release_forgotten(ctx, ctx.destinations[0], session, copies)
        assert held_there(world) == {"alive", "begun", "odd", "-x", "../x", "theirs"}
        assert not release_forgotten(ctx, ctx.destinations[0], session, session.copies())
    with at_vault(ctx) as (session, copies):
        assert release_forgotten(ctx, ctx.destinations[0], session, copies)
    assert held_there(world) == {"begun", "odd", "-x", "../x", "theirs"}


def test_of_its_own_a_restore_releases_what_it_does_not_want_any_more(world: World, ctx: Context) -> None:
    ours, pool = ctx.destinations[0].tag, int(ctx.zfs.values("tank", "guid")[0])
    with at_vault(ctx) as (session, copies):
        first, second = copies.backups[0].snapshots
        for copy in (first, second):
            session.hold(restore_tag(ours, pool, "look"), copy)
        session.hold(restore_tag(ours, pool, "other"), first)
    unfinished(ctx, "look.copy", kind="copy")
    with at_vault(ctx) as (session, copies), working_on(ctx, "look", "zbackup restore"):
        assert release_forgotten(ctx, ctx.destinations[0], session, copies, "look", (first,))
    holds = {str(s): {t.rpartition(":")[2] for t in s.holds} for s in world.pools.all_snapshots() if s.holds}
    assert holds[str(first)] == {"look"} and str(second) not in holds


def test_where_there_are_no_holds_nothing_is_held_or_released(ctx: Context) -> None:
    bare, there = cast(Session, SimpleNamespace()), Copies((), ())
    with remote_holds(ctx, ctx.destinations[0], bare, "look", there, ctx.catalog().backups):
        pass
    assert not release_forgotten(ctx, ctx.destinations[0], bare, there)
    held = [
        replace(b, snapshots=tuple(replace(s, holds=1) for s in b.snapshots)) for b in ctx.catalog().backups
    ]
    assert holds_at_destination(bare, Copies(tuple(held), ())) == {}


def test_stale_is_what_no_destination_will_come_back_for(world: World, ctx: Context) -> None:
    """Neither marks of one that is configured, nor those of others."""
    newest = ctx.catalog().backups[-1].snapshots[0]
    gone = hold_tag("this.host", "shop", "gone")
    for tag in (gone, ctx.destinations[0].tag, "mine"):
        ctx.zfs.hold(tag, newest)
    world.pools.bookmark(str(newest), f"tank/db#{bookmark_name('gone', newest.guid)}")
    stale = {(each.kind, each.tag or each.name.partition("#")[2].split(":")[1]) for each in find_stale(ctx)}
    assert stale == {("hold", gone), ("bookmark", "gone")}
    release_stale(ctx)
    assert set(world.pools.snapshot_called(str(newest)).holds) == {ctx.destinations[0].tag, "mine"}
    assert len([m for m in world.pools.datasets["tank/db"].bookmarks if m != "mine"]) == 1
    require_well(world, ctx)


def test_the_next_stream_goes_on_from_a_bookmark_of_somebody_elses(world: World, ctx: Context) -> None:
    """Ours is gone, and the snapshot is pruned: that one is none to make another of."""
    rules = replace(ctx, retention=Retention(last=1, minimum=1, window=Span(1, "minute")))
    for name in ("tank/db", "tank/db/log"):
        dataset = world.pools.datasets[name]
        for mark in [m for m in dataset.bookmarks if m != "mine"]:
            dataset.bookmarks["of-others"] = dataset.bookmarks.pop(mark)
    world.state.elapsed += timedelta(hours=1)
    world.commit()
    snapshot(ctx)
    world.state.elapsed += timedelta(hours=1)
    assert prune(rules).destroyed
    ship(ctx, ctx.destinations[0])
    require_well(world, ctx)
    with at_vault(ctx) as (_, copies):
        assert len(copies.backups) == 2


def test_what_others_hold_stays_held(world: World, ctx: Context) -> None:
    snapshot(ctx)
    both = [b.snapshots[0] for b in ctx.catalog().backups]
    for each in both:
        ctx.zfs.hold("mine", each)
    ship(ctx, ctx.destinations[0])
    assert [set(world.pools.snapshot_called(str(each)).holds) for each in both] == [{"mine"}] * 2


def test_what_cannot_go_on_is_no_success_and_nothing_is_changed(world: World) -> None:
    """Neither a first copy that nobody allowed, nor one that has nothing in common."""
    ctx = world.context()
    snapshot(ctx)
    before = portrait(world)
    with pytest.raises(Refused, match="ship shop vault --initial"):
        ship(ctx, replace(world.destination(), initial=False))
    assert portrait(world) == before
    ship(ctx, world.destination())
    for name in ("tank/db", "tank/db/log"):
        dataset = world.pools.datasets[name]
        for mark in [m for m in dataset.bookmarks if m != "mine"]:
            del dataset.bookmarks[mark]
    for snapshots in ctx.catalog().backups[0].snapshots:
        ctx.zfs.destroy_snapshot(snapshots)
    snapshot(ctx)
    before = portrait(world)
    with pytest.raises(Diverged, match="have diverged"):
        ship(ctx, world.destination())
    assert portrait(world) == before


def test_no_bookmark_goes_while_the_newest_copy_is_of_nobody_knows_what(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[str] = []
    streams = SimpleNamespace(destroy_bookmark=gone.append)
    monkeypatch.setattr(shipping, "ZfsStreams", lambda _: streams)
    names = [
        f"a#{bookmark_name('vault', 1)}",
        "a@2",
        f"a#{bookmark_name('vault', 2)}",
        f"a#{bookmark_name('x', 1)}",
    ]
    origins = (Origin(name=n, guid=g, createtxg=g) for n, g in zip(names, (1, 2, 2, 1), strict=True))
    source = SourceDataset(name="a", origins=tuple(origins))
    for bases, goes in (((99,), []), ((), []), ((2, 99), names[:1]), ((1, 2), [])):
        gone.clear()
        inventory = Inventory(address="there", datasets=(TargetDataset(name="a", bases=bases),))
        shipping.release(ctx, ctx.destinations[0], (), (source,), inventory)
        assert gone == goes, bases
    shipping.release(ctx, ctx.destinations[0], (), (source,), Inventory(address="there"))
    assert gone == []


def test_a_bookmark_that_is_gone_is_made_again_while_its_snapshot_is_here(world: World, ctx: Context) -> None:
    """Else the next stream could not start once that is pruned."""
    before = {d: set(world.pools.datasets[d].bookmarks) for d in ("tank/db", "tank/db/log")}
    for dataset, names in before.items():
        for name in names - {"mine"}:
            del world.pools.datasets[dataset].bookmarks[name]
    ship(ctx, ctx.destinations[0])
    assert {d: set(world.pools.datasets[d].bookmarks) for d in before} == before


def test_marks_on_what_only_lies_below_the_instance_are_not_its(world: World) -> None:
    below = "tank/db/clones"
    ctx = world.context(clones=below)
    for name in (below, f"{below}/x"):
        world.pools.create(name, {"mountpoint": "none", "canmount": "off"})
    world.pools.snapshot([f"{below}/x@a"], {})
    world.pools.bookmark(f"{below}/x@a", f"{below}/x#{bookmark_name('gone', 1)}")
    world.pools.bookmark("tank/db@by-hand", f"tank/db#{bookmark_name('gone', 1)}")
    assert [each.name for each in find_stale(ctx)] == [f"tank/db#{bookmark_name('gone', 1)}"]
