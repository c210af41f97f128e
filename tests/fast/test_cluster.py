"""A restore of a whole cluster, broken at every change: all of its members are there in the end, or none."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.adapters import changed
from tests.fast.breaking import Way, every_break
from tests.fast.right import portrait, require_nothing_left, require_well
from tests.fast.server import DATA, FakeEngine, FakeRecovery
from tests.fast.world import World
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.cleanup.cleanup import reconcile
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.clones import provision
from zbackup.jobs.clones.clone_datasets import find_clone
from zbackup.jobs.cluster.drill import ClusterDrill, drill_cluster
from zbackup.jobs.cluster.members import inspect_member
from zbackup.jobs.cluster.one_member import as_member
from zbackup.jobs.cluster.restore import ClusterOptions, plan_cluster, restore_cluster
from zbackup.jobs.context import Context
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import RestoreReport, restore
from zbackup.jobs.restore.source import BackupSource
from zbackup.jobs.ship.ship import ship
from zbackup.model.cluster import CONFIG, SHARD, Addresses, Cluster, ClusterMembership, TooLate, addresses
from zbackup.model.errors import NotFound, NotRecoverable, Refused, Taken, UsageError, VerificationFailed
from zbackup.model.log import ClusterTime, LogSpan
from zbackup.model.progress import Progress
from zbackup.model.record import Record
from zbackup.model.recovery import CheckedTables, Reach, Recovered, RecoveryFiles
from zbackup.model.server import ServerFacts
from zbackup.model.shipping import hold_tag
from zbackup.model.target import Stop, time_of

CLUSTER = Cluster("all", "config", ("shard",))
OPTIONS = ClusterOptions(name="r1")
NAMES = ("r1-config", "r1-shard")
WHERE = addresses("of config/127.0.0.1:7100", ["of shard/localhost:7101"])
THERE = "vault/zbackup"
WAYS: tuple[Way, ...] = ("fails late", "killed before")
"""One member's restore is broken in the other ways, too, in test_restore."""
_LOG_SNAPSHOT = re.compile(r"^tank/db[^ ]*@zbackup-")


class Member(FakeEngine):
    """A member of a cluster, as its engine tells of it."""

    def __init__(self, world: World, name: str, role: str) -> None:
        super().__init__(world)
        self.name, self.role = name, role

    def inspect(self) -> ServerFacts:
        facts = super().inspect()
        options = json.dumps({"sharding": {"clusterRole": self.role}})
        return replace(facts, server={**facts.server, "replica_set": f"of {self.name}", "options": options})


class Recovering(FakeRecovery):
    """Tells what the files tell of their cluster."""

    told = ClusterMembership(cluster="one", shards=("of shard",))

    def recover(self, *args: Any, **more: Any) -> Recovered:
        return replace(super().recover(*args, **more), member=self.told)

    def check_tables(self, files: RecoveryFiles, progress: Progress) -> CheckedTables:
        return CheckedTables(tables=1)


def telling(world: World, ctx: Context, told: ClusterMembership) -> Context:
    """The member, whose files tell that."""
    recovery: Any = Recovering(world)
    recovery.told = told
    return changed(ctx, recovery=recovery)


class Checkpointed(Recovering):
    """Proves a log up to the last checkpoint, before all backups, and then holds it up to a hole."""

    hole: datetime

    def reach(self, record: Record, *args: Any, **more: Any) -> Reach:
        return super().reach(replace(record, lock="none"), *args, **more)

    def log_span(self, *args: Any, **more: Any) -> LogSpan | None:
        first = int(min(self.world.server.times.values()).timestamp())
        return LogSpan(f"{first}:1:1", f"{first}:2:1")

    def recover(
        self, base: RecoveryFiles, log: RecoveryFiles, stop: Stop, *args: Any, **more: Any
    ) -> Recovered:
        if time_of(stop) > self.hole:
            raise TooLate("it is sure up to a hole", ClusterTime(int(self.hole.timestamp()), 1))
        return super().recover(base, log, stop, *args, **more)


class Asked(Member):
    """Says where its oplog ends, as mongod does."""

    def _position(self) -> str:
        return f"{int(self.world.server.times[self.world.content(DATA)['rows'][-1]].timestamp())}:1:1"


