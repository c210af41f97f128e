"""Destroying and resetting a clone: what is taken for the clone's own, and what is left and named."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fast.right import portrait, require_well
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, World
from zbackup.features.switch.switch import switch, undo
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones.clone_datasets import PART, SNAPSHOT, describe, find_clone
from zbackup.jobs.clones.find_leftovers import leftovers
from zbackup.jobs.clones.provision import serving
from zbackup.jobs.clones.replace_datasets import _destroy
from zbackup.jobs.clones.temporary import removed_on_failure
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.jobs.dev_clones.lease import protect
from zbackup.jobs.dev_clones.reset import reset
from zbackup.jobs.dev_clones.snapshot import snapshot as snapshot_clone
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.errors import NotFound, Refused

DEV = f"{CLONES}/dev"


@pytest.fixture
def ctx(world: World) -> Context:
    """A dev clone."""
    made = world.context()
    snapshot(made)
    world.state.elapsed += timedelta(minutes=1)
    list(create(made, CreateOptions(name="dev")))
    return made


def refused(world: World, job: Callable[[], object], said: str) -> None:
    before = portrait(world)
    with pytest.raises(Refused, match=said):
        job()
    assert portrait(world) == before


def destroys(ctx: Context) -> Callable[[], object]:
    return lambda: clones.destroy([ctx], "dev")


def test_snapshots_and_datasets_of_others_keep_it(world: World, ctx: Context) -> None:
    world.pools.snapshot([f"{DEV}/0@mine"], {"my:own": "1"})
    refused(world, destroys(ctx), r"holds what zbackup did not make: tank/zbackup/dev/0@mine\. Destroy")
    refused(world, lambda: reset([ctx], "dev", latest=False), "dev/0@mine")
    found, [part] = find_clone(ctx, "dev"), ctx.zfs.filesystems(f"{DEV}/0")
    assert found
    refused(world, lambda: _destroy(ctx, found[0], part), "dev/0@mine .*zbackup did not make it")
    assert world.pools.snapshot_called(f"{DEV}/0@mine").properties == {"my:own": "1"}
    world.pools.destroy_snapshot(f"{DEV}/0@mine")
    world.pools.create(f"{DEV}/x", {PART: "another's"})
    refused(world, destroys(ctx), "did not make: tank/zbackup/dev/x")


def test_a_snapshot_with_another_clones_mark_is_not_its_own(world: World, ctx: Context) -> None:
    world.pools.snapshot([f"{DEV}/0@theirs"], {SNAPSHOT: "another's"})
    refused(world, destroys(ctx), "dev/0@theirs")


def test_what_a_power_cut_left_unmarked_goes_while_it_is_made_and_nothing_like_it(
    world: World, ctx: Context
) -> None:
    """ZFS makes a clone and sets its properties in two transaction groups."""
    found = find_clone(ctx, "dev")
    assert found
    part = world.pools.datasets[f"{DEV}/0"]
    del part.properties[PART]
    refused(world, destroys(ctx), "did not make: tank/zbackup/dev/0")
    for state in ("failed", "switching"):
        describe(ctx, replace(found[0], state=state))
        refused(world, destroys(ctx), "dev")
    describe(ctx, replace(found[0], state="building"))
    world.pools.create(f"{DEV}/7", {})
    refused(world, destroys(ctx), r"did not make: tank/zbackup/dev/7\. ")
    del world.pools.datasets[f"{DEV}/7"]
    of_another = replace(found[0], state="building", backup="zbackup-another")
    describe(ctx, of_another)
    refused(world, destroys(ctx), "did not make: tank/zbackup/dev/0")
    for state in ("building", "resetting"):
        kept = world.keep()
        describe(ctx, replace(found[0], state=state))
        clones.destroy([ctx], "dev")
        assert not [name for name in world.pools.datasets if name.startswith(DEV)], state
        world.put_back(kept)


def test_a_part_with_another_clones_mark_is_not_its_own_even_while_it_is_made(
    world: World, ctx: Context
) -> None:
    found = find_clone(ctx, "dev")
    assert found
    describe(ctx, replace(found[0], state="building"))
    world.pools.datasets[f"{DEV}/0"].properties[PART] = "another's"
    refused(world, destroys(ctx), "did not make: tank/zbackup/dev/0")


def test_what_somebody_calls_as_a_reset_would_stays(world: World, ctx: Context) -> None:
    made = world.pools.create(f"{DEV}/fresh-0", {"canmount": "noauto", "my:own": "1"})
    with pytest.raises(Refused, match="dev/fresh-0 is in the clone dev, and zbackup did not make it"):
        reset([ctx], "dev", latest=True)
    assert world.pools.datasets[f"{DEV}/fresh-0"].guid == made.guid


def test_a_reset_clone_keeps_its_password(world: World, ctx: Context) -> None:
    before = clones.way_in([ctx], "dev").login
    reset([ctx], "dev", latest=True)
    assert before and clones.way_in([ctx], "dev").login == before


def test_events_are_off_in_a_dev_clone_alone(ctx: Context) -> None:
    found = find_clone(ctx, "dev")
    assert found and serving(found[0]).events_off
    assert not serving(replace(found[0], kind="restore")).events_off


def test_one_with_children_is_kept_by_them(world: World, ctx: Context) -> None:
    snapshot_clone([ctx], "dev", "one")
    list(create(ctx, CreateOptions(name="kid", parent="dev")))
    refused(world, destroys(ctx), "has children: destroy kid first")


def test_a_protected_one_stays_until_then(world: World, ctx: Context) -> None:
    protect([ctx], "dev", ctx.clock.now() + timedelta(days=1))
    refused(world, destroys(ctx), "dev is protected until")
    world.state.elapsed += timedelta(days=2)
    clones.destroy([ctx], "dev")


def test_one_that_was_in_productions_place_is_kept_by_the_backups_of_that_time(world: World) -> None:
    ctx = world.context()
    snapshot(ctx)
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="r1"))
    switch(ctx, "r1")
    refused(world, lambda: clones.destroy([ctx], "r1"), "set aside by the switch to r1, and is needed")
    undo(ctx)
    refused(
        world,
        lambda: clones.destroy([ctx], "r1"),
        r"has backups from that time \(4 snapshots.*after zbackup prune has removed them$",
    )
    require_well(world, ctx)


def test_a_clone_that_lost_its_record_is_not_started(world: World, ctx: Context) -> None:
    clones.stop([ctx], "dev")
    for kept in (None, "nonsense", "{}"):
        files = world.pools.datasets[DEV].files
        files.pop("record.json", None)
        if kept is not None:
            files["record.json"] = kept
        with pytest.raises(NotFound, match="has lost the record of what it was made from"):
            clones.start([ctx], "dev")
    assert not world.state.servers


def test_a_clone_without_a_port_has_no_way_in_but_its_socket(ctx: Context) -> None:
    found = find_clone(ctx, "dev")
    assert found and clones.show([ctx], "dev").running
    describe(ctx, replace(found[0], port=0))
    with pytest.raises(Refused, match="has no port; its socket: zbackup clone show dev"):
        clones.way_in([ctx], "dev")
    clones.stop([ctx], "dev")
    assert not clones.show([ctx], "dev").running


def test_what_a_recovery_made_goes_when_it_fails_and_nobody_elses_of_that_name(
    world: World, ctx: Context
) -> None:
    found = find_clone(ctx, "dev")
    assert found
    before = portrait(world)
    with pytest.raises(Refused), removed_on_failure(ctx, replace(found[0], id="mine"), keep=False):
        raise Refused("the name is taken")
    with pytest.raises(Refused), removed_on_failure(ctx, replace(found[0], id="mine"), keep=True):
        raise Refused("the name is taken")
    assert portrait(world) == before
    with pytest.raises(Refused), removed_on_failure(ctx, found[0], keep=True):
        raise Refused("it is damaged")
    kept = find_clone(ctx, "dev")
    assert kept and kept[0].state == "failed"
    with pytest.raises(Refused), removed_on_failure(ctx, found[0], keep=False):
        raise Refused("it is damaged")
    assert find_clone(ctx, "dev") is None


def test_leftovers_are_told_with_whether_they_run(world: World, ctx: Context) -> None:
    """A copy goes with the clone that it is for, and is named alone where that is not there."""
    found = find_clone(ctx, "dev")
    assert found and leftovers(ctx) == ()
    describe(ctx, replace(found[0], state="building"))
    for name in ("dev.copy", "alone.copy"):
        unfinished(ctx, name, kind="copy")
    unfinished(ctx, "theirs", instance="wiki")
    assert {(each.clone.name, each.running) for each in leftovers(ctx)} == {
        ("dev", True),
        ("alone.copy", False),
    }
