"""zbackup restore"""

import re
from dataclasses import dataclass
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from zbackup.cli import shapes, tables
from zbackup.cli.options import Options
from zbackup.cli.output import emit, plain
from zbackup.cli.working import OneInstance, on_one
from zbackup.jobs.restore import RestoreOptions, RestorePlan, RestoreReport, plan_restore, restore
from zbackup.model.errors import UsageError
from zbackup.model.log import ClusterTime, Transaction, how_many
from zbackup.model.moment import FORMS, Moment, local_text, parse_moment
from zbackup.model.recovery import Recovered, ReplayRange

HELP = f"""Restore to a moment, as a new server.

Everything committed before the moment is there, nothing from it on. It runs beside the original, whose
server and datasets are not touched; it may even be down. The new one keeps running: see zbackup clone.

A moment is {FORMS}. Without a zone it is in the configured
one; without a day it is the last time it was that late. A time that happened twice or never because clocks
were changed is refused, with both readings.

\b
zbackup restore --to "2024-05-01 10:02"
zbackup restore shop --to -15m --dry-run
zbackup restore shop --to "yesterday 10:02:03.5" --name before-drop --port 3307 --read-only
zbackup restore docs --to-timestamp 1714557720,1 --port 27018 --as-replica-set rescue
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, to say it back."""

    instance: str
    moment: Moment
    cluster_time: ClusterTime | None = None


Target = Annotated[
    str | None,
    typer.Option("--to", metavar="MOMENT", help="The moment to restore to.", show_default=False),
]
ToTimestamp = Annotated[
    str | None,
    typer.Option(
        "--to-timestamp",
        metavar="SECONDS,INC",
        help="MongoDB: the exact cluster time to restore to, instead of --to. It is left out itself.",
        show_default=False,
    ),
]
AsReplicaSet = Annotated[
    str,
    typer.Option(
        "--as-replica-set",
        metavar="NAME",
        help="MongoDB: make the new server a replica set of its own (default: a standalone one).",
        show_default=False,
    ),
]
Name = Annotated[
    str,
    typer.Option("--name", help="Name of the clone (default: instance and moment).", show_default=False),
]
Port = Annotated[
    int,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help="Listen on this port of 127.0.0.1 too (default: a socket only).",
        show_default=False,
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Let nobody write to the new server.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep what was made when the restore fails.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")]


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: OneInstance = None,
    *,
    to: Target = None,
    to_timestamp: ToTimestamp = None,
    name: Name = "",
    port: Port = 0,
    read_only: ReadOnly = False,
    as_replica_set: AsReplicaSet = "",
    keep: Keep = False,
    dry_run: DryRun = False,
) -> None:
    exact = _cluster_time(to, to_timestamp)
    choice = RestoreOptions(
        name=name,
        port=port,
        read_only=read_only,
        keep=keep,
        cluster_time=exact,
        replica_set=_replica_set(as_replica_set),
    )
    with on_one(options, "restore", instance) as ctx:
        moment = (
            Moment(exact.second, str(exact), ctx.zone)
            if exact
            else parse_moment(to or "", ctx.zone, ctx.clock.now())
        )
        asked = Asked(ctx.instance, moment, exact)
        ctx.progress.note(_headline(asked))
        if dry_run:
            plan = plan_restore(ctx, asked.moment, choice)
        else:
            report = restore(ctx, asked.moment, choice)
    if dry_run:
        emit(options, "restore", plan_shape(asked, plan), lambda: render_plan(asked, plan))
    else:
        emit(options, "restore", report_shape(asked, report), lambda: render_report(asked, report))


def _cluster_time(to: str | None, exact: str | None) -> ClusterTime | None:
    """The exact target if one was given. Raise UsageError unless there is exactly one target."""
    if (to is None) == (exact is None):
        raise UsageError("say where to restore to: either --to MOMENT or --to-timestamp SECONDS,INC")
    if exact is None:
        return None
    try:
        return ClusterTime.parse(exact)
    except ValueError as wrong:
        raise UsageError(f"--to-timestamp: {wrong}") from wrong


def _replica_set(name: str) -> str:
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UsageError(f'"{name}" is no good name of a replica set: use letters, digits, ".", "_" and "-"')
    return name


def plan_shape(asked: Asked, plan: RestorePlan) -> dict[str, Any]:
    return {"dry_run": True} | _common_shape(asked, plan, plan.replay)


def report_shape(asked: Asked, report: RestoreReport) -> dict[str, Any]:
    recovered = report.recovered
    return (
        {"dry_run": False}
        | _common_shape(asked, report.plan, report.replay)
        | {
            "recovered": {
                "last_applied": shapes.transaction(recovered.last_applied),
                "first_skipped": shapes.transaction(recovered.first_skipped),
                "position": recovered.position,
                "gtid": recovered.gtid,
                "base_exact": recovered.base_exact,
            },
            "socket": report.socket,
            "port": report.clone.port or None,
            "read_only": report.clone.read_only,
            "replica_set": report.clone.replica_set or None,
            "connect": report.connect,
        }
    )


