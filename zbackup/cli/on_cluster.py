"""A command for all members of a sharded MongoDB as one."""

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zbackup import app
from zbackup.cli import logs, tables
from zbackup.cli.cluster_option import ClusterWish
from zbackup.cli.options import Options
from zbackup.cli.output import emit, plain
from zbackup.cli.private_key import with_private_keys
from zbackup.cli.progress import shown
from zbackup.cli.restore_report import Asked, plan_shape, report_shape
from zbackup.config.load import load
from zbackup.config.settings import Settings
from zbackup.jobs.cluster.members import ClusterMember, inspect_member
from zbackup.jobs.cluster.restore import (
    ClusterOptions,
    ClusterPlan,
    ClusterReport,
    plan_cluster,
    restore_cluster,
)
from zbackup.jobs.context import Context
from zbackup.model.cluster import Cluster
from zbackup.model.errors import NotFound, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.moment import local_text, parse_moment, utc_text
from zbackup.model.target import LATEST
from zbackup.plan.cluster import of_moment


def choose(settings: Settings, name: str) -> Cluster:
    """The cluster of that name. Raise NotFound, with the nearest name there is."""
    if name in settings.cluster:
        return settings.cluster[name].members(name)
    near = difflib.get_close_matches(name, settings.cluster, n=1)
    there = ", ".join(settings.cluster) or "none: see [cluster.NAME] in the configuration"
    hint = f'did you mean "{near[0]}"?' if near else f"there is {there}"
    raise NotFound(f'no cluster "{name}" in the configuration; {hint}')


@contextmanager
def on_members(
    options: Options, job: str, name: str, private_keys: Sequence[Path] | None = None
) -> Iterator[tuple[Cluster, list[Context]]]:
    """The cluster of that name, and the contexts of its members, the config server's first; see also
    command_context.on_one."""
    settings = load(options.config)
    cluster = choose(settings, name)
    logs.bind(job=job, cluster=name)
    with shown(options) as progress:
        members = [with_private_keys(settings.instance[m], private_keys) for m in cluster.members]
        yield cluster, [app.context(settings, member, progress) for member in members]


def inspect_members(
    contexts: Sequence[Context], origin: str | None, *, there: bool = False, stored: bool = False
) -> list[ClusterMember]:
    """The members, here or at the destination that each of them has under that name."""
    destinations = [app.choose_destination(ctx, origin) if origin else None for ctx in contexts]
    return [
        inspect_member(ctx, destination, run_at_destination=there, stored=stored)
        for ctx, destination in zip(contexts, destinations, strict=True)
    ]


def restore(
    options: Options, name: str, wish: ClusterWish, choices: ClusterOptions, *, dry_run: bool
) -> None:
    """Restore all members of a cluster to one cluster time."""
    if wish.there and not wish.origin:
        raise UsageError("--run-at-destination needs a destination: --from DESTINATION")
    with on_members(options, "restore", name, wish.private_keys) as (cluster, contexts):
        at = _target(wish, contexts[0])
        members = inspect_members(contexts, wish.origin, there=wish.there)
        if dry_run:
            plan = plan_cluster(cluster, members, at, choices)
        else:
            report = restore_cluster(cluster, members, at, choices)
    if dry_run:
        emit(options, "restore", _plan_shape(cluster, plan), lambda: _plan_text(cluster, plan))
    else:
        emit(options, "restore", _shape(cluster, report), lambda: _text(cluster, report))


def _target(wish: ClusterWish, ctx: Context) -> ClusterTime | None:
    """The cluster time that is meant; None for the newest. Raise UsageError unless one is named."""
    match wish.target:
        case ClusterTime():
            return wish.target
        case str():
            if wish.target in (LATEST, "now"):
                return None
            return of_moment(parse_moment(wish.target, ctx.zone, ctx.clock.now()))
    raise UsageError("say where to restore the cluster to: --to MOMENT, --to latest or --to SECONDS,INC")


def _asked(member: ClusterMember, at: ClusterTime) -> Asked:
    return Asked(member.name, member.ctx.zone, at)


def _common(cluster: Cluster, at: ClusterTime) -> dict[str, Any]:
    return {"cluster": cluster.name, "cluster_time": str(at), "at": plain(at.at)}


def _plan_shape(cluster: Cluster, plan: ClusterPlan) -> dict[str, Any]:
    rows = [
        {"role": m.role, "replica_set": m.replica_set} | plan_shape(_asked(m, plan.at), each)
        for m, each in plan.members
    ]
    return _common(cluster, plan.at) | {"dry_run": True, "members": rows}


def _shape(cluster: Cluster, report: ClusterReport) -> dict[str, Any]:
    rows = [{"role": m.role} | report_shape(_asked(m, report.at), each) for m, each in report.members]
    return _common(cluster, report.at) | {"dry_run": False, "configdb": report.configdb, "members": rows}


def _headline(cluster: Cluster, at: ClusterTime, member: ClusterMember) -> str:
    zone = member.ctx.zone
    within = f"{local_text(at.at, zone)} = {utc_text(at.at)}"
    return f"cluster {cluster.name} as of cluster time {at}, within {within}"


def _plan_text(cluster: Cluster, plan: ClusterPlan) -> str:
    rows = [["  MEMBER", "REPLICA SET", "BASE", "LOG FROM", "CLONE"]] + [
        [
            f"  {m.name}",
            m.replica_set,
            each.base.name,
            each.log.name if each.log else "a snapshot to be taken now",
            each.name,
        ]
        for m, each in plan.members
    ]
    return f"Plan for {_headline(cluster, plan.at, plan.members[0][0])}\n{tables.aligned(rows)}"


def _text(cluster: Cluster, report: ClusterReport) -> str:
    rows = [["  MEMBER", "REPLICA SET", "ADDRESS", "LAST APPLIED", "CLONE"]]
    for member, each in report.members:
        last = each.recovered.last_applied
        rows.append(
            [
                f"  {member.name}",
                member.replica_set,
                f"127.0.0.1:{each.clone.port}",
                last.start if last else "",
                each.clone.name,
            ]
        )
    title = f"Restored {_headline(cluster, report.at, report.members[0][0])}"
    return "\n".join(
        [
            title,
            tables.aligned(rows),
            "  the balancer is stopped: sh.startBalancer() once you are content with what is there",
            "",
            "Put a mongos in front:",
            f"  mongos --configdb {report.configdb} --bind_ip 127.0.0.1 --port PORT",
        ]
    )
