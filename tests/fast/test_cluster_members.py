"""Members of a cluster: what is known of one before anything is restored, and what its drill looks at."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.adapters import changed
from tests.fast.right import require_nothing_left
from tests.fast.server import FakeRecovery
from tests.fast.test_cluster import CLUSTER, NAMES, OPTIONS, Asked, Checkpointed, Recovering
from tests.fast.test_cluster import drilled as drill
from tests.fast.test_cluster import members as two_members
from tests.fast.test_restore_steps import is_locked
from tests.fast.world import World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.cluster.members import inspect_member
from zbackup.jobs.cluster.restore import plan_cluster, restore_cluster
from zbackup.jobs.context import Context
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.ship.ship import ship
from zbackup.model.cluster import CONFIG, SHARD, TooLate
from zbackup.model.errors import NotRecoverable, UsageError, VerificationFailed
from zbackup.model.log import ClusterTime, LogSpan
from zbackup.model.recovery import CheckedTables

members = two_members
AHEAD = 4_000_000_000


def asked(world: World, name: str, role: str) -> Context:
    recovery: Any = Checkpointed(world)
    recovery.hole = world.now + timedelta(days=1)
    engine = Asked(world, name, role)
    return world.context(
        instance=name, engine_name="mongodb", engine=engine, recovery=recovery, log_reader=recovery
    )


def ended(monkeypatch: pytest.MonkeyPatch, span: LogSpan | None) -> None:
    monkeypatch.setattr(FakeRecovery, "live_log", lambda *_: span)


def test_a_damaged_collection_is_no_drill_that_passed(
    world: World, members: tuple[Context, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: Any = tuple(_recovering(world, ctx) for ctx in members)
    monkeypatch.setattr(
        Recovering, "check_tables", lambda *_: CheckedTables(tables=1, damaged=("shop.orders",))
    )
    with pytest.raises(VerificationFailed, match=r"a collection is damaged: shop\.orders"):
        drill(contexts)
    require_nothing_left(world)


def _recovering(world: World, ctx: Context) -> Context:
    return changed(ctx, recovery=Recovering(world))


def test_one_without_a_backup_is_told_what_to_do(world: World) -> None:
    looked = [
        inspect_member(world.context(instance=name, engine_name="mongodb")) for name in ("config", "shard")
    ]
    with pytest.raises(
        NotRecoverable, match="config has no backup of a member of a replica set: zbackup snap"
    ):
        restore_cluster(CLUSTER, looked, ClusterTime(7, 1), OPTIONS)


def test_the_end_is_that_of_the_running_servers_log_unless_what_is_stored_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of a whole backup's, where the server does not tell."""
    ctx = asked(world, "config", CONFIG)
    ends = []
    for _ in range(2):
        snapshot(ctx)
        ends.append(inspect_member(ctx, stored=True).facts.end)
    assert ends[0] and ends[1] and ends[0] < ends[1]
    ended(monkeypatch, LogSpan("1:1", f"{AHEAD}:7"))
    assert inspect_member(ctx).facts.end == ClusterTime(AHEAD, 7)
    assert inspect_member(ctx, stored=True).facts.end == ends[1]
    ended(monkeypatch, None)
    assert inspect_member(ctx).facts.end == ends[1]
    lost = ctx.catalog().backups[-1].snapshots[1]
    world.pools.snapshot_called(str(lost)).holds.clear()
    ctx.zfs.destroy_snapshot(lost)
    assert inspect_member(ctx, stored=True).facts.end == ends[0]


def test_its_backups_are_those_that_were_asked_for(world: World) -> None:
    ctx = world.context(instance="shop", destinations=(world.destination(),))
    snapshot(ctx)
    [vault] = ctx.destinations
    ship(ctx, vault)
    assert inspect_member(ctx).source is LOCAL
    there = inspect_member(ctx, vault, run_at_destination=True).source
    assert there == DestinationSource(vault, run_at_destination=True)


def test_a_time_that_was_asked_for_is_not_exchanged_for_an_earlier_one(world: World) -> None:
    """The newest is whatever the members' logs tell all up to. Their clones' names are locked meanwhile."""
    contexts = [asked(world, name, role) for name, role in (("config", CONFIG), ("shard", SHARD))]
    for _ in range(2):
        for ctx in contexts:
            snapshot(ctx)
            world.state.elapsed += timedelta(seconds=10)
    world.writing, world.only_reads = False, False
    looked = [inspect_member(ctx, stored=True) for ctx in contexts]
    end = looked[0].facts.end
    assert end
    times = list(world.server.times.values())
    for ctx in contexts:
        recovery: Any = ctx.recovery
        recovery.hole = times[[int(each.timestamp()) for each in times].index(end.seconds) - 2]
    with pytest.raises(TooLate):
        restore_cluster(CLUSTER, looked, end, OPTIONS)
    require_nothing_left(world)
    seen: set[bool] = set()

    def watched(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[1] == "create":
            seen.add(all(is_locked(contexts[0].shared / f"clone-{name}.lock") for name in NAMES))
        return act()

    world.passing = watched
    report = restore_cluster(CLUSTER, looked, None, OPTIONS)
    assert report.at < end and seen == {True}


def test_a_name_that_zbackup_uses_itself_is_no_clusters(world: World, members: tuple[Context, ...]) -> None:
    looked = [inspect_member(ctx) for ctx in members]
    reserved = replace(members[1].cloning, reserved=frozenset({"r1-shard"}))
    looked[1] = replace(looked[1], ctx=replace(members[1], cloning=reserved))
    at = ClusterTime(int(world.now.timestamp()) - 30, 1)
    for job in (restore_cluster, plan_cluster):
        with pytest.raises(UsageError, match="is a name that zbackup uses"):
            job(CLUSTER, looked, at, OPTIONS)
