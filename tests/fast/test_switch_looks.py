"""A switch before it changes anything: what it looks at, leaves as it was, and says."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fast.breaking import every_break
from tests.fast.right import portrait, require_well
from tests.fast.server import DATA, LOG
from tests.fast.test_reconcile import unfinished
from tests.fast.test_restore_steps import is_locked
from tests.fast.world import CLONES, World
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.features.switch import inspect, steps
from zbackup.features.switch import switch as room
from zbackup.features.switch.switch import plan, switch, undo
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.clones.clone_datasets import PART, find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.errors import CommandFailed, ConfigError, DatabaseError, NotFound, Refused, ZbackupError
from zbackup.model.moment import Moment

THERE = "vault/zbackup"
IDLE = "tank/db/idle"
NAMES = ("tank/db", "tank/db/log", IDLE)
JOBS = (plan, switch)


@pytest.fixture
def ctx(world: World) -> Context:
    """Production, of which one dataset is not mounted, with settings of its own; and two clones of it."""
    pools = world.pools
    pools.datasets["tank/db"].properties.update({"my:own": "1", "reservation": "4096"})
    pools.datasets["tank/db/log"].properties.update(mountpoint=LOG, atime="off", sync="disabled")
    pools.datasets["tank/db"].properties["zbackup:shipped:x"] = "y"
    pools.create(IDLE, {"canmount": "noauto"})
    made = world.context(destinations=(world.destination(),), elsewhere=(THERE,))
    pools.create(THERE, {"mountpoint": "/srv/clones", "canmount": "off", "zbackup:clones": "1"})
    for _ in range(2):
        snapshot(made)
        world.state.elapsed += timedelta(minutes=1)
    then = Moment(world.server.times[world.server.next - 4], "then", ZoneInfo("UTC"))
    for name in ("r1", "r2"):
        restore(made, then, RestoreOptions(name=name))
    return made


def refused(
    world: World, ctx: Context, said: str, failure: type[Exception] = Refused, name: str = "r1"
) -> None:
    """Nothing is changed, and the server runs."""
    for job in JOBS:
        before = portrait(world)
        with pytest.raises(failure, match=said):
            job(ctx, name)
        assert portrait(world) == before and world.server.running


def own(world: World, name: str) -> dict[str, str]:
    found = world.pools.datasets[name]
    return {key: value for key, value in found.properties.items() if not key.startswith("zbackup:")}


def broken_at(world: World, ctx: Context, verb: str, nth: int = 1) -> None:
    """A switch to r1 that is killed before it does this."""
    seen = 0
    for each in every_break(world, lambda: switch(ctx, "r1"), ("killed before",)):
        seen += each.broke[1] == verb
        if seen == nth:
            return
    raise AssertionError(verb)


def test_one_of_another_instance_or_of_copies_is_not_switched_to(world: World, ctx: Context) -> None:
    unfinished(ctx, "w1", instance="wiki", state="ready")
    refused(world, ctx, "shop has no clone w1", NotFound, "w1")
    unfinished(ctx.at(THERE), "far", state="ready", target="2024-05-01")
    near: Any = ZfsDestination(
        name="near", address="zfs:tank/x", root="tank/x", instance="shop", target=None, control=Path("/x"),
        runner=world.run,
    )  # fmt: skip
    both = replace(ctx, destinations=(replace(ctx.destinations[0], adapter=near), *ctx.destinations))
    refused(
        world, both, r"on the pool vault, .*\(zbackup restore shop --from vault --to 2024-05-01\)", name="far"
    )
    refused(world, replace(ctx, destinations=()), "--from DESTINATION", name="far")
    unfinished(ctx, "r1.copy", kind="copy", state="ready")
    refused(world, ctx, "r1 runs on copies at a destination, on the pool tank")


def test_one_that_is_no_finished_restore_is_not_switched_to(world: World, ctx: Context) -> None:
    unfinished(ctx, "dev", kind="dev", state="ready")
    refused(world, ctx, "dev is a dev clone", name="dev")
    unfinished(ctx, "half", state="building")
    refused(world, ctx, "half", name="half")
    refused(world, replace(ctx, service=None), r"instance\.shop\.service", ConfigError)
    with pytest.raises(NotFound, match="shop has no clone none"):
        switch(ctx, "none")


def test_one_switch_at_a_time(world: World, ctx: Context) -> None:
    broken_at(world, ctx, "rename")
    with pytest.raises(Refused, match="a switch of shop to r1 is under way or was cut short"):
        switch(ctx, "r2")
    _, intent = _intended(ctx)
    assert plan(ctx, "r1").renames[0] == ("tank/db", intent.aside("tank/db")), "that one can go on"
    switch(ctx, "r1")
    switch(ctx, "r2")
    assert undo(ctx).clone.name == "r2"
    assert undo(ctx).clone.name == "r1"
    with pytest.raises(NotFound, match="no switch of shop is there to be undone"):
        undo(ctx)
    with pytest.raises(NotFound, match="no switch to r1 is there to be undone"):
        undo(ctx, "r1")


def test_one_of_which_a_later_one_depends_is_not_undone_first(world: World, ctx: Context) -> None:
    switch(ctx, "r1")
    switch(ctx, "r2")
    before = portrait(world)
    with pytest.raises(Refused, match="is not there any more, or another: the switch cannot be undone"):
        undo(ctx, "r1")
    assert portrait(world) == before


def test_what_cannot_be_renamed_is_found_before(world: World, ctx: Context) -> None:
    refused(world, replace(ctx, datasets=("tank",)), "clones lie below tank, which would be renamed")
    kept = world.keep()
    aside = plan(ctx, "r1").renames[0][1]
    world.put_back(kept)
    world.pools.create(aside, {})
    with pytest.raises(Refused, match=f"{aside} exists already"):
        plan(ctx, "r1")
    world.put_back(kept)
    for key, said in (("tank/db", "has the encryption root tank/db"), ("tank", ""), ("-", "")):
        world.pools.datasets["tank/db/log"].properties["encryptionroot"] = key
        if said:
            refused(world, ctx, said)
        else:
            plan(ctx, "r1")


def test_a_key_of_what_was_fetched_can_be_that_of_production(world: World, ctx: Context) -> None:
    """ZFS moves it below the encryption root of both then; a clone's key is that of what it was made from."""
    here = f"{CLONES}/r1/0"
    for name in (CLONES, "tank/db", "tank/db/log"):
        world.pools.datasets[name].properties["encryptionroot"] = "tank"
    for fetched, said in (
        (f"{CLONES}/r1.copy/0", f"zfs change-key -i {CLONES}/r1.copy/0"),
        (f"{CLONES}/r2.copy/0", f"{here} has the encryption root {CLONES}/r2.copy/0"),
    ):
        world.pools.datasets[here].properties["encryptionroot"] = fetched
        refused(world, ctx, said)
    world.pools.datasets[here].properties["encryptionroot"] = "tank"
    plan(ctx, "r1")
    for name in (CLONES, "tank/db", "tank/db/log", here):
        world.pools.datasets[name].properties["encryptionroot"] = "tank/elsewhere"
    refused(world, ctx, "a switch needs production and the clones below the same encryption root")


