"""zbackup snapshot"""

from typing import Annotated, Any

import typer

from zbackup.cli import shapes, tables
from zbackup.cli.options import Options
from zbackup.cli.working import AnyInstance, Done, conclude, on_each
from zbackup.jobs.backup.snapshot import SnapshotPlan, SnapshotReport, plan_snapshot, snapshot
from zbackup.model.moment import local_text

HELP = """Take a consistent snapshot.

Of one instance or all of them. The server is held still for as long as one atomic ZFS snapshot of all its
datasets takes (with some locks not even that); where its log stood is written on the snapshot. When
anything fails, nothing is kept.

\b
zbackup snapshot                 all instances
zbackup snapshot shop --dry-run  which datasets and which lock, and why; changes nothing
zbackup snapshot --json          for scripts
"""


def command(
    options: Options,
    instance: AnyInstance = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")] = False,
) -> None:
    if dry_run:
        plans = on_each(options, "snapshot", instance, plan_snapshot)
        conclude(options, "snapshot", plans, shape=_plan_shape, text=_plan_text)
    else:
        reports = on_each(options, "snapshot", instance, snapshot)
        conclude(options, "snapshot", reports, shape=_report_shape, text=_report_text)


def _report_shape(done: Done[SnapshotReport]) -> dict[str, Any]:
    report = done.result
    return {
        "dry_run": False,
        "snapshot": shapes.backup(report.backup),
        "lock": {"kind": report.lock.kind, "reason": report.lock.reason},
        "warnings": report.warnings,
    }


def _report_text(reports: list[Done[SnapshotReport]]) -> str:
    return "\n".join(line for done in reports for line in _report_lines(done))


def _report_lines(done: Done[SnapshotReport]) -> list[str]:
    record, report = done.result.backup.record, done.result
    end = local_text(record.as_of, done.context.zone) if record.as_of else "not known"
    times = lock_times(record.lock_wait_ms, record.lock_held_ms)
    return [
        f"{record.instance}: {report.backup.name} of {', '.join(s.dataset for s in report.backup.snapshots)}",
        f"  last transaction {end}" + (f", log position {record.position}" if record.position else ""),
        f"  lock {report.lock.kind}, {times}: {report.lock.reason}",
        *(f"  warning: {warning}" for warning in report.warnings),
    ]


def lock_times(wait_ms: int | None, held_ms: int | None) -> str:
    """How long a lock was waited for and held, as far as it is known."""
    times = (("waited", wait_ms), ("held", held_ms))
    return (
        ", ".join(f"{what} {tables.length(ms / 1000)}" for what, ms in times if ms is not None)
        or "not measured"
    )


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
