"""Names, ports and files that are one clone's alone, whoever asks for them."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.adapters import changed
from tests.fast.right import portrait
from tests.fast.test_own_parts import refused
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, MOUNTS, World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import claim, clone_datasets, provision
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones.claim import everywhere, forget_if_never_made, free_ports, names_taken
from zbackup.jobs.clones.clone_datasets import describe, find_clone, in_sight_of, open_again
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import plan_restore, restore
from zbackup.model.clone import INTENT
from zbackup.model.cloning import Mask
from zbackup.model.errors import CommandFailed, Refused, Taken

THERE = "vault/zbackup"


@pytest.fixture
def ctx(world: World) -> Context:
    """Clones may be on two pools, and three ports are for them."""
    made = world.context()
    made = replace(
        made, cloning=replace(made.cloning, ports=(4000, 4002), roots=(CLONES, THERE)), elsewhere=(THERE,)
    )
    world.pools.create(THERE, {"mountpoint": MOUNTS, "canmount": "off", "zbackup:clones": "1"})
    snapshot(made)
    return made


def test_a_name_is_taken_wherever_there_is_one(world: World, ctx: Context) -> None:
    unfinished(ctx.at(THERE), "r1", state="ready")
    unfinished(ctx, "r2", instance="wiki", state="ready")
    unfinished(ctx, "odd", state="ready")
    assert sorted(clone.name for clone, _ in everywhere(ctx)) == ["odd", "r1", "r2"], "each once"
    world.pools.datasets[f"{CLONES}/odd"].properties["zbackup:clone"] = "nonsense"
    assert names_taken(ctx) == {"odd", "r1", "r2"}
    before = portrait(world)
    for name, kind in (("r1", Taken), ("r2", Taken), ("odd", Refused)):
        for values in ({"kind": "dev"}, {"port": 4001}):
            with pytest.raises(kind, match=name):
                unfinished(ctx, name, **values)
    assert portrait(world) == before


@pytest.mark.parametrize("name", ["r1", "r1.log"])
def test_a_restore_and_its_dry_run_are_refused_the_name_of_a_volume(
    world: World, ctx: Context, name: str
) -> None:
    """Which is not among the file systems below the clones' dataset."""
    world.pools.create(f"{CLONES}/{name}", {}).volume = True
    latest, before = LOCAL.latest(ctx, RestoreOptions()), portrait(world)
    for job in (plan_restore, restore):
        with pytest.raises(Taken, match=f"{CLONES}/{name} exists and is no clone of zbackup's"):
            job(ctx, latest, RestoreOptions(name="r1"))
    assert portrait(world) == before


def test_who_comes_second_is_told_whose_the_dataset_is(world: World, ctx: Context) -> None:
    """Another run may have made it since it was looked: that is nothing that somebody has to destroy."""
    unfinished(ctx, "r1", instance="wiki")
    world.pools.create(f"{CLONES}/r2", {}).volume = True
    world.pools.create(f"{CLONES}/r3", {})
    unfinished(ctx, "odd")
    world.pools.datasets[f"{CLONES}/odd"].properties["zbackup:clone"] = "nonsense"
    before = portrait(world)
    for name, said, kind in (
        ("r1", f"{CLONES}/r1 is a clone r1 already: choose another --name", Taken),
        ("r2", f"{CLONES}/r2 exists and is no clone of zbackup's: choose another --name", Taken),
        ("r3", f"{CLONES}/r3 exists and is no clone of zbackup's: choose another --name", Taken),
        ("odd", f"{CLONES}/odd cannot be read", Refused),
    ):
        with pytest.raises(kind, match=f"^{said}"):
            unfinished(ctx, name)
    assert portrait(world) == before