def test_snapshots_of_one_name_on_both_are_no_matter_if_they_stay(world: World, ctx: Context) -> None:
    world.pools.snapshot([f"{CLONES}/r1/0@later"], {})
    world.pools.snapshot(["tank/db@later"], {})
    plan(ctx, "r1")
    world.pools.snapshot([f"{CLONES}/r1/0@by-hand"], {})
    refused(world, ctx, "both have a snapshot @by-hand")
    world.pools.destroy_snapshot(f"{CLONES}/r1/0@by-hand")
    origin = world.pools.datasets[f"{CLONES}/r1/0"].origin
    assert origin
    world.pools.snapshot([f"{CLONES}/r1/0@{origin.name}"], {})
    refused(world, ctx, f"both have a snapshot @{origin.name}")
    world.pools.destroy_snapshot(f"{CLONES}/r1/0@{origin.name}")
    world.pools.promote(f"{CLONES}/r1/1")
    refused(world, ctx, f"{CLONES}/r1/1 was promoted")


def test_others_snapshots_may_be_read(world: World, ctx: Context) -> None:
    world.pools.datasets["tank/other"].mounted = "/other"
    with world.kept_mounted(Path("/other/.zfs/snapshot/zbackup-1")):
        switch(ctx, "r1")


def test_what_comes_into_place_has_the_settings_of_what_was_there(world: World, ctx: Context) -> None:
    """And what goes aside keeps its own, but those of which two cannot be."""
    before = {name: own(world, name) for name in NAMES}
    parts = {n: own(world, f"{CLONES}/r1/{n}") for n in range(2)}
    report = switch(ctx, "r1")
    for name in NAMES[:2]:
        assert own(world, name) == before[name] | {"canmount": "on"}
    assert IDLE not in world.pools.datasets, "it was no part of the backup"
    assert [world.pools.datasets[name].mounted for name in NAMES[:2]] == [DATA, LOG]
    assert world.pools.datasets["tank/db"].properties["zbackup:shipped:x"] == "y"
    top, idle, log = (world.pools.datasets[name] for name in report.aside)
    suffix = top.name.removeprefix("tank/db")
    assert (top.properties["mountpoint"], top.mounted) == (DATA + suffix, DATA + suffix)
    assert (log.properties["mountpoint"], log.mounted) == (f"{DATA}{suffix}/log", f"{DATA}{suffix}/log")
    assert (top.properties["readonly"], top.properties["reservation"]) == ("on", "none")
    assert (log.properties["sync"], log.properties["atime"]) == ("disabled", "off")
    assert [each.properties["canmount"] for each in (top, log, idle)] == ["on", "on", "noauto"]
    assert idle.mounted is None
    world.pools.datasets["tank/db"].properties.update({"zbackup:shipped:x": "z", "my:new": "1"})
    undo(ctx)
    for name in NAMES[:2]:
        assert own(world, name) == before[name] | {"canmount": "on"}
        assert PART not in world.pools.datasets[name].properties
    assert own(world, IDLE) == before[IDLE]
    assert world.pools.datasets["tank/db"].properties["zbackup:shipped:x"] == "z", "it arrived meanwhile"
    assert {n: own(world, f"{CLONES}/r1/{n}") for n in range(2)} == parts
    for number in range(2):
        part = world.pools.datasets[f"{CLONES}/r1/{number}"]
        assert part.mounted == f"/srv/clones/r1/{number}"
        assert set(part.properties) == {*CLONE_PROPERTIES, PART}
    assert [world.pools.datasets[name].mounted for name in NAMES] == [DATA, LOG, None]
    require_well(world, ctx)


