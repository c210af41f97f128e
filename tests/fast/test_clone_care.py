"""Stopping and destroying a clone, and what its server may do."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fast.right import portrait
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, World
from zbackup.features.switch.switch import switch
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import claim, find_leftovers, provision
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones.clone_datasets import ORIGIN, PART, SNAPSHOT, find_clone, record_of
from zbackup.jobs.clones.find_leftovers import leftovers
from zbackup.jobs.clones.provision import serving
from zbackup.jobs.clones.replace_datasets import exchange, has_beginning
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.jobs.dev_clones.reset import reset
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.clone import INTENT, Clone
from zbackup.model.cloning import Mask
from zbackup.model.errors import CommandFailed, NotFound, Refused
from zbackup.model.moment import Moment
from zbackup.model.recovery import process_note


@pytest.fixture
def ctx(world: World) -> Context:
    """A dev clone, and a restored one."""
    made = world.context()
    snapshot(made)
    world.state.elapsed += timedelta(minutes=1)
    list(create(made, CreateOptions(name="dev")))
    restore(made, LOCAL.latest(made, RestoreOptions()), RestoreOptions(name="r1"))
    return made


def clone(ctx: Context, name: str) -> Clone:
    found = find_clone(ctx, name)
    assert found
    return found[0]


def test_of_a_dev_clone_alone_it_is_written_down_that_somebody_stopped_it(world: World, ctx: Context) -> None:
    before = portrait(world)
    for name, noted in (("dev", True), ("r1", False)):
        clones.stop([ctx], name)
        assert clone(ctx, name).stopped == noted
        for _ in range(2):
            clones.start([ctx], name)
            assert not clone(ctx, name).stopped
    assert portrait(world) == before


def test_a_dev_clone_is_half_destroyed_until_it_is_gone(world: World, ctx: Context) -> None:
    """It cannot be started meanwhile. One that was never finished is not shown, and stays that."""
    seen: list[str] = []

    def watched(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[0] == "kill" or (argv[:2] == ("zfs", "destroy") and argv[2] != "-n"):
            world.passing = unwatched
            seen.append(clone(ctx, "dev").state)
            world.passing = watched
        return act()

    unwatched, world.passing = world.passing, watched
    kept = world.keep()
    clones.destroy([ctx], "dev")
    assert set(seen) == {"destroying"} and len(seen) > 2
    world.put_back(kept)
    clones.destroy([ctx], "dev")
    unfinished(ctx, "dev", kind="dev")
    seen.clear()
    world.passing = watched
    clones.destroy([ctx], "dev")
    assert seen == ["building"]
    world.passing = unwatched
    clones.destroy([ctx], "r1")
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="dev"))
    seen.clear()
    world.passing = watched
    clones.destroy([ctx], "dev")
    assert set(seen) == {"ready"}, "a restored one"


def test_the_note_of_its_process_goes_with_it(world: World, ctx: Context) -> None:
    note, socket = str(process_note(ctx.run_dir / "dev")), str(ctx.run_dir / "dev" / "socket")
    for each in (note, socket):
        world.state.files[each] = "4711"
    world.pools.datasets[CLONES].properties[f"{INTENT}dev"] = "x"
    clones.destroy([ctx], "dev")
    assert not {note, socket} & set(world.state.files)
    assert f"{INTENT}dev" not in world.pools.datasets[CLONES].properties


def test_one_that_is_gone_is_not_found_again(world: World, ctx: Context) -> None:
    assert clones.find_again(ctx, "dev")[0].name == "dev"
    with pytest.raises(NotFound, match="the clone gone is gone: somebody else destroyed it"):
        clones.find_again(ctx, "gone")
    unfinished(ctx, "w1", instance="wiki")
    assert [each.clone.name for each in clones.list_clones([ctx]).clones] == ["dev", "r1"]
    clones.destroy([replace(ctx, instance="wiki")], "w1")
    with pytest.raises(NotFound, match="there is no clone gone; there are: dev, r1"):
        clones.show([ctx], "gone")
    world.pools.datasets[f"{CLONES}/dev"].properties["zbackup:clone"] = "nonsense"
    with pytest.raises(Refused, match="tank/zbackup/dev cannot be read"):
        clones.show([ctx], "dev")


def test_one_that_was_never_finished_is_not_started(world: World, ctx: Context) -> None:
    """Nor has it a port, unless somebody wants one."""
    assert unfinished(ctx, "half", kind="dev").port == 0
    with pytest.raises(Refused, match="half"):
        clones.start([ctx], "half")
    assert "half" not in world.state.servers


def test_what_somebody_put_into_a_copy_that_is_made_is_his(world: World, ctx: Context) -> None:
    """A power cut may leave a numbered dataset of its own without its mark, and no other."""
    unfinished(ctx, "r9.copy", kind="copy")
    for name in ("0", "mine"):
        world.pools.create(f"{CLONES}/r9.copy/{name}", {})
    with pytest.raises(Refused, match=r"did not make: tank/zbackup/r9.copy/mine"):
        clones.destroy([ctx], "r9.copy")
    del world.pools.datasets[f"{CLONES}/r9.copy/mine"]
    clones.destroy([ctx], "r9.copy")


@pytest.mark.parametrize("root", [True, False])
def test_root_mounts_only_where_nobody_else_could_have_put_a_link(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, root: bool
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(claim, "claim_for_root", asked.append)
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 999)
    unfinished(ctx, "half")
    assert asked == ([ctx.mountpoint] if root else [])
    own = ctx.zfs.own_settings(CLONES)
    assert not [key for key in own if key.startswith(INTENT)], "it is there, and nothing else is taken for it"


def test_a_mask_is_sql_for_the_server_or_a_program(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    server: Any = SimpleNamespace(execute=done.append)
    monkeypatch.setattr(
        provision.secure_files, "read_linked", lambda path, _: f"text of {path}", raising=False
    )
    monkeypatch.setattr(provision, "run_hook", lambda *asked: done.append(asked))
    provision._take(ctx, Mask(sql="/etc/mask.sql"), server, {"a": "b"})
    provision._take(ctx, Mask(run=("mask", "x")), server, {"a": "b"})
    assert done == ["text of /etc/mask.sql", (("mask", "x"), {"a": "b"}, ctx.cloning.mask_limit)]


@pytest.mark.parametrize(
    ("login", "own_root", "restricted"), [("", False, False), ("u", True, False), ("u", False, True)]
)
def test_accounts_that_are_made_for_developers_are_restricted(
    ctx: Context, login: str, own_root: bool, restricted: bool
) -> None:
    served = serving(replace(clone(ctx, "r1"), login=login, own_root=own_root))
    assert (served.login, served.restricted) == (bool(login), restricted)


def test_a_clone_that_was_switched_to_stays_while_it_leads_to_what_was_put_aside(
    world: World, ctx: Context
) -> None:
    aside = switch(ctx, "r1").aside
    before = portrait(world)
    with pytest.raises(
        Refused, match=f"{aside[0]} was set aside by the switch to r1, and is needed to undo it"
    ):
        clones.destroy([ctx], "r1")
    assert portrait(world) == before
    for name in reversed(aside):
        del world.pools.datasets[name]
    clones.destroy([ctx], "r1")
    assert find_clone(ctx, "r1") is None


@pytest.mark.parametrize("latest", [True, False])
def test_a_reset_destroys_parts_of_its_own_alone(world: World, ctx: Context, latest: bool) -> None:
    part = world.pools.datasets[f"{CLONES}/dev/0"]
    part.properties[PART] = "another's"
    with pytest.raises(Refused, match="dev/0 is in the clone dev, and zbackup did not make it"):
        reset([ctx], "dev", latest=latest)
    assert world.pools.datasets[f"{CLONES}/dev/0"].guid == part.guid


def test_a_reset_clone_is_of_the_backup_that_it_was_reset_to(world: World, ctx: Context) -> None:
    """And half reset until it is."""
    newest = snapshot(ctx).backup
    seen: list[str] = []

    def watched(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[:2] in (("zfs", "destroy"), ("zfs", "rename")):
            world.passing = unwatched
            seen.append(clone(ctx, "dev").state)
            world.passing = watched
        return act()

    unwatched = world.passing
    for latest in (True, False):
        seen.clear()
        world.passing = watched
        reset([ctx], "dev", latest=latest)
        world.passing = unwatched
        found = clone(ctx, "dev")
        assert set(seen) == {"resetting"} and found.state == "ready"
        assert (found.backup, record_of(ctx, found).backup) == (newest.name, newest.record.backup)


def test_what_its_maker_has_finished_since_it_was_looked_at_is_no_leftover(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = unfinished(ctx, "half")
    assert [each.clone.name for each in leftovers(ctx)] == ["half"]
    looks = iter([[half], []])
    monkeypatch.setattr(find_leftovers, "_unfinished", lambda _: next(looks))
    assert leftovers(ctx) == ()


def test_a_clone_begins_anew_from_its_own_first_snapshot_alone(world: World, ctx: Context) -> None:
    dev = clone(ctx, "dev")
    snapshots = [f"{CLONES}/dev/{number}@{ORIGIN}" for number in (0, 1)]
    for name, mark, begins in ((ORIGIN, dev.id, True), (ORIGIN, "another's", False), ("x", dev.id, False)):
        kept = world.keep()
        world.pools.snapshot([each.replace(ORIGIN, name) for each in snapshots], {SNAPSHOT: mark})
        assert has_beginning(ctx, dev, 2) == begins, (name, mark)
        world.put_back(kept)


def test_after_a_reboot_a_clone_is_mounted_again_and_started(world: World, ctx: Context) -> None:
    clones.stop([ctx], "r1")
    datasets = [f"{CLONES}/r1", f"{CLONES}/r1/0", f"{CLONES}/r1/1"]
    for name in datasets:
        world.pools.datasets[name].mounted = None
    clones.start([ctx], "r1")
    assert all(world.pools.datasets[name].mounted for name in datasets) and "r1" in world.state.servers


@pytest.mark.parametrize("latest", [True, False])
def test_a_clone_of_a_moment_is_half_reset_until_it_is_whole_again(
    world: World, ctx: Context, latest: bool
) -> None:
    moment = Moment(world.now - timedelta(seconds=1), "then", ZoneInfo("UTC"))
    snapshot(ctx)
    list(create(ctx, CreateOptions(name="m", target=moment)))
    seen: list[str] = []

    def watched(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[:2] in (("zfs", "destroy"), ("zfs", "rename")):
            world.passing = unwatched
            seen.append(clone(ctx, "m").state)
            world.passing = watched
        return act()

    unwatched, world.passing = world.passing, watched
    reset([ctx], "m", latest=latest)
    assert set(seen) == {"resetting"} and clone(ctx, "m").state == "ready"


def test_what_a_killed_reset_had_made_takes_the_place_of_what_it_destroyed(
    world: World, ctx: Context
) -> None:
    """It may be nowhere else by now."""
    world.stop_clone("dev")
    made = world.pools.datasets[f"{CLONES}/dev/0"]
    world.pools.rename(made.name, f"{CLONES}/dev/fresh-0")

    def fails() -> None:
        raise CommandFailed(("zfs", "clone"), 1, "no")

    with pytest.raises(CommandFailed):
        exchange(ctx, clone(ctx, "dev"), "resetting", fails)
    assert world.pools.datasets[f"{CLONES}/dev/0"].guid == made.guid
