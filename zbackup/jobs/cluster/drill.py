"""Prove that the members' backups lead to one cluster time: recover each, check it, destroy it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from zbackup.jobs.clones.claim import announce
from zbackup.jobs.clones.temporary import own_name, what_is_left
from zbackup.jobs.cluster.members import ClusterMember, named, require_one_cluster, require_same_shards
from zbackup.jobs.cluster.restore import chosen, earlier_when_too_late
from zbackup.jobs.drills.guard import one_at_a_time
from zbackup.jobs.restore.options import Finish, RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.clone import Clone
from zbackup.model.cluster import Cluster
from zbackup.model.errors import VerificationFailed
from zbackup.model.event_log import log
from zbackup.model.log import ClusterTime
from zbackup.model.recovery import CheckedTables, Recovered, RecoveryFiles
from zbackup.plan.clones.clone_name import drill_names

WHAT = "zbackup drill"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDrill:
    """The report: each member was recovered to `at`, and that many of its collections checked. `left` is what
    could not be removed, and why."""

    at: ClusterTime
    members: tuple[tuple[ClusterMember, CheckedTables], ...]
    took: timedelta
    left: tuple[str, ...] = ()


def drill_cluster(cluster: Cluster, members: Sequence[ClusterMember]) -> ClusterDrill:
    """Recover every member to the newest cluster time that all backups hold, one after the other.

    Nobody can reach their servers. No snapshot is taken; what a killed drill left, the next one removes.
    Raise whatever a restore raises, and VerificationFailed when a collection is damaged.
    """
    ctx = members[0].ctx
    began = ctx.clock.monotonic()
    with one_at_a_time(ctx, WHAT):
        at, left = chosen(cluster, members, None), list[str]()
        at, checked = earlier_when_too_late(members, at, partial(_tried, members, left))
    log.info("cluster.drill_passed", cluster=cluster.name, target=str(at))
    took = timedelta(seconds=ctx.clock.monotonic() - began)
    return ClusterDrill(at=at, members=tuple(zip(members, checked, strict=True)), took=took, left=tuple(left))


def _tried(members: Sequence[ClusterMember], left: list[str], at: ClusterTime) -> list[CheckedTables]:
    found: list[tuple[ClusterMember, Recovered]] = []
    checked = []
    for member in members:
        recovered, tables = _try(member, at, left)
        found.append((member, recovered))
        require_one_cluster(found)
        checked.append(tables)
    require_same_shards(found)
    return checked


def _try(member: ClusterMember, at: ClusterTime, left: list[str]) -> tuple[Recovered, CheckedTables]:
    ctx = member.source.context(member.ctx)
    found: list[CheckedTables] = []

    def check(files: RecoveryFiles, clone: Clone) -> Clone:
        found.append(ctx.recovery.check_tables(files, ctx.progress))
        if damaged := found[0].damaged:
            raise VerificationFailed(f"a collection is damaged: {damaged[0]}")
        return clone

    finish = Finish(begin=partial(announce, ctx), hand_over=check)
    ctx.progress.note(f"restoring {member.name}")
    with named(member):
        with own_name(ctx, drill_names(member.name), WHAT) as name:
            options = RestoreOptions(name=name, finish=finish, stored_only=not member.destination)
            report = restore(member.ctx, at, options, member.source, locked=True)
        if stays := what_is_left(ctx, name):
            left.append(stays)
    return report.recovered, found[0]
