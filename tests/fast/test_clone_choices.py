"""A dev clone reset, promoted and snapshotted: of what, and what is refused before anything is changed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fast.breaking import every_break
from tests.fast.right import portrait
from tests.fast.server import FakeRecovery
from tests.fast.test_reconcile import unfinished
from tests.fast.test_restore_steps import is_locked
from tests.fast.world import CLONES, World, unbroken
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.clone_datasets import SNAPSHOT, describe, find_clone
from zbackup.jobs.clones.lifecycle import start, stop, working_on
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones import promote as promoting
from zbackup.jobs.dev_clones import reset as room
from zbackup.jobs.dev_clones.create import CreateOptions, create, plan_create
from zbackup.jobs.dev_clones.promote import LABEL, promote
from zbackup.jobs.dev_clones.reset import reset
from zbackup.jobs.dev_clones.snapshot import snapshot as snapshot_clone
from zbackup.model.clone import Clone
from zbackup.model.errors import NotFound, PoolFull, Refused, Taken, UsageError
from zbackup.model.moment import Moment
from zbackup.zfs.facts import ZfsFacts

ROWS = "/srv/clones/dev/0"


@pytest.fixture
def ctx(world: World) -> Context:
    """Production with two backups, and a dev clone of the newer one."""
    made = world.context()
    for _ in range(2):
        snapshot(made)
        world.state.elapsed += timedelta(minutes=1)
    list(create(made, CreateOptions(name="dev")))
    return made


def clone(ctx: Context, name: str = "dev") -> Clone:
    found = find_clone(ctx, name)
    assert found
    return found[0]


def rows(world: World, name: str = "dev") -> Any:
    return world.content(f"/srv/clones/{name}/0")["rows"]


def refused(world: World, job: Callable[[], object], kind: type[Exception], said: str) -> None:
    before, running = portrait(world), set(world.state.servers)
    with pytest.raises(kind, match=said):
        job()
    assert portrait(world) == before and set(world.state.servers) == running


def test_a_clone_says_what_it_is_of(ctx: Context) -> None:
    newest = ctx.catalog().backups[-1]
    as_of = newest.record.as_of
    assert as_of and (clone(ctx).backup, clone(ctx).target) == (newest.name, as_of.isoformat())
    assert clone(ctx).reached == newest.record.position != "" and clone(ctx).parent == ""
    snapshot_clone([ctx], "dev", "base")
    list(create(ctx, CreateOptions(name="child", parent="dev")))
    assert (clone(ctx, "child").backup, clone(ctx, "child").parent) == ("base", "dev")


def test_a_port_of_one_that_is_being_made_is_taken(world: World, ctx: Context) -> None:
    unfinished(ctx, "other", kind="dev", port=4001)
    with pytest.raises(Taken, match="port 4001 belongs to the clone other"):
        plan_create(ctx, CreateOptions(name="x", port=4001))


def test_a_name_that_somebody_works_on_is_passed_over(ctx: Context) -> None:
    with working_on(ctx, "shop-dev1", "zbackup clone create"):
        (made,) = create(ctx, CreateOptions())
    assert made.clone.name == "shop-dev2"


def test_who_works_on_it_or_its_parent_is_not_disturbed(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "PARENT_WAIT_S", 0.0)
    list(create(ctx, CreateOptions(name="child", parent="dev")))
    seen: set[bool] = set()

    def watched(argv: tuple[str, ...], mutates: bool, act: Callable[[], Any]) -> Any:
        if mutates:
            seen.add(is_locked(ctx.shared / "clone-child.lock") and is_locked(ctx.shared / "clone-dev.lock"))
        return act()

    world.passing = watched
    reset([ctx], "child", latest=False)
    assert seen == {True}
    world.passing = unbroken
    with working_on(ctx, "dev", "zbackup clone promote"):
        refused(world, lambda: reset([ctx], "child", latest=False), Taken, "zbackup clone promote")


def test_a_port_that_another_has_taken_is_not_given_to_a_server_that_was_stopped(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that runs listens there itself."""

    def listens(port: int) -> None:
        raise Taken(f"somebody listens on {port}")

    monkeypatch.setattr(room, "require_nobody_listens", listens)
    reset([ctx], "dev", latest=False)
    stop([ctx], "dev")
    refused(world, lambda: reset([ctx], "dev", latest=False), Taken, "somebody listens on")


