"""Check that the members of a cluster can be restored to one cluster time. Looks only."""

from collections.abc import Sequence

from zbackup.jobs.cluster.members import ClusterMember, facts_of, require_cluster
from zbackup.jobs.watch.check import CheckReport
from zbackup.model.cluster import Cluster
from zbackup.model.errors import ZbackupError
from zbackup.model.finding import Finding
from zbackup.model.moment import local_text
from zbackup.plan.cluster import common, newest


def check_cluster(cluster: Cluster, members: Sequence[ClusterMember]) -> CheckReport:
    """Of the cluster what is wrong with it as one: what is wrong with a member, its own check tells."""
    findings = [_members(cluster, members), _window(members)]
    return CheckReport(instance=f"cluster {cluster.name}", findings=tuple(findings))


def _members(cluster: Cluster, members: Sequence[ClusterMember]) -> Finding:
    try:
        require_cluster(cluster, members)
    except ZbackupError as wrong:
        return Finding(
            severity="critical",
            subject="members",
            text=str(wrong),
            why="only the config server and all shards together are a cluster",
            exit_status=wrong.exit_status,
        )
    sets = ", ".join(f"{m.name} ({m.role}, set {m.replica_set})" for m in members)
    return Finding(severity="ok", subject="members", text=sets)


def _window(members: Sequence[ClusterMember]) -> Finding:
    zone = members[0].ctx.zone
    try:
        at = newest(facts_of(members), zone)
    except ZbackupError as wrong:
        return Finding(
            severity="critical",
            subject="common window",
            text=str(wrong),
            why="the cluster is restored to a cluster time that every member holds",
            fix="zbackup snapshot",
            exit_status=wrong.exit_status,
        )
    spans = "; ".join(
        f"after {local_text(s.after, zone)} up to {local_text(s.to, zone)}" for s in common(facts_of(members))
    )
    return Finding(severity="ok", subject="common window", text=f"{spans}; the newest cluster time is {at}")
