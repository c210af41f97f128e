"""A switch and its way back, broken at every change."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fast.breaking import Break, every_break
from tests.fast.right import portrait, require_well
from tests.fast.server import DATA, LOG
from tests.fast.world import CLONES, World
from zbackup.features.switch import steps
from zbackup.features.switch.end_of_log import _catalog
from zbackup.features.switch.switch import plan, switch, undo
from zbackup.jobs.backup.prune import prune
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.clone_datasets import describe, find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.jobs.ship.lag import shipped
from zbackup.jobs.ship.ship import ship
from zbackup.model.errors import CommandFailed, NotFound, Refused, ZbackupError
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


def test_replicas_that_are_ahead_are_named_before_anything_is_changed(world: World, ctx: Context) -> None:
    """In both directions; what the clone has as well is nobody's ahead of it, and a cut short one goes on."""
    world.writing = False
    assert plan(ctx, "r1").ahead == ()
    world.server.replicas = tuple(f"server {n} at db{n}:3306" for n in range(2, 9))
    before = portrait(world)
    assert plan(ctx, "r1").ahead == world.server.replicas
    said = r": server 2 at db2:3306, .*db6:3306 and 2 more\. GTIDs .* twice.*--replicas-ahead$"
    with pytest.raises(Refused, match=said):
        switch(ctx, "r1")
    assert portrait(world) == before
    found = find_clone(ctx, "r1")
    assert found
    reached = replace(found[0], reached=ctx.engine.inspect().position)
    describe(ctx, reached)
    assert plan(ctx, "r1").ahead == ()
    describe(ctx, found[0])
    switch(ctx, "r1", accept_ahead=True)
    before = portrait(world)
    with pytest.raises(Refused, match=said):
        undo(ctx)
    assert portrait(world) == before
    undo(ctx, accept_ahead=True)
    world.server.running = False
    assert plan(ctx, "r1").ahead == ()


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
        with world.kept_mounted(Path(path)), pytest.raises(Refused, match=r"being read.*zbackup \(pid \d+\)"):
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


def test_what_comes_from_what_was_put_aside_goes_back_there(world: World, ctx: Context) -> None:
    """A backup that is aside since a switch was restored, and was in place for a while."""
    backup = snapshot(ctx).backup
    aside = switch(ctx, "r1").aside[0]
    restore(ctx, LOCAL.backup(ctx, backup.name), RestoreOptions(name="r3"))
    found = find_clone(ctx, "r3")
    assert found and _catalog(ctx, found[0]).backups == ctx.catalog().backups, "those aside are known"
    assert backup.name in world.pools.datasets[aside].snapshots
    switch(ctx, "r3")
    assert backup.name in world.pools.datasets["tank/db"].snapshots
    undo(ctx)
    assert backup.name in world.pools.datasets[aside].snapshots
    require_well(world, ctx)


def test_what_production_has_no_more_comes_back_with_the_clone(world: World) -> None:
    """It gets its own place, and goes with the clone when that is undone."""
    lost = world.context(destinations=(world.destination(),))
    snapshot(lost)
    ship(lost, lost.destinations[0])
    for name in ("tank/db/log", "tank/db"):
        world.pools.datasets[name].mounted = None
    made = world.pools.create("vault/db", {"mountpoint": DATA})
    made.mounted, made.files["rows"] = DATA, ()
    world.server.running = world.writing = False
    ctx = world.context(datasets=("vault/db",), clones="vault/recovered", destinations=(world.destination(),))
    source = DestinationSource(ctx.destinations[0])
    restore(ctx, source.latest(ctx, RestoreOptions()), RestoreOptions(name="r1"), source)
    switch(ctx, "r1")
    found = world.dataset_at(LOG)
    assert found.name == "vault/db/log" and found.properties["mountpoint"] == LOG
    found.properties["zbackup:shipped:x"] = "y"
    undo(ctx)
    assert "vault/db/log" not in world.pools.datasets and world.dataset_at(DATA) is made


def test_tables_that_would_stay_behind_are_looked_for(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lies(*_: object) -> None:
        raise Refused("tables lie elsewhere")

    monkeypatch.setattr("zbackup.features.switch.inspect._require_all_inside", lies)
    before = portrait(world)
    for job in (plan, switch):
        with pytest.raises(Refused, match="tables lie elsewhere"):
            job(ctx, "r1")
    assert portrait(world) == before


def test_what_never_left_its_place_is_stopped_once(world: World, ctx: Context) -> None:
    """Whoever uses it may be why the switch failed."""
    stops: list[object] = []

    def refuses(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv == ("service", "stop"):
            stops.append(argv)
            raise CommandFailed(argv, 1, "no")
        return act()

    world.passing = refuses
    with pytest.raises(CommandFailed):
        switch(ctx, "r1")
    assert len(stops) == 1 and world.server.running


def test_nothing_is_mounted_by_getting_the_settings_of_its_place(world: World, ctx: Context) -> None:
    """It would be, as soon as it has a mountpoint; nor is anything taken over that is not the instance's."""
    watched: list[str] = []

    def watches(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        given = [word for word in argv if word.startswith("mountpoint")]
        if argv[:2] in (("zfs", "set"), ("zfs", "inherit")) and given:
            watched.append(
                argv[-1] if argv[1] == "inherit" else next(w for w in argv[2:] if "/" in w and "=" not in w)
            )
            assert world.pools.datasets[watched[-1]].properties.get("canmount") == "noauto", argv
        return act()

    world.passing = watches
    switch(ctx, "r1")
    undo(ctx)
    assert {"tank/db", f"{CLONES}/r1/0"} <= set(watched)
    part = world.pools.datasets[f"{CLONES}/r1/0"]
    steps._promote(ctx, part.guid, set())
    assert part.origin and part.origin.of.name == "tank/db"


def test_what_was_not_mounted_before_is_not_afterwards(world: World, ctx: Context) -> None:
    world.server.running = world.writing = False
    for name in ("tank/db/log", f"{CLONES}/r1/1"):
        world.pools.datasets[name].mounted = None
    switch(ctx, "r1")
    assert world.dataset_at(DATA).name == "tank/db" and not world.pools.datasets["tank/db/log"].mounted


def test_a_switch_after_which_no_backup_could_be_taken_says_so_first(world: World, ctx: Context) -> None:
    """In its report, also for who wants to read no notes: no moment from then on can be restored."""

    def full(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[:2] == ("zfs", "snapshot") and ran:
            raise CommandFailed(argv, 1, "cannot create snapshot: out of space")
        if argv[:2] == ("service", "start"):
            ran.append(True)
        return act()

    ran = list[bool]()
    world.passing = full
    report = switch(ctx, "r1")
    assert report.backup is None and "no backup could be taken" in report.remarks[0]
    assert len(report.remarks) == 2
