"""Restore all members of a sharded cluster to one cluster time, as a cluster of their own.

Each member is restored as any instance is, to the same cluster time, and started as what it was, with the
metadata changed to where the restored members are: the config server first, as the shards ask it. They are
marked as ready when all are there, the config server last: while it is not, none is a cluster's, and the next
run removes what is left.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import (
    LOOPBACK,
    announce,
    everywhere,
    free_ports,
    require_free_port,
    reserved_ports,
)
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.clones.temporary import removed_on_failure
from zbackup.jobs.cluster.members import (
    ClusterMember,
    facts_of,
    named,
    require_cluster,
    require_one_cluster,
)
from zbackup.jobs.context import Context
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.options import Finish, RestoreOptions
from zbackup.jobs.restore.preconditions import require_free
from zbackup.jobs.restore.restore import RestoreReport, plan_restore, restore
from zbackup.model.clone import Clone
from zbackup.model.cluster import Addresses, Cluster, TooLate
from zbackup.model.errors import UsageError
from zbackup.model.event_log import log
from zbackup.model.log import ClusterTime
from zbackup.model.recovery import RecoveryFiles, Serving
from zbackup.plan.clones.clone_name import default_name, require_wanted
from zbackup.plan.cluster import newest, require_covered

T = TypeVar("T")

KEY_BYTES = 96
LAST_PORT = 65535
MOST_TRIES = 10
"""Times that the newest cluster time is taken to be earlier, each as a member's log asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """`name` is what the clones' names begin with, "" for one made of the cluster's and the time; `port` the
    config server's, with the shards' behind it, 0 for those that are free. `keep` keeps a failed recovery's
    clones."""

    name: str = ""
    port: int = 0
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """The plan of each member's restore, the config server's first."""

    at: ClusterTime
    members: tuple[tuple[ClusterMember, RestorePlan], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """The report of each member's restore, the config server's first, which is at `configdb`."""

    at: ClusterTime
    members: tuple[tuple[ClusterMember, RestoreReport], ...]
    configdb: str


Made = tuple[ClusterMember, Context, RestoreReport]


def plan_cluster(
    cluster: Cluster, members: Sequence[ClusterMember], at: ClusterTime | None, options: ClusterOptions
) -> ClusterPlan:
    """Look and decide, and change nothing. `at` None: the newest cluster time that all members' logs reach.

    Raise as restore_cluster() does before anything is made.
    """
    _require_in_range(members, options)
    at = chosen(cluster, members, at)
    names = _names(cluster, members, at, options)
    plans = ((m, plan_restore(m.ctx, at, RestoreOptions(name=names[m.name]), m.source)) for m in members)
    return ClusterPlan(at=at, members=tuple(plans))


def restore_cluster(
    cluster: Cluster, members: Sequence[ClusterMember], at: ClusterTime | None, options: ClusterOptions
) -> ClusterReport:
    """Recover every member as of the cluster time into a clone with a server of its own.

    Everything with an earlier cluster time is there on all members, and nothing else. Raise NotRecoverable
    when a member does not hold it; otherwise as restore() does. Unless all are there, none is left.
    """
    _require_in_range(members, options)
    first = chosen(cluster, members, at)
    make = partial(_restore, cluster, members, options)
    if at is not None:
        return make(at)
    return earlier_when_too_late(members, first, make)[1]


def earlier_when_too_late(
    members: Sequence[ClusterMember], at: ClusterTime, make: Callable[[ClusterTime], T]
) -> tuple[ClusterTime, T]:
    """Make it at the cluster time, or at an earlier one where a member's log does not tell all up to that.

    Which it was, and what was made. Raise what `make` raises, and NotRecoverable.
    """
    for _ in range(MOST_TRIES):
        try:
            return at, make(at)
        except TooLate as late:
            if late.latest >= at:
                raise
            members[0].ctx.progress.note(f"{late}: trying {late.latest}")
            at = late.latest
            require_covered(at, facts_of(members), members[0].ctx.zone)
    return at, make(at)


def chosen(cluster: Cluster, members: Sequence[ClusterMember], at: ClusterTime | None) -> ClusterTime:
    """The cluster time that is meant, None for the newest. Raise NotRecoverable unless all hold it."""
    require_cluster(cluster, members)
    facts, zone = facts_of(members), members[0].ctx.zone
    if at is None:
        return newest(facts, zone)
    require_covered(at, facts, zone)
    return at


def _names(
    cluster: Cluster, members: Sequence[ClusterMember], at: ClusterTime, options: ClusterOptions
) -> dict[str, str]:
    prefix = options.name or default_name(cluster.name, at.at)
    names = {m.name: f"{prefix}-{m.name}".lower() for m in members}
    for member in members:
        require_wanted(names[member.name], member.ctx.cloning.reserved)
    return names


def _restore(
    cluster: Cluster, members: Sequence[ClusterMember], options: ClusterOptions, at: ClusterTime
) -> ClusterReport:
    names = _names(cluster, members, at, options)
    contexts = {m.name: m.source.context(m.ctx) for m in members}
    with ExitStack() as locks, ExitStack() as made:
        for name in sorted(names.values()):
            locks.enter_context(working_on(members[0].ctx, name, "zbackup restore --cluster"))
        _make_free([(contexts[m.name], names[m.name]) for m in members])
        ports = dict(zip(names, _ports(members, options), strict=True))
        locks.enter_context(reserved_ports(*ports.values()))
        addresses = Addresses(
            config=members[0].replica_set,
            hosts={m.replica_set: f"{LOOPBACK}:{ports[m.name]}" for m in members},
            key=secrets.token_hex(KEY_BYTES),
        )
        marker = f"{cluster.name}.{clone_datasets.new_id()}"
        done: list[Made] = []
        for member in members:
            serving = Serving(
                port=ports[member.name],
                replica_set=member.replica_set,
                role=member.role,
                addresses=addresses,
            )
            ctx = contexts[member.name]
            finish = Finish(begin=partial(_begin, ctx, marker, serving), hand_over=_as_it_is, serving=serving)
            given = RestoreOptions(name=names[member.name], finish=finish, keep=options.keep)
            member.ctx.progress.note(f"restoring {member.name}")
            with named(member):
                report = restore(member.ctx, at, given, member.source, locked=True)
            made.enter_context(removed_on_failure(ctx, report.clone, keep=options.keep))
            done.append((member, ctx, report))
            require_one_cluster([(each, made_of.recovered) for each, _, made_of in done])
        reports = tuple((member, replace(r, clone=_ready(ctx, r.clone))) for member, ctx, r in reversed(done))
    log.info("cluster.restored", cluster=cluster.name, target=str(at))
    return ClusterReport(at=at, members=reports[::-1], configdb=addresses.connection(members[0].replica_set))


def _begin(ctx: Context, marker: str, serving: Serving, clone: Clone) -> Clone:
    return announce(
        ctx,
        replace(
            clone,
            port=serving.port,
            replica_set=serving.replica_set,
            role=serving.role,
            cluster=marker,
        ),
    )


def _as_it_is(_: RecoveryFiles, clone: Clone) -> Clone:
    """Its server runs, and it is ready when all members are."""
    return clone


def _ready(ctx: Context, clone: Clone) -> Clone:
    return clone_datasets.mark_ready(ctx, clone)


def _make_free(names: Sequence[tuple[Context, str]]) -> None:
    """Remove what a run left that was killed, with the ports it had. Raise Taken where a name is not free.

    Members may be ready already; as long as their config server is not, they are of no cluster.
    """
    ctx, first = names[0]
    config = clone_datasets.find_clone(ctx, first)
    if config and config[0].state == "building" and config[0].cluster:
        for where, name in names[1:]:
            found = clone_datasets.find_clone(where, name)
            if found and found[0].state == "ready" and found[0].cluster == config[0].cluster:
                where.progress.note(f"removing {name}, a member of a cluster that was never whole")
                clone_datasets.destroy(where, *found)
    for where, name in reversed(names):
        require_free(where, name, RestoreOptions(name=name))


def _ports(members: Sequence[ClusterMember], options: ClusterOptions) -> Sequence[int]:
    """One for each. Raise Taken, before the first is restored for hours, where one is not free."""
    ctx = members[0].ctx
    if not options.port:
        return free_ports(ctx, len(members))
    others = everywhere(ctx)
    ports = range(options.port, options.port + len(members))
    for port in ports:
        require_free_port(port, others)
    return ports


def _require_in_range(members: Sequence[ClusterMember], options: ClusterOptions) -> None:
    if options.port + len(members) - 1 > LAST_PORT:
        raise UsageError(
            f"--port {options.port} is the first of {len(members)}, and the last port is {LAST_PORT}: name "
            f"{LAST_PORT + 1 - len(members)} at most"
        )