def test_what_was_put_aside_and_cannot_be_mounted_is_told(world: World, ctx: Context) -> None:
    def refuses(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[:2] == ("zfs", "mount") and argv[-1].startswith("tank/db-before"):
            raise CommandFailed(argv, 1, "no")
        return act()

    world.passing = refuses
    report = switch(ctx, "r1")
    assert sum("is not mounted, so that its backups cannot be read" in note for note in world.notes) == 2
    assert report.outcome == "switched"


def test_one_that_is_mounted_elsewhere_is_not_served_from_there(world: World, ctx: Context) -> None:
    def elsewhere(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        found = act()
        if argv[:2] == ("zfs", "mount") and argv[-1] == "tank/db/log" and len(seen) < 1:
            world.pools.datasets["tank/db/log"].mounted = "/elsewhere"
            seen.append(argv)
        return found

    seen: list[object] = []
    world.passing = elsewhere
    with pytest.raises(Refused, match=f"tank/db/log is mounted at /elsewhere, and not at {LOG}"):
        switch(ctx, "r1")
    assert world.server.running and world.dataset_at(LOG).name == "tank/db/log"
    assert any("and not at" in note and note.endswith("; going back") for note in world.notes)
    assert "shop is as it was, and runs" in world.notes


def test_what_somebody_renamed_or_destroyed_meanwhile_is_told(world: World, ctx: Context) -> None:
    broken_at(world, ctx, "rename")
    kept = world.keep()
    world.pools.rename("tank/db", "tank/mine")
    with pytest.raises(
        ZbackupError, match=r"tank/db-before-.* was renamed meanwhile: zfs rename -u tank/mine tank/db"
    ):
        undo(ctx, "r1")
    world.put_back(kept)
    del world.pools.datasets[IDLE]
    with pytest.raises(Refused, match=r"with the guid .* is not there any more: somebody destroyed it"):
        steps.put_back(ctx, *_intended(ctx))


def _intended(ctx: Context) -> Any:
    found = find_clone(ctx, "r1")
    assert found and found[0].switch
    return found[0], found[0].switch


def test_what_was_made_since_or_is_gone_keeps_a_switch_from_being_undone(world: World, ctx: Context) -> None:
    report = switch(ctx, "r1")
    kept = world.keep()
    for changes, said in (
        (
            lambda: world.pools.rename(report.aside[0], "tank/mine"),
            f"{report.aside[0]} is not there any more",
        ),
        (lambda: world.pools.create("tank/db/new", {}), "tank/db/new was created after the switch"),
        (lambda: world.pools.datasets.pop(report.aside[2]), f"{report.aside[2]} is not there any more"),
    ):
        changes()
        before = portrait(world)
        with pytest.raises(Refused, match=said):
            undo(ctx)
        assert portrait(world) == before and world.server.running
        world.put_back(kept)


def test_nobody_else_works_on_either_meanwhile(world: World, ctx: Context) -> None:
    seen: set[tuple[str, bool, bool]] = set()

    def watched(argv: tuple[str, ...], mutates: bool, act: Callable[[], Any]) -> Any:
        if argv[0] == "service" or argv[1] in ("rename", "promote", "mount", "unmount"):
            seen.add((argv[1], is_locked(ctx.lock_file), is_locked(ctx.shared / "clone-r1.lock")))
        return act()

    for job in (lambda: switch(ctx, "r1"), lambda: undo(ctx)):
        seen.clear()
        world.passing = watched
        job()
        assert {each[1:] for each in seen} == {(True, True)} and len(seen) == 6


def test_a_server_that_does_not_answer_is_told_of_before_it_is_stopped(world: World, ctx: Context) -> None:
    world.server.running = False
    plan(ctx, "r1")
    assert any("does not answer before it is stopped" in note for note in world.notes)


def test_an_intent_too_long_to_be_written_down_is_refused(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_clone(ctx, "r1")
    assert found
    intent = inspect.intend(ctx, found[0])
    long = replace(found[0], state="switching", stopped=True, switch=intent)
    monkeypatch.setattr(room, "CHUNK", len(long.to_property()) - 1)
    before = portrait(world)
    with pytest.raises(Refused, match="3 datasets are too many to be switched at once"):
        room._write_intent(ctx, long)
    assert portrait(world) == before
    monkeypatch.setattr(room, "CHUNK", len(long.to_property()))
    room._write_intent(ctx, long)
    assert find_clone(ctx, "r1") != found


def test_an_interrupt_goes_back_and_says_so(world: World, ctx: Context) -> None:
    def interrupts(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        found = act()
        if argv[1] == "rename" and argv[-1].startswith("tank/db-before"):
            raise KeyboardInterrupt
        return found

    world.passing = interrupts
    with pytest.raises(KeyboardInterrupt):
        switch(ctx, "r1")
    assert "interrupted; going back" in world.notes and "shop is as it was, and runs" in world.notes
    assert world.server.running and world.dataset_at(DATA).name == "tank/db"


@pytest.mark.parametrize("back", [False, True])
def test_a_server_that_does_not_start_is_left_with_both_ways_named(
    world: World, ctx: Context, *, back: bool
) -> None:
    def refuses(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv == ("service", "start"):
            raise CommandFailed(argv, 1, "no")
        return act()

    if back:
        switch(ctx, "r1")
    world.passing = refuses
    again, other = ("--undo", "r1") if back else ("r1", "--undo")
    with pytest.raises(DatabaseError, match=f"the server does not run.*{again}. To go back: .*{other}$"):
        undo(ctx) if back else switch(ctx, "r1")
    found = find_clone(ctx, "r1")
    assert found and found[0].state == ("undoing" if back else "switching")


def test_a_way_back_that_fails_says_both(world: World, ctx: Context) -> None:
    def refuses(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[1] == "rename":
            raise CommandFailed(argv, 1, "no")
        if argv == ("zfs", "mount", "--", "tank/db"):
            raise CommandFailed(argv, 1, "never")
        return act()

    world.passing = refuses
    with pytest.raises(
        ZbackupError, match=r"zfs rename.*no.*Going back failed, too: .*never.*shop r1 --undo"
    ):
        switch(ctx, "r1")


def test_the_log_of_what_goes_is_kept_and_nobody_believes_that_it_ended(world: World, ctx: Context) -> None:
    """One for each way; that of a switch that was given up is discarded."""

    def ends() -> list[str]:
        return [b.record.stopped_for for b in ctx.catalog().backups if b.record.stopped_for]

    broken_at(world, ctx, "rename")
    undo(ctx, "r1")
    assert ends() == []
    switch(ctx, "r1")
    assert [why.partition(" of ")[0] for why in ends()] == ["switch to r1"]
    undo(ctx)
    assert [why.partition(" after ")[0].partition(" of ")[0] for why in ends()] == [
        "switch to r1",
        "way back from r1",
    ]


def test_what_has_to_be_done_before_it_serves_is_told(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in ("initiate it", ""):
        monkeypatch.setattr(room, "start", lambda _, said=said: _started(world) or said)
        report = switch(ctx, "r1")
        assert (report.remarks[0] == said) == bool(said) and len(report.remarks) == 1 + bool(said)
        world.server.running = True
        assert undo(ctx).remarks == ((said,) if said else ())
        world.server.running = True


def _started(world: World) -> str:
    world.server.running = True
    return ""
