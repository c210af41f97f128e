"""zbackup snapshot"""

import re
import sys
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic_core import PydanticCustomError

from zbackup.cli import json_shapes, tables
from zbackup.cli.command_context import AnyInstance, Done, conclude, on_each
from zbackup.cli.options import Options
from zbackup.config.units import duration
from zbackup.jobs.backup.snapshot import (
    SnapshotOptions,
    SnapshotPlan,
    SnapshotReport,
    plan_snapshot,
    snapshot,
)
from zbackup.model.errors import UsageError
from zbackup.model.moment import local_text
from zbackup.model.record import Record

HELP = """Take a consistent snapshot.

Of one instance or all of them. The server's writes wait only while one atomic ZFS snapshot of all its
datasets is taken (with some locks not even then); its log position is written on the snapshot. When anything
fails, nothing is kept.

\b
zbackup snapshot                 all instances
zbackup snapshot shop --dry-run  which datasets and which lock, and why; changes nothing
zbackup snapshot --label before-deploy --keep 30d   find it by this name; kept for 30 days at least
zbackup snapshot --json          for scripts

One that is taken at a terminal is kept for a day at least, one with a label for 30 days, unless --keep says
otherwise. A label need not be unique: restore --to-label takes the newest backup that has it.
"""

BY_HAND_S = 86_400.0
LABELLED_S = 30 * BY_HAND_S
MOST_KEPT_S = 3660 * BY_HAND_S
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Label = Annotated[
    str,
    typer.Option(
        "--label",
        metavar="LABEL",
        help="What to call the backup, such as before-deploy: zbackup restore --to-label finds it.",
        show_default=False,
    ),
]
Keep = Annotated[
    str,
    typer.Option(
        "--keep",
        metavar="TIME",
        help='Keep it for this long at least, whatever the retention policy says: "12h", "30d"; "0s": as the '
        "policy says.",
        show_default=False,
    ),
]


def command(
    options: Options,
    instance: AnyInstance = None,
    label: Label = "",
    keep: Keep = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")] = False,
) -> None:
    wanted = wishes(label, keep, by_hand=sys.stdin.isatty())
    if dry_run:
        plans = on_each(options, "snapshot", instance, lambda ctx: plan_snapshot(ctx, wanted))
        conclude(options, "snapshot", plans, shape=_plan_shape, text=_plan_text)
    else:
        reports = on_each(options, "snapshot", instance, lambda ctx: snapshot(ctx, wanted))
        conclude(options, "snapshot", reports, shape=_report_shape, text=_report_text)


def wishes(label: str, keep: str, *, by_hand: bool) -> SnapshotOptions:
    """What the options of the command line ask for. Raise UsageError."""
    if label and not _LABEL.fullmatch(label):
        raise UsageError(f'"{label}" is no label: write up to 64 letters, digits, dots, - and _')
    if not keep:
        usual = LABELLED_S if label else BY_HAND_S if by_hand else None
        return SnapshotOptions(label=label, keep=usual)
    try:
        seconds = duration(keep)
    except PydanticCustomError:
        raise UsageError(f'"{keep}" is no length of time: write "12h" or "30d"') from None
    if seconds > MOST_KEPT_S:
        raise UsageError(f'"{keep}" is longer than 10 years: zfs hold keeps snapshots for good')
    return SnapshotOptions(label=label, keep=seconds or None)


def _report_shape(done: Done[SnapshotReport]) -> dict[str, Any]:
    report = done.result
    return {
        "dry_run": False,
        "snapshot": json_shapes.backup(report.backup),
        "lock": {"kind": report.lock.kind, "reason": report.lock.reason},
        "warnings": report.warnings,
    }


def _report_text(reports: list[Done[SnapshotReport]]) -> str:
    return "\n".join(line for done in reports for line in _report_lines(done))


def _report_lines(done: Done[SnapshotReport]) -> list[str]:
    record, report = done.result.backup.record, done.result
    end = local_text(record.as_of, done.context.zone) if record.as_of else "not known"
    times = tables.lock_times(record.lock_wait_ms, record.lock_held_ms)
    return [
        f"{record.instance}: {report.backup.name} of {', '.join(s.dataset for s in report.backup.snapshots)}",
        f"  last transaction {end}" + (f", log position {record.position}" if record.position else ""),
        f"  lock {report.lock.kind}, {times}: {report.lock.reason}",
        *kept(record, done.context.zone),
        *(f"  warning: {warning}" for warning in report.warnings),
    ]


def kept(record: Record, zone: ZoneInfo) -> list[str]:
    """Until when no prune destroys it, and its label."""
    said = [f"label {record.label}"] if record.label else []
    said += (
        [f"kept until {local_text(end.replace(microsecond=0), zone)}"] if (end := record.keep_until) else []
    )
    return [f"  {', '.join(said)}"] if said else []


def _plan_shape(done: Done[SnapshotPlan]) -> dict[str, Any]:
    plan = done.result
    return {
        "dry_run": True,
        "name": plan.name,
        "datasets": [{"dataset": dataset, "mountpoint": mountpoint} for dataset, mountpoint in plan.members],
        "lock": {"kind": plan.lock.kind, "reason": plan.lock.reason},
        "warnings": plan.warnings,
    }


def _plan_text(plans: list[Done[SnapshotPlan]]) -> str:
    lines = []
    for done in plans:
        plan = done.result
        lines.append(f"{done.context.instance}: would take {plan.name} of")
        lines += [f"  {dataset} ({mountpoint})" for dataset, mountpoint in plan.members]
        lines.append(f"  with lock {plan.lock.kind}: {plan.lock.reason}")
        lines += [f"  warning: {warning}" for warning in plan.warnings]
    return "\n".join(lines)