@pytest.fixture
def members(world: World) -> tuple[Context, ...]:
    """The config server and a shard, each with two backups. An oplog is read by a mongod on a clone."""
    world.only_reads = False
    found = tuple(
        world.context(instance=name, engine_name="mongodb", engine=Member(world, name, role))
        for name, role in (("config", CONFIG), ("shard", SHARD))
    )
    for _ in range(2):
        for ctx in found:
            snapshot(ctx)
            world.state.elapsed += timedelta(minutes=1)
    return found


@pytest.fixture
def at(world: World, members: tuple[Context, ...]) -> ClusterTime:
    """A second behind the second backup of one, and before that of the other."""
    newest = members[0].catalog().backups[-1].record
    assert newest.as_of
    return ClusterTime(int(newest.as_of.timestamp()) + 2, 0)


def restored(members: tuple[Context, ...], at: ClusterTime) -> object:
    return restore_cluster(CLUSTER, [inspect_member(ctx) for ctx in members], at, OPTIONS)


def drilled(members: tuple[Context, ...]) -> ClusterDrill:
    newest = members[0].catalog().backups[-1].record
    assert newest.as_of
    end = ClusterTime(int(newest.as_of.timestamp()) - 5, 0)
    looked = [inspect_member(ctx, stored=True) for ctx in members]
    return drill_cluster(CLUSTER, [replace(m, facts=replace(m.facts, end=end)) for m in looked])


def _portrait(world: World) -> list[str]:
    return [line for line in portrait(world) if not _LOG_SNAPSHOT.match(line)]


def rows(world: World) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [world.content(f"/srv/clones/{name}/0")["rows"] for name in NAMES]
    return found


def _again(members: tuple[Context, ...], at: ClusterTime) -> None:
    """It is done, or it is there already, and then it is whole."""
    try:
        restored(members, at)
    except Taken:
        states = [found[0].state for name in NAMES if (found := find_clone(members[0], name))]
        assert states == ["ready", "ready"]
        for ctx in members:  # what could not be removed was told of, and others do it
            reconcile(ctx)


def test_all_members_or_none(world: World, members: tuple[Context, ...], at: ClusterTime) -> None:
    kept = world.keep()
    restored(members, at)
    wanted_rows = tuple(n for n, time in world.server.times.items() if time < at.at)
    assert rows(world) == [wanted_rows] * 2
    wanted = _portrait(world)
    world.put_back(kept)
    count = 0
    for each in every_break(world, lambda: restored(members, at), WAYS):
        count += 1
        if not each.dead:
            _require_all_or_none(members, each.broke)
        if each.known:
            continue
        require_well(world, members[0])
        _again(members, at)
        assert rows(world) == [wanted_rows] * 2, each
        assert _portrait(world) == wanted, each
        for name in NAMES:
            clones.destroy(members, name)
        require_nothing_left(world)
    assert count >= 2 * 40


def _require_all_or_none(members: tuple[Context, ...], broke: tuple[str, ...]) -> None:
    states = {found[0].state for name in NAMES if (found := find_clone(members[0], name))}
    assert "building" not in states, f"{broke}: a member is left"


def test_a_plan_changes_nothing_and_names_every_member(
    world: World, members: tuple[Context, ...], at: ClusterTime
) -> None:
    before = portrait(world)
    plan = plan_cluster(CLUSTER, [inspect_member(ctx) for ctx in members], at, OPTIONS)
    assert [(m.name, each.name) for m, each in plan.members] == list(
        zip(("config", "shard"), NAMES, strict=True)
    )
    assert portrait(world) == before


def test_a_time_that_a_member_does_not_hold_is_refused_with_all_windows(
    world: World, members: tuple[Context, ...]
) -> None:
    before = portrait(world)
    first = members[1].catalog().backups[0].record
    assert first.as_of
    with pytest.raises(NotRecoverable, match=r"not in the window of shard\. config: after .*; shard: after "):
        restored(members, ClusterTime(int(first.as_of.timestamp()) - 5, 0))
    assert portrait(world) == before


def test_members_of_two_clusters_are_none(
    world: World, members: tuple[Context, ...], at: ClusterTime
) -> None:
    """Another may have replica sets of the same names."""
    members = (
        telling(world, members[0], ClusterMembership(cluster="one", shards=("of shard",))),
        telling(world, members[1], ClusterMembership(cluster="two")),
    )
    with pytest.raises(VerificationFailed, match=r"shard is of another cluster \(two\) than config \(one\)"):
        restored(members, at)
    require_nothing_left(world)
    with pytest.raises(VerificationFailed, match="of another cluster"):
        drilled(members)
    require_nothing_left(world)


