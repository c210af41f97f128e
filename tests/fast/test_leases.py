"""Leases of dev clones: announced, prolonged, held up, ended, and by whom."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fast.breaking import every_break
from tests.fast.right import require_nothing_left, require_well
from tests.fast.world import World
from zbackup.config.load import parse
from zbackup.daemon.tasks import jobs
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.clone_datasets import describe, find_clone
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones import lease
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.jobs.dev_clones.lease import end_lease, extend, protect, reap
from zbackup.jobs.dev_clones.snapshot import snapshot as snapshot_clone
from zbackup.jobs.journal import Journal
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.clone import Clone
from zbackup.model.errors import CommandFailed, Refused, UsageError, ZbackupError

HOUR = timedelta(hours=1)
NOBODY = ((), (), ())


@pytest.fixture
def ctx(world: World) -> Context:
    """A dev clone with a lease of ten hours."""
    made = world.context()
    snapshot(made)
    list(create(made, CreateOptions(name="dev", lease=36_000)))
    return made


def said(ctx: Context) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    found = reap(ctx)
    return found.destroyed, found.warned, found.left


def clone(ctx: Context, name: str = "dev") -> Clone:
    found = find_clone(ctx, name)
    assert found, f"{name} is gone"
    return found[0]


def test_a_lease_is_announced_once_and_its_end_is_the_clones(world: World, ctx: Context) -> None:
    list(create(ctx, CreateOptions(name="for-ever")))
    assert said(ctx) == NOBODY and not clone(ctx).warned
    world.state.elapsed += 9.6 * HOUR
    assert said(ctx) == ((), ("dev",), ()) and clone(ctx).warned
    assert said(ctx) == NOBODY
    world.state.elapsed += HOUR
    assert said(ctx) == (("dev",), (), ())
    assert find_clone(ctx, "dev") is None
    world.state.elapsed += 9999 * HOUR
    assert said(ctx) == NOBODY
    require_nothing_left(world, ["for-ever"])


def test_a_lease_that_is_changed_is_announced_anew(world: World, ctx: Context) -> None:
    world.state.elapsed += 9.6 * HOUR
    for change, rest in (
        (lambda: extend([ctx], "dev", 36_000), 9.6 * HOUR),
        (lambda: protect([ctx], "dev", world.now + 20 * HOUR), 20 * HOUR),
    ):
        reap(ctx)
        assert clone(ctx).warned
        change()
        assert not clone(ctx).warned and said(ctx) == NOBODY
        world.state.elapsed += rest
    assert said(ctx) == (("dev",), (), ())


def test_what_is_protected_or_has_no_end_is_not_destroyed(world: World, ctx: Context) -> None:
    protect([ctx], "dev", world.now + 99 * HOUR)
    world.state.elapsed += 98 * HOUR
    assert said(ctx) == NOBODY
    protect([ctx], "dev", None)
    extend([ctx], "dev", None)
    assert (clone(ctx).protected, clone(ctx).until) == ("", "")
    world.state.elapsed += 9999 * HOUR
    assert said(ctx) == NOBODY and end_lease(ctx, "dev") is None
    assert clone(ctx).state == "ready"


def test_of_another_instance_or_a_restore_nothing_is_ended(world: World, ctx: Context) -> None:
    """Whatever is written on it."""
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="r1"))
    over = (world.now - HOUR).isoformat()
    found = find_clone(ctx, "r1")
    assert found
    describe(ctx, replace(found[0], until=over))
    describe(ctx, replace(clone(ctx), until=over))
    other = replace(ctx, instance="other")
    assert said(other) == NOBODY and end_lease(other, "dev") is None
    assert end_lease(ctx, "r1") is None and end_lease(ctx, "none") is None
    for change in (extend, protect):
        with pytest.raises(Refused, match="r1 is no dev clone"):
            change([ctx], "r1", None)
    assert said(ctx) == (("dev",), (), ())
    assert clone(ctx, "r1").until == over


def test_the_helper_ends_what_is_over_and_nothing_else(world: World, ctx: Context) -> None:
    with pytest.raises(UsageError):
        end_lease(ctx, "../etc")
    assert end_lease(ctx, "dev") is None and clone(ctx)
    world.state.elapsed += 11 * HOUR
    with working_on(ctx, "dev", "zbackup clone reset"):
        told = end_lease(ctx, "dev")
    assert told and told[1] is False and "zbackup clone reset" in told[0]
    assert end_lease(ctx, "dev") == ("destroyed the clone dev", True)
    assert end_lease(ctx, "dev") is None


def test_a_destruction_that_was_begun_is_finished_and_not_held_up(world: World, ctx: Context) -> None:
    describe(ctx, replace(clone(ctx), state="resetting"))
    extend([ctx], "dev", 3600)
    describe(ctx, replace(clone(ctx), state="destroying"))
    for change in (lambda: extend([ctx], "dev", 3600), lambda: protect([ctx], "dev", world.now + HOUR)):
        with pytest.raises(Refused, match="destroy"):
            change()
    assert said(ctx) == (("dev",), (), ())
    require_nothing_left(world)


def test_what_is_worked_on_or_busy_is_left_and_tried_again(world: World, ctx: Context) -> None:
    world.state.elapsed += 9.6 * HOUR
    with working_on(ctx, "dev", "zbackup clone reset"):
        assert said(ctx) == NOBODY and not clone(ctx).warned
        world.state.elapsed += HOUR
        destroyed, warned, (left,) = said(ctx)
        assert (destroyed, warned) == ((), ()) and left.startswith("dev: ") and "zbackup clone reset" in left
    kept = world.keep()
    for each in every_break(world, lambda: said(ctx)):
        if not each.known:
            require_well(world, ctx)
            reap(ctx)
            require_nothing_left(world)
    world.put_back(kept)
    assert said(ctx) == (("dev",), (), ())


def test_one_that_cannot_be_destroyed_is_a_failure_after_the_others(world: World, ctx: Context) -> None:
    """Nobody reads what was left; one that somebody works on will go."""
    list(create(ctx, CreateOptions(name="next", lease=36_000)))
    world.state.elapsed += 11 * HOUR
    do = jobs(lambda: parse(""), Journal(Path("nowhere")), lambda: False)
    stuck = find_clone(ctx, "dev")
    assert stuck

    def busy(argv: tuple[str, ...], _: bool, act: Callable[[], object]) -> object:
        if argv[1] == "destroy" and argv[-1].startswith(stuck[1].name):
            raise CommandFailed(argv, 1, "dataset is busy")
        return act()

    with working_on(ctx, "dev", "zbackup clone reset"):
        assert do("leases", ctx).destroyed == ("next",)
    list(create(ctx, CreateOptions(name="next", lease=0)))
    passing, world.passing = world.passing, busy
    with pytest.raises(ZbackupError, match=r"over could not be destroyed: dev: .*dataset is busy$"):
        do("leases", ctx)
    assert find_clone(ctx, "next") is None, "it is another's failure"
    world.passing = passing
    assert do("leases", ctx).destroyed == ("dev",)


def test_a_parent_waits_for_its_children_and_nothing_has_failed(world: World, ctx: Context) -> None:
    """The job would be critical for as long as a child's lease is longer."""
    do = jobs(lambda: parse(""), Journal(Path("nowhere")), lambda: False)
    snapshot_clone([ctx], "dev", "one")
    list(create(ctx, CreateOptions(name="kid", parent="dev", lease=72_000)))
    world.state.elapsed += 11 * HOUR
    report = do("leases", ctx)
    assert (report.destroyed, report.failed) == ((), ())
    assert report.left == ("dev: the clone dev has children: destroy kid first",)
    kept = world.keep()
    world.state.elapsed += 10 * HOUR
    assert do("leases", ctx).destroyed == ("kid", "dev"), "in one turn"
    require_nothing_left(world)
    world.put_back(kept)
    world.state.elapsed += 10 * HOUR
    passing, kid = world.passing, find_clone(ctx, "kid")
    assert kid

    def busy(argv: tuple[str, ...], _: bool, act: Callable[[], object]) -> object:
        if argv[1] == "destroy" and argv[-1].startswith(kid[1].name):
            raise CommandFailed(argv, 1, "dataset is busy")
        return act()

    world.passing = busy
    with pytest.raises(ZbackupError, match=r"could not be destroyed: kid: .*dataset is busy$"):
        do("leases", ctx)
    assert find_clone(ctx, "dev")
    world.passing = passing