def _common_shape(asked: Asked, plan: RestorePlan, replay: ReplayRange | None) -> dict[str, Any]:
    return {
        "instance": asked.instance,
        "target": plain(asked.moment),
        "cluster_time": str(asked.cluster_time) if asked.cluster_time else None,
        "clone": plan.name,
        "base": shapes.backup(plan.base),
        "log": shapes.backup(plan.log) if plan.log else None,
        "reason": plan.reason,
        "warnings": list(plan.warnings),
        "replay": {
            "transactions": replay.transactions,
            "log_bytes": replay.log_bytes,
            "out_of_order": replay.out_of_order,
            "effective_target": plain(replay.effective_target),
            "last_applied": shapes.transaction(replay.last_applied),
            "first_skipped": shapes.transaction(replay.first_skipped),
        }
        if replay
        else None,
    }


def render_plan(asked: Asked, plan: RestorePlan) -> str:
    """The plan for people. Nothing of it has been done."""
    rows = _plan_rows(asked, plan) + _replay_rows(plan, plan.replay, "would replay")
    if plan.replay:
        rows += _end_rows(plan.replay, asked.moment.zone)
    rows.append(("clone", f"{plan.name} would be made"))
    return _sheet(f"Plan for {_headline(asked)}", rows, _remarks(asked, plan, plan.replay))


def render_report(asked: Asked, report: RestoreReport) -> str:
    """What was done, and how to reach the result."""
    rows = _plan_rows(asked, report.plan) + _replay_rows(report.plan, report.replay, "replayed")
    rows += _end_rows(report.recovered, asked.moment.zone)
    rows += [
        ("position", report.recovered.position),
        *([] if _is_mongodb(report.plan) else [("GTIDs", report.recovered.gtid or "none")]),
        ("clone", report.plan.name + (", read only" if report.clone.read_only else "")),
        *([("replica set", report.clone.replica_set)] if report.clone.replica_set else []),
        ("socket", report.socket),
        *([("port", f"127.0.0.1:{report.clone.port}")] if report.clone.port else []),
    ]
    text = _sheet(f"Restored {_headline(asked)}", rows, _remarks(asked, report.plan, report.replay))
    return f"{text}\n\nConnect with:\n  {report.connect}"


def _headline(asked: Asked) -> str:
    exact = f"cluster time {asked.cluster_time}, within " if asked.cluster_time else ""
    return f"{asked.instance} as of {exact}{asked.moment.describe()}"


def _is_mongodb(plan: RestorePlan) -> bool:
    return plan.base.record.engine == "mongodb"


def _plan_rows(asked: Asked, plan: RestorePlan) -> list[tuple[str, str]]:
    zone = asked.moment.zone
    as_of = plan.base.record.as_of
    log = plan.log.name if plan.log else "a snapshot to be taken now"
    return [
        ("base", plan.base.name + (f" (last transaction {local_text(as_of, zone)})" if as_of else "")),
        ("log from", log),
    ]


def _replay_rows(plan: RestorePlan, replay: ReplayRange | None, replayed: str) -> list[tuple[str, str]]:
    if replay is None:
        return [(replayed, "known only when the oplogs are opened, on clones")]
    words = ("oplog entry", "oplog entries") if _is_mongodb(plan) else ("transaction", "transactions")
    counted = how_many(replay.transactions, *words)
    return [(replayed, f"{counted}, {tables.size(replay.log_bytes)} of log")]


def _end_rows(end: ReplayRange | Recovered, zone: ZoneInfo) -> list[tuple[str, str]]:
    """Where the cut is: the last transaction that is in, and the first that is not."""
    return [
        ("last applied", _transaction(end.last_applied, zone) or "none: the base is the newest state before"),
        ("first skipped", _transaction(end.first_skipped, zone) or "none: the log ends before"),
    ]


def _transaction(subject: Transaction | None, zone: ZoneInfo) -> str:
    if subject is None:
        return ""
    gtid = f", GTID {subject.gtid}" if subject.gtid else ""
    what = f", {subject.what}" if subject.what else ""
    return f"{local_text(subject.committed, zone)}, {_span(subject)}{gtid}{what}"


def _span(subject: Transaction) -> str:
    """From where to where it stands in the log; what both places begin with is said once."""
    if subject.start == subject.end:
        return subject.start
    within = subject.start.rpartition(":")[0] + ":"
    return f"{subject.start} to {subject.end.removeprefix(within)}"


def _remarks(asked: Asked, plan: RestorePlan, replay: ReplayRange | None) -> list[str]:
    found = [plan.reason]
    if replay is None:
        return found
    effective = replay.effective_target
    if effective < asked.moment.at:
        found.append(
            f"the log knows whole seconds only, so the cut is at {local_text(effective, asked.moment.zone)}"
        )
    if replay.out_of_order:
        found.append(
            f"warning: {how_many(replay.out_of_order)} behind the cut carry an earlier time; "
            "the server's clock went back, and the order of the log is what counts"
        )
    return found + [f"warning: {text}" for text in plan.warnings]


def _sheet(title: str, rows: list[tuple[str, str]], remarks: list[str]) -> str:
    body = tables.aligned([[f"  {key}", value] for key, value in rows])
    return "\n".join([title, body, *(f"  {remark}" for remark in remarks)])
