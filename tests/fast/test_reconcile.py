"""The daemon's first work: exactly what nobody works on any more is put right, and the rest is told."""

from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fast.breaking import every_break
from tests.fast.right import require_well
from tests.fast.world import CLONES, World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.cleanup.cleanup import Reconciled, reconcile, remove_unfinished
from zbackup.jobs.clones.claim import announce
from zbackup.jobs.clones.clone_datasets import describe, find_clone, new_id
from zbackup.jobs.clones.fetched_datasets import FETCHED
from zbackup.jobs.clones.find_leftovers import leftovers
from zbackup.jobs.clones.lifecycle import start, stop, working_on
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.jobs.ship.ship import ship
from zbackup.model.clone import INTENT, Clone
from zbackup.model.errors import Refused, UsageError
from zbackup.model.shipping import hold_tag


@pytest.fixture
def ctx(world: World) -> Context:
    made = world.context()
    snapshot(made)
    world.state.elapsed += timedelta(minutes=1)
    return made


def unfinished(ctx: Context, name: str, **changes: Any) -> Clone:
    """A clone that somebody began to make."""
    values = {"kind": "restore", "state": "building", "backup": "zbackup-1", "engine": "mysql"} | changes
    values |= {"id": new_id(), "name": name, "instance": changes.get("instance", ctx.instance)}
    return announce(ctx, Clone(created=ctx.clock.now(), **values))


def there(world: World) -> set[str]:
    names = (d.name.removeprefix(f"{CLONES}/") for d in world.pools.children(CLONES))
    return {name for name in names if "/" not in name} - {"foreign"}


def said(found: Reconciled) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return found.healed, found.reported


def test_where_all_is_well_nothing_is_done_and_nothing_said(world: World, ctx: Context) -> None:
    list(create(ctx, CreateOptions(name="dev")))
    looked = world.server.healed
    found = reconcile(ctx)
    assert said(found) == ((), ()) and found.last == ctx.catalog().backups[-1].record.taken
    assert there(world) == {"dev"} and world.server.healed == looked + 1


def test_a_backup_that_a_dead_run_did_not_finish_is_and_is_told(world: World, ctx: Context) -> None:
    for each in every_break(world, lambda: snapshot(ctx), ("killed after",)):
        if each.broke[1] == "snapshot":
            break
    left = ctx.catalog().backups[-1]
    assert not left.finished
    assert said(reconcile(ctx)) == ((f"finished {left.name}",), ())


def test_what_a_dead_maker_left_goes_and_nothing_else(world: World, ctx: Context) -> None:
    """Not another instance's, not a living maker's, and none that was finished or kept for a look."""
    for name in ("dead", "alive"):
        unfinished(ctx, name)
    unfinished(ctx, "theirs", instance="wiki")
    for number, state in enumerate(("ready", "failed", "destroying", "resetting", "promoting")):
        unfinished(ctx, f"r{number}", kind="dev", state=state, stopped=True)
    before = there(world)
    with working_on(ctx, "alive", "zbackup restore"):
        assert remove_unfinished(ctx, "alive") is None
        assert [each.clone.name for each in leftovers(ctx) if each.clone.state == "building"] == ["dead"]
        found = reconcile(ctx)
    assert said(found) == (("removed the unfinished clone dead",), ())
    assert there(world) == before - {"dead"}
    for name in ("theirs", "r0", "r1", "nobody"):
        assert remove_unfinished(ctx, name) is None
    assert there(world) == before - {"dead"}
    with pytest.raises(UsageError):
        remove_unfinished(ctx, "../x")


def test_what_was_fetched_stays_to_go_on_from_and_other_copies_go(world: World, ctx: Context) -> None:
    got = {FETCHED: '["1"]'}
    for name in ("r1", "r2", "r3", "shop-drill"):
        values = {"id": new_id(), "name": f"{name}.copy", "instance": "shop", "engine": "mysql"}
        clone = Clone(created=ctx.clock.now(), kind="copy", state="ready", backup="b", **values)  # type: ignore[arg-type]
        announce(ctx, clone, properties=got if name in ("r1", "shop-drill") else {})
    unfinished(ctx, "r3", state="ready")
    assert set(reconcile(ctx).healed) == {
        "removed the unfinished clone r2.copy",
        "removed the unfinished clone shop-drill.copy",
    }
    assert there(world) == {"r1.copy", "r3", "r3.copy"}
    found = find_clone(ctx, "r3")
    assert found
    describe(ctx, replace(found[0], state="building"))
    assert reconcile(ctx).healed == tuple(f"removed the unfinished clone {n}" for n in ("r3", "r3.copy")), (
        "at once"
    )