def test_a_drill_fails_where_a_shard_is_not_configured(world: World, members: tuple[Context, ...]) -> None:
    """A restore would be refused for it."""
    shard = telling(world, members[1], ClusterMembership(cluster="one"))
    drilled((telling(world, members[0], ClusterMembership(cluster="one", shards=("of shard",))), shard))
    require_nothing_left(world)
    members = (
        telling(world, members[0], ClusterMembership(cluster="one", shards=("of shard", "rs7"))),
        shard,
    )
    with pytest.raises(
        VerificationFailed, match=r"config: at that time .* replica set is rs7, and no member"
    ):
        drilled(members)
    require_nothing_left(world)


def test_every_port_is_looked_at_before_anything_is_made(
    world: World, members: tuple[Context, ...], at: ClusterTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = [inspect_member(ctx) for ctx in members]
    before = portrait(world)
    with pytest.raises(
        UsageError, match="--port 65535 is the first of 2, and the last port is 65535: name 65534"
    ):
        restore_cluster(CLUSTER, looked, at, replace(OPTIONS, port=65535))
    with pytest.raises(UsageError, match="--port 65535 is the first of 2"):
        plan_cluster(CLUSTER, looked, at, replace(OPTIONS, port=65535))
    busy = {7001: "somebody listens there"}
    monkeypatch.setattr("zbackup.jobs.clones.claim._in_use", lambda port: busy.get(port, ""))
    with pytest.raises(Taken, match="port 7001 cannot be used"):
        restore_cluster(CLUSTER, looked, at, replace(OPTIONS, port=7000))
    assert portrait(world) == before


def test_backups_within_a_minute_are_drilled_behind_the_last_checkpoint(world: World) -> None:
    """Its log is known to reach the older base only, and the servers' word is tried."""
    recovery: Any = Checkpointed(world)
    contexts = [
        world.context(
            instance=name,
            engine_name="mongodb",
            engine=Asked(world, name, role),
            recovery=recovery,
            log_reader=recovery,
        )
        for name, role in (("config", CONFIG), ("shard", SHARD))
    ]
    for _ in range(2):
        for ctx in contexts:
            snapshot(ctx)
            world.state.elapsed += timedelta(seconds=10)
    older, newer = (b.record for b in contexts[0].catalog().backups)
    assert older.as_of and newer.as_of
    looked = [inspect_member(ctx, stored=True) for ctx in contexts]
    assert looked[0].facts.end == ClusterTime(int(newer.as_of.timestamp()), 1)
    recovery.hole = newer.as_of
    assert drill_cluster(CLUSTER, looked).at == looked[0].facts.end
    times = list(world.server.times.values())
    recovery.hole = times[times.index(newer.as_of) - 2]
    assert drill_cluster(CLUSTER, looked).at == ClusterTime(int(recovery.hole.timestamp()), 1)
    require_nothing_left(world)
    recovery.hole = times[times.index(older.as_of) - 2]
    with pytest.raises(NotRecoverable, match="is not in the window of"):
        drill_cluster(CLUSTER, looked)
    require_nothing_left(world)


def test_what_is_no_such_member_is_refused(members: tuple[Context, ...], at: ClusterTime) -> None:
    looked = [inspect_member(ctx) for ctx in members]
    with pytest.raises(Refused, match="has shard as a config server; by its newest backup it is a shard"):
        restore_cluster(Cluster("all", "shard", ("config",)), looked[::-1], at, OPTIONS)
    with pytest.raises(Refused, match="of one replica set, of shard: name one of them"):
        restore_cluster(
            CLUSTER, [*looked, replace(looked[1], ctx=replace(members[1], instance="other"))], at, OPTIONS
        )


@pytest.mark.parametrize("run_at_destination", [False, True], ids=["fetched", "where the copies lie"])
def test_from_a_destination_that_each_member_has(
    world: World, members: tuple[Context, ...], *, run_at_destination: bool
) -> None:
    world.pools.create(THERE, {"mountpoint": "/srv/clones", "canmount": "off", "zbackup:clones": "1"})
    shipped = []
    for ctx in members:
        usual = world.destination()
        assert isinstance(usual.adapter, ZfsDestination)
        adapter = replace(usual.adapter, instance=ctx.instance)
        own = replace(usual, adapter=adapter, tag=hold_tag("this.host", ctx.instance, "vault"))
        shipped.append(replace(ctx, destinations=(own,), elsewhere=(THERE,)))
    for _ in range(2):
        for ctx in shipped:
            snapshot(ctx)
            ship(ctx, ctx.destinations[0])
            world.state.elapsed += timedelta(minutes=1)
    newest = members[0].catalog().backups[-1].record
    assert newest.as_of
    at = ClusterTime(int(newest.as_of.timestamp()) - 5, 0)
    looked = [
        inspect_member(ctx, ctx.destinations[0], run_at_destination=run_at_destination) for ctx in shipped
    ]

    def by_hosts() -> None:
        for member in looked:
            by_its_host(member.ctx, at, member.source)

    for act in (lambda: restore_cluster(CLUSTER, looked, at, OPTIONS), by_hosts):
        act()
        assert rows(world) == [tuple(n for n, time in world.server.times.items() if time < at.at)] * 2
        for name in NAMES:
            clones.destroy([place for ctx in shipped for place in ctx.everywhere()], name)
        require_nothing_left(world)
    late = ClusterTime(int(newest.as_of.timestamp()) + 30, 0)
    with pytest.raises(NotRecoverable, match="not in the window of config"):
        restore_cluster(CLUSTER, looked, late, OPTIONS)


def by_its_host(
    ctx: Context, at: ClusterTime, source: BackupSource = LOCAL, where: Addresses = WHERE
) -> RestoreReport:
    """The member of that host, by the command that all hosts are given."""
    given = RestoreOptions(name=f"r1-{ctx.instance}")
    return restore(ctx, at, as_member(ctx, at, given, source, where), source)


def test_each_host_restores_its_own_member(
    world: World, members: tuple[Context, ...], at: ClusterTime
) -> None:
    """Also when it is broken at any change and run again; its server is started again at its address."""
    told = []
    for ctx in members:
        kept = world.keep()
        told.append(by_its_host(ctx, at).clone)
        wanted = _portrait(world)
        world.put_back(kept)
        for each in every_break(world, lambda ctx=ctx: by_its_host(ctx, at), WAYS):
            if each.known:
                continue
            require_well(world, ctx)
            with suppress(Taken):
                by_its_host(ctx, at)
            reconcile(ctx)
            assert _portrait(world) == wanted, each
            clones.destroy((ctx,), f"r1-{ctx.instance}")
        by_its_host(ctx, at)
    assert rows(world) == [tuple(n for n, time in world.server.times.items() if time < at.at)] * 2
    assert [clone.address for clone in told] == ["of config/127.0.0.1:7100", "of shard/localhost:7101"]
    again = provision.serving(find_clone(members[1], "r1-shard")[0])  # type: ignore[index]
    assert (again.host, again.port, again.role, again.addresses) == ("localhost", 7101, SHARD, None)


def test_addresses_that_do_not_fit_are_refused(
    world: World, members: tuple[Context, ...], at: ClusterTime
) -> None:
    before, shards = portrait(world), ["of shard/localhost:7101"]
    with pytest.raises(UsageError, match=r"of config, which is not among .*: add --configdb of config/HOST"):
        by_its_host(members[0], at, where=addresses("of shard2/127.0.0.1:7100", shards))
    with pytest.raises(Taken, match=r"192.0.2.1 cannot be listened on: .* this host's own address"):
        by_its_host(members[0], at, where=addresses("of config/192.0.2.1:7100", shards))
    with pytest.raises(UsageError, match=r"shard is a shard by .*: its address goes with --shard"):
        by_its_host(members[1], at, where=addresses(shards[0], ["of config/127.0.0.1:7100"]))
    assert portrait(world) == before


def test_a_cluster_that_is_whole_is_nobodys_leftover(members: tuple[Context, ...], at: ClusterTime) -> None:
    restored(members, at)
    with pytest.raises(Taken, match="r1-shard exists"):
        restored(members, at)
    clones.destroy(members, "r1-config")
    with pytest.raises(Taken, match="r1-shard"):
        restored(members, at)
    clones.destroy(members, "r1-shard")
    with pytest.raises(NotFound):
        clones.destroy(members, "r1-shard")