def test_what_cannot_be_run_is_refused_while_the_server_still_runs(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = Moment(world.now - timedelta(seconds=100), "then", ZoneInfo("UTC"))
    list(create(ctx, CreateOptions(name="past", target=moment)))

    def refuses(*_: object) -> str:
        raise Refused("there is no mysqld here")

    monkeypatch.setattr(FakeRecovery, "check_program", refuses)
    for name in ("dev", "past"):
        refused(world, lambda name=name: reset([ctx], name, latest=False), Refused, "no mysqld")


def test_one_of_a_moment_is_again_of_that_moment_or_of_the_newest_backup(world: World, ctx: Context) -> None:
    moment = Moment(world.now - timedelta(seconds=100), "then", ZoneInfo("UTC"))
    list(create(ctx, CreateOptions(name="past", target=moment)))
    then = rows(world, "past")
    assert clone(ctx, "past").replayed
    reset([ctx], "past", latest=False)
    assert rows(world, "past") == then and clone(ctx, "past").replayed
    snapshot(ctx)
    newest = ctx.catalog().backups[-1]
    reset([ctx], "past", latest=True)
    found = clone(ctx, "past")
    assert rows(world, "past") == world.content_of(newest) and not found.replayed
    assert newest.record.as_of and found.target == newest.record.as_of.isoformat()
    assert (found.backup, found.reached) == (newest.name, newest.record.position)


def test_one_of_a_moment_that_is_half_reset_becomes_one_of_the_newest_backup(
    world: World, ctx: Context
) -> None:
    moment = Moment(world.now - timedelta(seconds=100), "then", ZoneInfo("UTC"))
    list(create(ctx, CreateOptions(name="past", target=moment)))
    newest = world.content_of(ctx.catalog().backups[-1])
    for each in every_break(world, lambda: reset([ctx], "past", latest=False), ("killed before",)):
        if not each.known:
            reset([ctx], "past", latest=True)
            assert rows(world, "past") == newest and not clone(ctx, "past").replayed, each


def test_of_a_promoted_clone_of_a_moment_nothing_is_lost(world: World, ctx: Context) -> None:
    """What was written since is copied, and not what it was when it was made."""
    moment = Moment(world.now - timedelta(seconds=100), "then", ZoneInfo("UTC"))
    list(create(ctx, CreateOptions(name="past", target=moment)))
    part = world.dataset_at("/srv/clones/past/0")
    part.files["rows"] = (*part.files["rows"], 10**6)
    promote([ctx], "past")
    assert rows(world, "past")[-1] == 10**6


def test_whose_files_a_clone_begins_with_is_told_to_its_server(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Production's as a snapshot held them, or what a server of ours has left."""
    seen: list[bool] = []
    monkeypatch.setattr(FakeRecovery, "adopt", lambda _, files, adoption, __: seen.append(adoption.recovered))
    list(create(ctx, CreateOptions(name="two")))
    list(create(ctx, CreateOptions(name="child", parent="dev")))
    assert seen == [False, True]


def test_what_is_not_kept_is_not_reset_to(world: World, ctx: Context) -> None:
    describe(ctx, replace(clone(ctx), replayed=True))
    refused(world, lambda: reset([ctx], "dev", latest=False), Refused, "what it was then is not kept")
    for changes in ({"state": "building"}, {"state": "promoting"}, {"state": "ready", "kind": "restore"}):
        describe(ctx, replace(clone(ctx), **changes))
        refused(world, lambda: reset([ctx], "dev", latest=True), Refused, "it is no finished dev clone")


def test_the_backup_it_was_made_of_is_known_by_more_than_its_name(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ctx.catalog().backups
    describe(ctx, replace(clone(ctx), backup=first.name))
    refused(world, lambda: reset([ctx], "dev", latest=False), NotFound, "is not whole any more: --to latest")
    describe(ctx, replace(clone(ctx), backup=second.name))
    world.pools.snapshot_called(str(second.snapshots[1])).properties.clear()
    refused(world, lambda: reset([ctx], "dev", latest=False), NotFound, "is not whole any more: --to latest")


def test_a_child_is_of_its_parents_snapshot_or_of_the_newest_there(world: World, ctx: Context) -> None:
    snapshot_clone([ctx], "dev", "one")
    list(create(ctx, CreateOptions(name="child", parent="dev")))
    describe(ctx, replace(clone(ctx, "child"), masked=True))
    world.state.elapsed += timedelta(minutes=1)
    snapshot_clone([ctx], "dev", "two")
    for latest, wanted in ((False, "one"), (True, "two")):
        reset([ctx], "child", latest=latest)
        assert clone(ctx, "child").backup == wanted and clone(ctx, "child").masked
    describe(ctx, replace(clone(ctx), masked=True))
    for label in ("one", "two"):
        assert ctx.zfs.snapshot_named(f"{CLONES}/dev/0@{label}")


def test_one_that_was_masked_is_masked_again(ctx: Context) -> None:
    describe(ctx, replace(clone(ctx), masked=True))
    reset([ctx], "dev", latest=False)
    assert not clone(ctx).masked, "nothing is configured that would mask it now"


def test_of_what_snapshots_are_taken_and_how_they_are_called(world: World, ctx: Context) -> None:
    take = snapshot_clone
    assert take([ctx], "dev", "mine") == "mine"
    refused(world, lambda: take([ctx], "dev", "mine"), Taken, "has a snapshot mine already")
    refused(world, lambda: take([ctx], "dev", "a b/c"), UsageError, "name")
    refused(world, lambda: take([ctx], "dev", room.ORIGIN), Refused, "choose another name")
    assert take([ctx], "dev").startswith("zbackup-clone-2024")
    world.pools.snapshot([f"{CLONES}/dev/0@theirs", f"{CLONES}/dev/1@theirs"], {})
    world.pools.snapshot([f"{CLONES}/dev/0@half"], {SNAPSHOT: clone(ctx).id})
    for label in ("theirs", "half"):
        with pytest.raises(NotFound, match=f"has no snapshot {label}"):
            plan_create(ctx, CreateOptions(name="child", parent="dev", snapshot=label))
    describe(ctx, replace(clone(ctx), kind="restore"))
    refused(world, lambda: take([ctx], "dev", "x"), Refused, "is no dev clone")
    describe(ctx, replace(clone(ctx), kind="dev", state="resetting"))
    refused(world, lambda: take([ctx], "dev", "x"), Refused, "dev")


def test_what_cannot_be_promoted_is_refused_first(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(ctx, replace(clone(ctx), state="resetting"))
    refused(world, lambda: promote([ctx], "dev"), Refused, "dev")
    describe(ctx, replace(clone(ctx), state="ready"))
    snapshot_clone([ctx], "dev", "mine")
    refused(
        world, lambda: promote([ctx], "dev"), Refused, "has snapshots that would be lost, such as .*@mine"
    )
    world.pools.destroy_snapshot(f"{CLONES}/dev/0@mine")
    world.pools.destroy_snapshot(f"{CLONES}/dev/1@mine")
    monkeypatch.setattr(promoting, "MOST_OF_ROOM", 0.0)
    refused(world, lambda: promote([ctx], "dev"), PoolFull, "a copy needs")
    monkeypatch.undo()
    promote([ctx], "dev")
    assert clone(ctx).copied and set(world.state.servers) == {"dev"}
    refused(world, lambda: promote([ctx], "dev"), Refused, "is promoted already")


def test_an_encrypted_one_is_not_copied_in_the_clear(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = ZfsFacts.settings

    def encrypted(facts: ZfsFacts, names: list[str]) -> Any:
        found = really(facts, names)
        return (found[0], *(replace(f, values={**f.values, "encryption": "aes"}) for f in found[1:]))

    monkeypatch.setattr(ZfsFacts, "settings", encrypted)
    refused(world, lambda: promote([ctx], "dev"), Refused, "is encrypted and .* is not, nor would a copy be")


def test_one_that_was_stopped_stays_so_when_it_is_promoted(world: World, ctx: Context) -> None:
    stop([ctx], "dev")
    promote([ctx], "dev")
    assert not world.state.servers and clone(ctx).state == "ready"
    start([ctx], "dev")


def test_what_was_written_since_a_killed_promotion_is_copied_too(world: World, ctx: Context) -> None:
    """Its server may have run since the snapshot that it left."""
    world.pools.snapshot([f"{CLONES}/dev/{n}@{LABEL}" for n in range(2)], {SNAPSHOT: clone(ctx).id})
    part = world.dataset_at(ROWS)
    part.files["rows"] = (*part.files["rows"], 10**6)
    promote([ctx], "dev")
    assert rows(world)[-1] == 10**6
    assert not [s for s in world.pools.all_snapshots() if s.name == LABEL]
