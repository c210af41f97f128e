"""Options of a dev clone: those that exclude each other, what it is made of, and what it gets."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fast.right import portrait, require_nothing_left
from tests.fast.server import FakeRecovery
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, World
from zbackup.cli.clone_create import plan_member
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.clone_datasets import describe, find_clone
from zbackup.jobs.clones.lifecycle import CloneStatus
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones import create as room
from zbackup.jobs.dev_clones.create import CreateOptions, create, plan_create, plan_source
from zbackup.jobs.dev_clones.snapshot import snapshot as snapshot_clone
from zbackup.model.clone import Clone
from zbackup.model.cloning import Mask, SourceServer
from zbackup.model.errors import ConfigError, NotFound, Refused, Taken, UsageError
from zbackup.model.moment import Moment
from zbackup.model.recovery import Limits
from zbackup.model.snapshot import Dataset
from zbackup.model.switch import Coming, SteppedAside, Switch

DEV = CreateOptions(name="dev")
REPLICA = CreateOptions(name="dev", as_replica=True)
FOLLOWED = SourceServer(host="db", port=3306, user="repl", password=lambda: "secret")


@pytest.fixture
def ctx(world: World) -> Context:
    """Production with two backups, and two ports for clones."""
    made = world.context()
    made = replace(made, cloning=replace(made.cloning, ports=(4000, 4001), replica=FOLLOWED))
    for _ in range(2):
        snapshot(made)
        world.state.elapsed += timedelta(minutes=1)
    return made


def make(ctx: Context, options: CreateOptions = DEV) -> list[CloneStatus]:
    return list(create(ctx, options))


def ruled(ctx: Context, **rules: Any) -> Context:
    return replace(ctx, cloning=replace(ctx.cloning, **rules))


def then(world: World) -> Moment:
    return Moment(world.now - timedelta(seconds=90), "then", ZoneInfo("UTC"))


def refused(world: World, jobs: list[Callable[[], object]], kind: type[Exception], said: str) -> None:
    before = portrait(world)
    for job in jobs:
        with pytest.raises(kind, match=said):
            job()
    assert portrait(world) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (CreateOptions(name="dev", count=2, port=4000), "--count and --port exclude each other"),
        (CreateOptions(name="dev", own_root=True, keep_accounts=True), "--own-root and --keep-accounts"),
        (replace(REPLICA, parent="gold"), "a replica is of a snapshot of production"),
    ],
)
def test_what_is_not_to_be_had_together_is_refused(
    world: World, ctx: Context, options: CreateOptions, said: str
) -> None:
    refused(world, [lambda: plan_create(ctx, options), lambda: make(ctx, options)], UsageError, said)


def test_a_replica_is_neither_of_a_moment_nor_masked_and_has_an_account(world: World, ctx: Context) -> None:
    for where, options in (
        (ctx, replace(REPLICA, target=then(world))),
        (ruled(ctx, mask=(Mask(sql="/etc/mask.sql"),)), REPLICA),
    ):
        jobs = [lambda w=where, o=options: plan_create(w, o), lambda w=where, o=options: make(w, o)]
        refused(world, jobs, UsageError, "a replica is of a snapshot of production")
    alone = ruled(ctx, replica=None)
    jobs = [lambda: plan_create(alone, REPLICA), lambda: make(alone, REPLICA)]
    refused(world, jobs, ConfigError, "instance.shop.clones.replica: missing")
    (made,) = make(ctx, REPLICA)
    assert made.clone.follows
    (other,) = make(ctx, CreateOptions(name="other"))
    assert not other.clone.follows


@pytest.mark.parametrize("options", [replace(DEV, own_root=True), replace(DEV, keep_accounts=True), DEV])
def test_its_accounts_are_as_it_was_asked(ctx: Context, options: CreateOptions) -> None:
    (made,) = make(ctx, options)
    assert made.clone.own_root == options.own_root
    assert made.clone.login == ("" if options.keep_accounts else "zbackup_clone")


def test_what_has_no_log_to_follow_is_still_a_clone(world: World, ctx: Context) -> None:
    world.server.blockers = ("InnoDB's redo log is disabled",)
    snapshot(ctx)
    (made,) = make(ctx, REPLICA)
    assert made.clone.follows, "its log is whole"
    world.server.blockers = ("the binlog is off: set log_bin",)
    snapshot(ctx)
    newest = ctx.catalog().backups[-1].name
    for part in ctx.catalog().backups[-1].snapshots:
        world.pools.snapshot_called(str(part)).properties.pop("zbackup:log_to", None)
    refused(
        world, [lambda: make(ctx, replace(REPLICA, name="two"))], Refused, f"from {newest}, which holds no"
    )
    (plain,) = make(ctx, CreateOptions(name="plain"))
    assert plain.clone.backup == newest


def test_there_is_a_port_for_each_before_the_first_is_made(world: World, ctx: Context) -> None:
    """What a killed run left under a wanted name will be gone, and its port is free."""
    three = CreateOptions(name="dev", count=3)
    refused(world, [lambda: plan_create(ctx, three), lambda: make(ctx, three)], Taken, "port")
    two = CreateOptions(name="dev", count=2)
    unfinished(ctx, "dev-1", kind="dev", port=4000)
    assert plan_create(ctx, two).names == ("dev-1", "dev-2")
    assert [s.clone.port for s in make(ctx, two)] == [4000, 4001]
    one = CreateOptions(name="x", port=4001)
    refused(world, [lambda: plan_create(ctx, one), lambda: make(ctx, one)], Taken, "port 4001 belongs to")
    of_a_moment = CreateOptions(name="x", target=then(world))
    before = portrait(world)
    refused(world, [lambda: plan_create(ctx, of_a_moment), lambda: make(ctx, of_a_moment)], Taken, "port")
    assert portrait(world) == before


def test_a_name_that_is_taken_is_refused_and_a_leftover_is_not(world: World, ctx: Context) -> None:
    make(ctx)
    refused(world, [lambda: plan_create(ctx, DEV), lambda: make(ctx)], Taken, f"{CLONES}/dev exists")
    unfinished(ctx, "left", kind="dev")
    assert plan_create(ctx, CreateOptions(name="left")).names == ("left",)
    (made,) = make(ctx, CreateOptions(name="left"))
    assert made.clone.state == "ready"
    assert "removing what a killed run left of left" in world.notes


def test_a_switch_that_began_while_a_leftover_was_removed_is_seen(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is destroyed may be large: of whom the datasets are is looked at again."""
    (other,) = make(ctx)
    unfinished(ctx, "left", kind="dev")
    leaving = (SteppedAside(name="tank/db", guid=1, mountpoint="/a"),)
    coming = (Coming(number=0, name="tank/db", guid=3, mountpoint="/a", origin=4, owner=1),)
    intent = Switch(at=world.now, suffix="-before-1", roots=("tank/db",), leaving=leaving, coming=coming)
    destroy = clone_datasets.destroy

    def slow(ctx: Context, clone: Clone, dataset: Dataset) -> None:
        destroy(ctx, clone, dataset)
        describe(ctx, replace(other.clone, state="switching", switch=intent))

    monkeypatch.setattr(clone_datasets, "destroy", slow)
    with pytest.raises(Refused, match="a switch of shop to dev is under way"):
        make(ctx, CreateOptions(name="left"))
    assert find_clone(ctx, "left") is None