def test_what_was_extended_or_has_gone_meanwhile_is_not_ended(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at again under its lock: also before it is announced."""
    seen = lease.clones(ctx.zfs, ctx.clones)
    monkeypatch.setattr(lease, "clones", lambda *_: seen)
    extend([ctx], "dev", 72_000)
    world.state.elapsed += 9.6 * HOUR
    reaped = said(ctx)
    assert reaped == NOBODY and not clone(ctx).warned
    world.state.elapsed += HOUR
    reap(ctx)
    assert clone(ctx).state == "ready"
    world.state.elapsed += 11 * HOUR
    assert end_lease(ctx, "dev")
    assert reap(ctx).left == ()
    world.state.elapsed -= 12 * HOUR
    assert said(ctx) == NOBODY


def test_who_asked_for_it_is_told_of_a_lease_that_ends(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that fails is not asked again, and holds nothing up; without one nothing is run."""
    told: list[tuple[tuple[str, ...], dict[str, str]]] = []

    def hook(argv: tuple[str, ...], facts: dict[str, str], limit: float) -> None:
        told.append((argv, facts))
        raise CommandFailed(argv, 1, "no mail today")

    monkeypatch.setattr(lease, "run_hook", hook)
    world.state.elapsed += 9.6 * HOUR
    kept = world.keep()
    assert said(ctx) == ((), ("dev",), ()) and told == []
    world.put_back(kept)
    mails = replace(ctx, cloning=replace(ctx.cloning, on_warning=("/usr/bin/mail", "dba")))
    for wanted in (((), ("dev",), ()), NOBODY):
        assert said(mails) == wanted
    ends = clone(ctx).until
    facts = {"ZBACKUP_INSTANCE": "shop", "ZBACKUP_CLONE": "dev", "ZBACKUP_LEASE_ENDS": ends}
    assert told == [(("/usr/bin/mail", "dba"), facts)] and ends


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ({"done": True, "said": "destroyed"}, (("dev",), (), ())),
        ({"done": False, "said": "it is busy"}, ((), (), ("dev: it is busy",))),
        ({"done": "yes", "said": "odd"}, ((), (), ("dev: odd",))),
        (Refused("it does not answer"), ((), (), ("dev: it does not answer",))),
    ],
)
def test_who_is_not_root_asks_the_helper(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch, answer: Any, wanted: object
) -> None:
    asked: list[object] = []

    def ask(socket: Path, question: object) -> object:
        asked.append((socket, question))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(lease, "ask", ask)
    world.state.elapsed += 11 * HOUR
    assert said(replace(ctx, helper=Path("/run/helper"))) == wanted
    assert asked == [(Path("/run/helper"), {"verb": "end-lease", "instance": "shop", "clone": "dev"})]
    assert clone(ctx).state == "ready", "that is the helper's to do"
