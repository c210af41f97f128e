"""A switch and its way back, broken at every change."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.fast.breaking import Break, every_break
from tests.fast.right import portrait, require_well
from tests.fast.server import DATA, LOG
from tests.fast.world import World
from zbackup.jobs.backup.prune import prune
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.clone_datasets import find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.jobs.ship.lag import shipped
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.switch.switch import plan, switch, undo
from zbackup.model.errors import NotFound, Refused, ZbackupError
from zbackup.model.moment import Moment
from zbackup.model.retention import Retention, Span

_ON = re.compile(r"\('canmount', 'on'\)(, )?|,?\[\"canmount\",\"on\"\]")


@pytest.fixture
def ctx(world: World) -> Context:
    """Production, and a clone of it as it was."""
    made = world.context()
    for _ in range(2):
        snapshot(made)
        world.state.elapsed += timedelta(minutes=1)
    then = Moment(world.server.times[world.server.next - 4], "then", ZoneInfo("UTC"))
    restore(made, then, RestoreOptions(name="r1"))
    return made


def test_what_has_arrived_at_destinations_is_known_after_a_switch(world: World, ctx: Context) -> None:
    """`status` says how far they are behind, and not that nothing ever arrived there."""
    ctx = replace(ctx, destinations=(world.destination(),))
    ship(ctx, ctx.destinations[0])
    [before] = shipped(ctx, world.now)
    assert before.newest
    for job in (lambda: switch(ctx, "r1"), lambda: undo(ctx)):
        job()
        [after] = shipped(ctx, world.now)
        assert after.newest == before.newest, job


def test_what_was_put_aside_is_not_shipped_and_what_took_its_place_is(world: World) -> None:
    destination = world.destination(Retention(last=9, minimum=1, window=Span(1, "minute")))
    ctx = world.context(destinations=(destination,))
    snapshot(ctx)
    ship(ctx, destination)
    world.commit()
    restore(ctx, Moment(world.now, "now", ZoneInfo("UTC"), is_now=True), RestoreOptions(name="r1"))
    aside = snapshot(ctx).backup
    switch(ctx, "r1")
    report = ship(ctx, destination)
    newest = ctx.catalog().backups[-1]
    assert report.newest and report.newest.record == newest.record and newest.record != aside.record
    assert aside.record.backup not in {b.record.backup for b in report.committed}
    require_well(world, ctx)


def test_a_broken_switch_is_finished_or_undone(world: World, ctx: Context) -> None:
    """Whatever state it is in, it leads on, and the way back leads to what was before."""
    before = [line for line in _portrait(world) if "/r1" not in line]
    production = world.content(DATA)["rows"]
    wanted, rows = _unbroken(world, lambda: switch(ctx, "r1"))
    count = 0
    for each in every_break(world, lambda: switch(ctx, "r1")):
        count += 1
        if each.known:
            continue
        _require_production_runs_or_is_to_be_switched(world, ctx, each)
        left = world.keep()
        _until_switched(ctx)
        _require_in_place(world, ctx, rows, wanted, each)
        world.put_back(left)
        found = find_clone(ctx, "r1")
        if found and found[0].state != "ready":
            undo(ctx, "r1")
        require_well(world, ctx)
        assert world.content(DATA)["rows"][: len(production)] == production, each
        assert [line for line in _portrait(world) if "/r1" not in line] == before, each
        assert world.server.running, each
    assert count >= 30 * 4 + 1


def _unbroken(world: World, job: Callable[[], object]) -> tuple[list[str], tuple[int, ...]]:
    kept = world.keep()
    before = world.server.next
    job()
    rows = tuple(n for n in world.content(DATA)["rows"] if n < before)
    wanted = _portrait(world)
    world.put_back(kept)
    return wanted, rows


def _require_production_runs_or_is_to_be_switched(world: World, ctx: Context, each: Break) -> None:
    """What was interrupted or failed went back by itself, or says that it could not."""
    found = find_clone(ctx, "r1")
    assert found
    state = found[0].state
    if state == "ready":
        assert world.server.running, each
        assert world.pools.mounted_at(DATA), each
        require_well(world, ctx)
    else:
        assert state in ("switching", "undoing", "switched"), each
        if state != "switched":
            with pytest.raises(Refused):
                ctx.catalog()


def _until_switched(ctx: Context) -> None:
    found = find_clone(ctx, "r1")
    assert found
    if found[0].state == "undoing":
        undo(ctx, "r1")
    if found[0].state != "switched":
        switch(ctx, "r1")


def _require_in_place(
    world: World, ctx: Context, rows: tuple[int, ...], wanted: list[str], each: Break
) -> None:
    require_well(world, ctx)
    assert world.server.running, each
    there = world.content(DATA)["rows"]
    assert there[: len(rows)] == rows, each
    assert _portrait(world) == wanted, each


def _portrait(world: World) -> list[str]:
    """Backups that were taken on the way are as many as there were tries. That canmount is on by itself or is
    set so is the same, and cannot be undone."""
    lines = (line for line in portrait(world) if "@zbackup-TIME" not in line)
    return [_ON.sub("", line) for line in lines]


def test_while_a_restore_reads_productions_snapshots_the_server_is_not_even_stopped(
    world: World, ctx: Context
) -> None:
    """Nothing can be unmounted then, and that would be found out when the server is down."""
    backup = ctx.catalog().backups[0]
    (_, path), *_ = backup.browse(ctx.catalog().datasets).moves
    for job in (lambda: plan(ctx, "r1"), lambda: switch(ctx, "r1"), lambda: undo(ctx)):
        before = portrait(world)
        with world.kept_mounted(Path(path)), pytest.raises(Refused, match=r"being read.*zbackup \(pid 7\)"):
            job()
        assert world.server.running and portrait(world) == before
        job()


def test_undone_by_the_next(world: World, ctx: Context) -> None:
    switch(ctx, "r1")
    wanted, rows = _unbroken(world, lambda: undo(ctx))
    count = 0
    for each in every_break(world, lambda: undo(ctx)):
        count += 1
        if each.known:
            continue
        found = find_clone(ctx, "r1")
        assert found
        if found[0].state != "ready":
            undo(ctx, "r1")
        _require_in_place(world, ctx, rows, wanted, each)
        with pytest.raises(NotFound):
            undo(ctx)
    assert count >= 30 * 4 + 1


def test_backups_of_before_and_after_count_on(world: World, ctx: Context) -> None:
    names = {b.record.backup for b in ctx.catalog().backups if b.record.purpose == "base"}
    switch(ctx, "r1")
    assert names <= {b.record.backup for b in ctx.catalog().backups}
    undo(ctx)
    assert names <= {b.record.backup for b in ctx.catalog().backups}
    rules = world.context(retention=Retention(last=1, minimum=1, window=Span(1, "minute")))
    world.state.elapsed += timedelta(hours=1)
    try:
        prune(rules)
    except ZbackupError as failure:
        raise AssertionError from failure
    require_well(world, ctx)


def test_what_was_fetched_to_a_pool_of_another_name_takes_productions_place(world: World) -> None:
    """On a host that had nothing but empty datasets, called as those of the host that is gone."""
    lost = world.context(destinations=(world.destination(),))
    snapshot(lost)
    ship(lost, lost.destinations[0])
    wanted = world.content_of(lost.catalog().backups[-1])
    for name in ("tank/db/log", "tank/db"):
        world.pools.datasets[name].mounted = None
    for name, place, kind in (("db", DATA, "rows"), ("db/log", LOG, "log")):
        made = world.pools.create(f"vault/{name}", {"mountpoint": place})
        made.mounted, made.files[kind] = place, ()
    ctx = world.context(datasets=("vault/db",), clones="vault/recovered", destinations=(world.destination(),))
    source = DestinationSource(ctx.destinations[0])
    moment = source.latest(ctx, RestoreOptions())
    restore(ctx, moment, RestoreOptions(name="r1"), source)
    switch(ctx, "r1")
    assert world.dataset_at(DATA).name == "vault/db" and world.dataset_at(LOG).name == "vault/db/log"
    assert world.content(DATA)["rows"][: len(wanted)] == wanted