def test_what_cannot_be_read_or_is_no_clone_keeps_its_name(world: World, ctx: Context) -> None:
    unfinished(ctx, "odd", kind="dev")
    world.pools.datasets[f"{CLONES}/odd"].properties["zbackup:clone"] = "nonsense"
    odd = CreateOptions(name="odd")
    refused(world, [lambda: plan_create(ctx, odd), lambda: make(ctx, odd)], Refused, "odd cannot be read")
    world.pools.create(f"{CLONES}/disk", {}).volume = True
    for name in ("foreign", "disk"):
        wanted = CreateOptions(name=name)
        said = f"{name} exists and is no clone of zbackup's"
        refused(world, [lambda it=wanted: plan_create(ctx, it), lambda it=wanted: make(ctx, it)], Taken, said)  # type: ignore[misc]


def test_names_that_nobody_said_are_the_next_ones(ctx: Context) -> None:
    make(ctx, CreateOptions(name="shop-dev1"))
    assert plan_create(ruled(ctx, ports=(4000, 4009)), CreateOptions(count=2)).names == (
        "shop-dev2",
        "shop-dev3",
    )
    (made,) = make(ctx, CreateOptions())
    assert made.clone.name == "shop-dev2"


def test_a_volume_s_name_is_passed_over(world: World, ctx: Context) -> None:
    world.pools.create(f"{CLONES}/shop-dev1", {}).volume = True
    assert plan_create(ctx, CreateOptions(count=2)).names == ("shop-dev2", "shop-dev3")
    assert [made.clone.name for made in make(ctx, CreateOptions(count=2))] == ["shop-dev2", "shop-dev3"]