@pytest.mark.parametrize("text", ["{", "5", '[["1"]]', "[" * 20000])
def test_a_copy_of_which_nobody_knows_what_was_fetched_stays_and_is_told(
    world: World, ctx: Context, text: str
) -> None:
    values = {"id": new_id(), "name": "r1.copy", "instance": "shop", "engine": "mysql"}
    clone = Clone(created=ctx.clock.now(), kind="copy", state="ready", backup="b", **values)  # type: ignore[arg-type]
    announce(ctx, clone, properties={FETCHED: text})
    unfinished(ctx, "dead")
    healed, reported = said(reconcile(ctx))
    assert healed == ("removed the unfinished clone dead",)
    assert len(reported) == 1 and "r1.copy holds no list of guids" in reported[0]
    assert there(world) == {"r1.copy"}


def test_what_cannot_be_removed_is_told(world: World, ctx: Context) -> None:
    unfinished(ctx, "dead")
    world.pools.create(f"{CLONES}/dead/mine", {"canmount": "noauto"})
    healed, reported = said(reconcile(ctx))
    assert (
        healed == ()
        and "tank/zbackup/dead could not be removed" in reported[0]
        and "/dead/mine" in reported[0]
    )


@pytest.mark.parametrize(
    ("answer", "healed", "reported"),
    [
        ({"said": "removed it", "done": True}, ("removed it",), ()),
        ({"said": "it is in use", "done": False}, (), ("it is in use",)),
        ({"said": "", "done": True}, (), ()),
        (Refused("nobody there"), (), ("the unfinished clone dead could not be removed: nobody there",)),
    ],
)
def test_who_is_not_root_asks_the_helper(
    ctx: Context,
    answer: Any,
    healed: tuple[str, ...],
    reported: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def ask(path: Path, question: Any) -> Any:
        asked.append(question)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("zbackup.jobs.cleanup.cleanup.ask", ask)
    unfinished(ctx, "dead")
    unfinished(ctx, "theirs", instance="wiki")
    unfinished(ctx, "whole", state="ready")
    found = reconcile(replace(ctx, helper=Path("/nowhere")))
    assert said(found) == (healed, reported) and find_clone(ctx, "dead")
    assert asked == [{"verb": "remove-unfinished", "instance": "shop", "clone": "dead"}]


def test_clones_that_run_with_the_host_do_again(world: World, ctx: Context) -> None:
    """But for one that somebody stopped, and what was not to."""
    boot = replace(ctx, cloning=replace(ctx.cloning, start="boot"))
    for name in ("down", "stopped", "up"):
        list(create(boot, CreateOptions(name=name)))
    list(create(ctx, CreateOptions(name="plain")))
    stop([ctx], "stopped")
    for name in ("down", "plain"):
        world.stop_clone(name)
    assert said(reconcile(replace(ctx, instance="wiki", datasets=("tank/other",)))) == ((), ())
    assert said(reconcile(ctx)) == (("started the clone down",), ())
    assert set(world.state.servers) == {"down", "up"}
    found = find_clone(ctx, "down")
    assert found
    describe(ctx, replace(found[0], state="resetting"))
    world.stop_clone("down")
    assert said(reconcile(ctx)) == ((), ()) and "down" not in world.state.servers
    describe(ctx, replace(found[0], kind="restore"))
    assert said(reconcile(ctx)) == ((), ())
    describe(ctx, found[0])
    start([ctx], "stopped")
    for each in every_break(world, lambda: reconcile(ctx), ("fails",)):
        if each.broke[0] == "engine" and each.broke[1] == "serve":
            assert "down" not in world.state.servers
    with ExitStack() as held:
        held.enter_context(pytest.MonkeyPatch.context()).setattr("zbackup.jobs.cleanup.cleanup.start", _fails)
        assert said(reconcile(ctx)) == ((), ("the clone down could not be started: its port is taken",))


def _fails(*_: object) -> None:
    raise Refused("its port is taken")


def test_holds_that_nobody_will_release_are_told(world: World, ctx: Context) -> None:
    """Of this instance, by a destination that is not configured any more."""
    sending = replace(ctx, destinations=(world.destination(),))
    ship(sending, sending.destinations[0])
    snapshot(ctx)
    newest = ctx.catalog().backups[-1].snapshots[0]
    for tag in (hold_tag("this.host", "shop", "gone"), hold_tag("this.host", "wiki", "gone"), "mine"):
        ctx.zfs.hold(tag, newest)
    ctx.zfs.hold(sending.destinations[0].tag, newest)
    [only] = reconcile(sending).reported
    assert only.startswith(
        f"{newest} is held by {hold_tag('this.host', 'shop', 'gone')}, a destination that is not"
    )
    assert "zbackup release shop --stale" in only
    assert len(reconcile(ctx).reported) == 2


def test_what_is_incomplete_or_cannot_be_read_is_told_and_left(world: World, ctx: Context) -> None:
    snapshot(ctx)
    half, whole = ctx.catalog().backups
    ctx.zfs.destroy_snapshot(half.snapshots[1])
    unfinished(ctx, "odd", state="ready")
    world.pools.datasets[f"{CLONES}/odd"].properties["zbackup:clone"] = "nonsense"
    world.pools.snapshot_called("tank/db@by-hand").properties["zbackup:version"] = "99"
    before = [str(s) for s in world.pools.all_snapshots()]
    found = reconcile(ctx)
    assert found.healed == () and found.last == whole.record.taken
    assert f"{half.name} misses a dataset's snapshot and restores nothing" in found.reported
    assert any(text.startswith(f"{CLONES}/odd cannot be read: ") for text in found.reported)
    assert any(text.startswith("tank/db@by-hand cannot be read: ") for text in found.reported)
    assert len(found.reported) == 3
    assert [str(s) for s in world.pools.all_snapshots()] == before


def test_the_newest_is_one_that_a_restore_can_start_from(world: World, ctx: Context) -> None:
    """A log that was taken later is none, whatever the clock said then."""
    world.state.elapsed += timedelta(hours=1)
    snapshot(ctx)
    first = ctx.catalog().backups[-1]
    assert reconcile(replace(ctx, instance="empty")).last is None
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="r1"))
    assert [b.record.purpose for b in ctx.catalog().backups] == ["base", "base", "log"]
    assert reconcile(ctx).last == first.record.taken
    world.state.elapsed -= timedelta(minutes=30)
    snapshot(ctx)
    newest = ctx.catalog().backups[-1]
    assert newest.record.purpose == "base" and newest.record.taken < first.record.taken
    assert reconcile(ctx).last == newest.record.taken


def test_what_was_never_made_is_forgotten_but_not_while_it_may_be(world: World, ctx: Context) -> None:
    """Else whatever somebody calls so later would be taken for what is left of it."""

    def written(instance: str, name: str) -> str:
        values = {"id": new_id(), "name": name, "instance": instance, "engine": "mysql"}
        return Clone(
            created=ctx.clock.now(),
            kind="restore",
            state="building",
            backup="b",
            **values,  # type: ignore[arg-type]
        ).to_property()

    for instance, name in (("shop", "dead"), ("shop", "alive"), ("wiki", "theirs"), ("shop", "-Bad")):
        ctx.zfs.set_properties(CLONES, {INTENT + name.lower(): written(instance, name.lower())})
    ctx.zfs.set_properties(CLONES, {INTENT + "odd": "nonsense"})
    with working_on(ctx, "alive", "zbackup restore"):
        reconcile(ctx)
    left = {key.removeprefix(INTENT) for key in ctx.zfs.own_settings(CLONES) if key.startswith(INTENT)}
    assert left == {"alive", "theirs", "-bad", "odd"}
    require_well(world, ctx)