def test_a_port_is_taken_while_its_clone_is_there_or_anybody_listens(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(ctx.at(THERE), "r1", port=4000)
    with pytest.raises(Taken, match="port 4000 belongs to the clone r1"):
        unfinished(ctx, "r2", port=4000)
    monkeypatch.setattr(claim, "_in_use", lambda port: "in use" if port == 4001 else "")
    with pytest.raises(Taken, match=r"port 4001 cannot be used: in use \(ss -tanp"):
        unfinished(ctx, "r2", port=4001)
    assert free_ports(ctx, 1) == [4002]
    with pytest.raises(
        Taken, match=r"2 of the ports 4000-4002 wanted, 1 free: 1 belong .* 1 are used by other"
    ):
        free_ports(ctx, 2)
    list(create(ctx, CreateOptions(name="dev")))
    found = find_clone(ctx, "dev")
    assert found and found[0].port == 4002
    with pytest.raises(Taken, match="1 of the ports 4000-4002 wanted, 0 free: 2 belong"):
        list(create(ctx, CreateOptions(name="dev2")))


@pytest.mark.parametrize(("status", "known"), [(1, False), (-9, True), (0, True)])
def test_what_may_have_been_made_is_remembered(world: World, ctx: Context, status: int, known: bool) -> None:
    """A zfs that refused made none; one that was killed may have."""

    def breaks(argv: tuple[str, ...], mutates: bool, act: Callable[[], Any]) -> Any:
        if argv[:2] == ("zfs", "create"):
            raise CommandFailed(argv, status, "no")
        return act()

    world.passing = breaks
    with pytest.raises(CommandFailed):
        unfinished(ctx, "r1")
    assert (INTENT + "r1" in ctx.zfs.own_settings(CLONES)) == known


def test_what_was_begun_is_not_forgotten_while_its_dataset_is_there(world: World, ctx: Context) -> None:
    unfinished(ctx, "r1")
    ctx.zfs.set_properties(CLONES, {INTENT + "r1": "x", INTENT + "r2": "x"})
    for name in ("r1", "r2"):
        forget_if_never_made(ctx, name)
    assert {key for key in ctx.zfs.own_settings(CLONES) if key.startswith(INTENT)} == {INTENT + "r1"}


def test_a_clones_server_sees_neither_production_nor_other_clones(world: World, ctx: Context) -> None:
    for name in ("dev", "dev2"):
        list(create(ctx, CreateOptions(name=name)))
    found = find_clone(ctx, "dev")
    assert found
    files = in_sight_of(ctx, open_again(ctx, found[0]), ctx.members(), [found[0]])
    assert {"/srv/db", "/srv/db/log", f"{MOUNTS}/dev2", f"{MOUNTS}/dev2/0", f"{MOUNTS}/dev2/1"} <= set(
        files.hide
    )
    assert not [
        place for place in files.hide if place == f"{MOUNTS}/dev" or place.startswith(f"{MOUNTS}/dev/")
    ]


def test_after_a_reboot_all_of_it_is_mounted_again(world: World, ctx: Context) -> None:
    list(create(ctx, CreateOptions(name="dev")))
    clones.stop([ctx], "dev")
    for name in ("dev", "dev/0", "dev/1"):
        world.pools.datasets[f"{CLONES}/{name}"].mounted = None
    clones.start([ctx], "dev")
    assert clones.show([ctx], "dev").running


def test_one_that_a_switch_needs_is_not_destroyed_and_an_unfinished_one_has_no_way_in(
    world: World, ctx: Context
) -> None:
    list(create(ctx, CreateOptions(name="dev")))
    found = find_clone(ctx, "dev")
    assert found
    for state in ("switching", "undoing"):
        describe(ctx, replace(found[0], state=state))
        refused(world, lambda: clones.destroy([ctx], "dev"), "is half switched")
    describe(ctx, replace(found[0], state="building"))
    refused(world, lambda: clones.way_in([ctx], "dev"), "was never finished")
    describe(ctx, replace(found[0], login=""))
    assert clones.show([ctx], "dev").password is None and clones.way_in([ctx], "dev").login is None
    describe(ctx, found[0])
    assert (
        str(clones.show([ctx], "dev").password) == f"{MOUNTS}/dev/password"
        and clones.way_in([ctx], "dev").login
    )


@pytest.mark.parametrize(("alive", "text"), [(True, "note"), (False, "note"), (True, None), (True, "odd")])
def test_a_server_runs_while_the_process_of_its_note_does(
    ctx: Context, alive: bool, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = SimpleNamespace(alive=alive)

    def read(_: object) -> str:
        if text is None:
            raise FileNotFoundError
        return text

    def parse(given: str) -> Any:
        if given == "odd":
            raise ValueError(given)
        return process

    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clone_datasets, "secure_files", SimpleNamespace(read_own=read))
        patch.setattr(clone_datasets, "Process", SimpleNamespace(parse=parse))
        found = REAL(ctx, "dev")
    assert found is (process if alive and text == "note" else None)


REAL = clone_datasets.server_process


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("steps", [(), (Mask(sql="/etc/mask.sql"),)])
@pytest.mark.parametrize("follows", [True, False])
def test_a_clone_is_masked_once_and_follows_who_it_is_to(
    ctx: Context, masked: bool, steps: tuple[Mask, ...], follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(ctx, "dev", kind="dev", port=4000)
    found = find_clone(ctx, "dev")
    assert found
    handed: list[Any] = []
    recovery: Any = SimpleNamespace(adopt=lambda _, adoption, __: handed.append(adoption))
    source: Any = object()
    cloning = replace(ctx.cloning, mask=steps, replica=source)
    given = changed(ctx, recovery=recovery, cloning=cloning)
    clone = replace(found[0], masked=masked, follows=follows, login="")
    ready = provision.hand_over(given, clone, SimpleNamespace(), recovered=False)  # type: ignore[arg-type]
    [adoption] = handed
    assert (adoption.prepare is not None) == (bool(steps) and not masked)
    assert adoption.source is (source if follows else None)
    assert (ready.state, ready.masked) == ("ready", masked or bool(steps))