def test_a_plan_says_what_it_would_be_made_of(world: World, ctx: Context) -> None:
    first, second = ctx.catalog().backups
    assert plan_create(ctx, DEV).backup == second and plan_create(ctx, DEV).restore is None
    assert plan_create(ctx, replace(DEV, snapshot=first.name)).backup == first
    plan = plan_create(ctx, replace(DEV, target=then(world)))
    assert plan.restore and plan.restore.base == plan.backup
    with pytest.raises(NotFound, match="there is no whole backup gone"):
        plan_source(ctx, replace(DEV, snapshot="gone"))
    with pytest.raises(NotFound, match="there is no backup to clone; take one"):
        plan_source(replace(ctx, instance="new"), DEV)


def test_of_a_parent_its_snapshot_counts(world: World, ctx: Context) -> None:
    make(ctx, CreateOptions(name="gold"))
    child = CreateOptions(name="child", parent="gold")
    kept = portrait(world)
    plan = plan_create(ctx, child)
    assert (
        plan.backup.snapshots == () and plan.backup.record.backup == ctx.catalog().backups[-1].record.backup
    )
    with pytest.raises(NotFound, match="the clone gold has no snapshot masked; there is none"):
        plan_create(ctx, replace(child, snapshot="masked"))
    assert portrait(world) == kept
    for label in ("masked", "later"):
        snapshot_clone([ctx], "gold", label)
        world.state.elapsed += timedelta(minutes=1)
    assert plan_create(ctx, child).backup.name == "later"
    assert plan_create(ctx, replace(child, snapshot="masked")).backup.name == "masked"
    with pytest.raises(NotFound, match="no snapshot none; there is masked, later"):
        plan_create(ctx, replace(child, snapshot="none"))


def test_what_it_may_take_is_said_where_nothing_limits_it(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "memory_max and cpu_quota limit nothing"
    limits = (Limits(memory=1 << 30), Limits(cpu=50), Limits())
    for applies in (True, False):
        monkeypatch.setattr(room.detached, "limits_apply", lambda applies=applies: applies)
        for each in limits:
            world.notes.clear()
            make(ruled(ctx, limits=each))
            found = find_clone(ctx, "dev")
            assert found and (found[0].memory_max, found[0].cpu_quota) == (each.memory, each.cpu)
            told = any(said in note for note in world.notes)
            assert told == (not applies and each != Limits())
            describe(ctx, replace(found[0], state="destroying"))
            room.clone_datasets.destroy(ctx, *found)
    require_nothing_left(world)


def test_what_cannot_be_run_here_is_refused_first(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> str:
        raise Refused("there is no mysqld 9.7.4 here")

    monkeypatch.setattr(FakeRecovery, "check_program", refuses)
    refused(world, [lambda: plan_create(ctx, DEV), lambda: make(ctx)], Refused, "no mysqld 9.7.4")


def test_a_lease_is_from_now_and_none_is_none(world: World, ctx: Context) -> None:
    (made,) = make(ctx, replace(DEV, lease=0.0))
    assert made.clone.until
    (kept,) = make(ctx, CreateOptions(name="kept"))
    assert kept.clone.until == ""


def test_a_member_is_made_of_a_backup_one_at_a_time(world: World, ctx: Context) -> None:
    for options in (
        CreateOptions(target=then(world)),
        CreateOptions(parent="gold"),
        CreateOptions(count=2),
    ):
        with pytest.raises(UsageError, match="a member is made of a backup, one at a time"):
            plan_member(ctx, options)
    with pytest.raises(UsageError, match="name"):
        plan_member(ctx, CreateOptions(name="../x"))
