"""Look at the members of a cluster: what each can be restored to, and what it was when it was backed up."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context, ShipDestination, live_files
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.source import BackupSource
from zbackup.jobs.watch.window import inspect, inspect_destination
from zbackup.model.backup import Backup
from zbackup.model.cluster import CONFIG, SHARD, Cluster, require_same_sets, role_of
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed, ZbackupError
from zbackup.model.log import ClusterTime, position_of
from zbackup.model.record import Record
from zbackup.model.recovery import Recovered
from zbackup.plan.cluster import MemberFacts
from zbackup.plan.recovery.window import usable_bases

_WORDS = {CONFIG: "a config server", SHARD: "a shard", "": "neither a config server nor a shard"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMember:
    """One member, and the destination where its backups are looked for; None for this host's.

    `replica_set` and `role` are as its newest backup has them, "" without one.
    """

    ctx: Context
    facts: MemberFacts
    replica_set: str
    role: str
    destination: ShipDestination | None = None
    run_at_destination: bool = False

    @property
    def name(self) -> str:
        """The name of its instance."""
        return self.ctx.instance

    @property
    def source(self) -> BackupSource:
        """The source of its backups."""
        return (
            DestinationSource(self.destination, run_at_destination=self.run_at_destination)
            if self.destination
            else LOCAL
        )


def inspect_member(
    ctx: Context,
    destination: ShipDestination | None = None,
    *,
    run_at_destination: bool = False,
    stored: bool = False,
) -> ClusterMember:
    """Look at one; what is `stored` is what snapshots hold, without the running server's own log.

    Raise what its catalogue or destination raises.
    """
    ctx.progress.phase("inspecting", ctx.instance)
    if destination:
        copies, window = inspect_destination(ctx, destination)
        backups, end = copies.backups, None
    else:
        catalog = ctx.catalog()
        backups, (window, _) = catalog.backups, inspect(ctx, catalog)
        end = None if stored else _live_end(ctx, catalog)
    newest = max(usable_bases(backups), key=lambda b: b.createtxg, default=None)
    server = newest.record.server if newest else {}
    return ClusterMember(
        ctx=ctx,
        facts=MemberFacts(window=window, end=_later(end, _recorded_end(backups))),
        replica_set=server.get("replica_set", ""),
        role=role_of(server),
        destination=destination,
        run_at_destination=run_at_destination,
    )


def require_cluster(cluster: Cluster, members: Sequence[ClusterMember]) -> None:
    """Raise NotRecoverable or Refused unless each newest backup is of what its member is configured to be."""
    sets: dict[str, str] = {}
    for member in members:
        wanted = CONFIG if member.name == cluster.config else SHARD
        if not member.replica_set:
            raise NotRecoverable(
                f"{member.name} has no backup of a member of a replica set: zbackup snapshot"
            )
        if member.role != wanted:
            raise Refused(
                f"[cluster.{cluster.name}] has {member.name} as {_WORDS[wanted]}; by its newest backup it is "
                f"{_WORDS[member.role]} (sharding.clusterRole)"
            )
        if other := sets.get(member.replica_set):
            raise Refused(
                f"{other} and {member.name} are of one replica set, {member.replica_set}: name one of them"
            )
        sets[member.replica_set] = member.name


def require_one_cluster(recovered: Sequence[tuple[ClusterMember, Recovered]]) -> None:
    """Raise VerificationFailed when what was recovered so far tells of two clusters: another may have replica
    sets of the same names. The config server is the first."""
    known = [(member, found.member.cluster) for member, found in recovered if found.member]
    for member, cluster in known:
        if cluster != known[0][1]:
            raise VerificationFailed(
                f"{member.name} is of another cluster ({cluster or 'none'}) than {known[0][0].name} "
                f"({known[0][1] or 'none'}), by their own metadata: mend [cluster]"
            )


def require_same_shards(recovered: Sequence[tuple[ClusterMember, Recovered]]) -> None:
    """Raise VerificationFailed when the config server, the first, tells of other shards than these."""
    (config, found), *shards = recovered
    if found.member:
        with named(config):
            require_same_sets(set(found.member.shards), {member.replica_set for member, _ in shards})


@contextmanager
def named(member: ClusterMember) -> Iterator[None]:
    """Name the member in whatever fails."""
    try:
        yield
    except ZbackupError as failure:
        failure.args = (f"{member.name}: {failure}",)
        raise


def facts_of(members: Sequence[ClusterMember]) -> Mapping[str, MemberFacts]:
    """Map names to facts, as the planner takes them."""
    return {member.name: member.facts for member in members}


def _recorded_end(backups: Sequence[Backup]) -> ClusterTime | None:
    """Where the newest log ended, by its server's word.

    The span ends at the last checkpoint, up to a minute before. Between the two there may be a hole, which
    only the log tells of: the restore is TooLate then, and an earlier time is tried.
    """
    ends = [_record_end(b.record) for b in backups if b.complete and b.finished and b.record.log_to]
    return max((end for end in ends if end), default=None)


def _record_end(record: Record) -> ClusterTime | None:
    return _later(_cluster_time(record.position), _cluster_time(record.log_to))


def _live_end(ctx: Context, catalog: Catalog) -> ClusterTime | None:
    """The running server's; None while it does not answer, or is of another history than the backups."""
    with suppress(ZbackupError, OSError):
        newest = max(usable_bases(catalog.backups), key=lambda b: b.createtxg, default=None)
        if newest:
            span = ctx.log_reader.live_log(newest.files(catalog.all_datasets), live_files(catalog.datasets))
            return _cluster_time(span.last) if span else None
    return None


def _cluster_time(text: str) -> ClusterTime | None:
    numbers = position_of(text)
    return ClusterTime(*numbers[:2]) if len(numbers) >= 2 else None


def _later(one: ClusterTime | None, other: ClusterTime | None) -> ClusterTime | None:
    return max((end for end in (one, other) if end), default=None)
