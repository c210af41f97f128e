"""zbackup prune"""

from typing import Annotated, Any

import typer

from zbackup import app
from zbackup.cli import json_shapes, prose, tables
from zbackup.cli.command_context import AnyInstance, At, Done, conclude, on_each
from zbackup.cli.options import Options
from zbackup.cli.output import plain
from zbackup.jobs.backup.prune import PrunePlan, PruneReport, plan_prune, prune
from zbackup.jobs.context import Context
from zbackup.jobs.ship.prune_at import plan_prune_at, prune_at
from zbackup.model.backup import Backup
from zbackup.model.errors import CommandFailed
from zbackup.model.moment import local_text
from zbackup.model.retention import FOREVER

HELP = """Delete the backups that the retention policy no longer needs.

Of one instance or all of them, as [instance.NAME.retention] says; without a policy nothing is destroyed.
Every moment of the promised window that could be restored still can be afterwards. "At least until": no prune
deletes it before that, whatever else is taken or pruned; after that it goes once no other reason keeps it.
What is held, cloned from or in use is skipped and reported, and the command then ends with 3. Nothing but
what zbackup itself took for the instance is touched.

\b
zbackup prune --dry-run       what would stay and why, and what would go; changes nothing
zbackup prune shop
zbackup prune --at offsite    at a destination, by its own retention and not this host's
zbackup prune --json          for scripts
"""

HEADER = ("", "Snapshot", "Taken", "Used", "At least until", "Why it stays")
REASONS = 30
"""Columns of the terminal that reasons need at the least."""


def command(
    options: Options,
    instance: AnyInstance = None,
    at: At = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would stay and what would go, change nothing.")
    ] = False,
) -> None:
    def plan(ctx: Context) -> PrunePlan:
        return plan_prune_at(ctx, app.choose_destination(ctx, at)) if at else plan_prune(ctx)

    def destroy(ctx: Context) -> PruneReport:
        return prune_at(ctx, app.choose_destination(ctx, at)) if at else prune(ctx)

    if dry_run:
        plans = on_each(options, "prune", instance, plan)
        conclude(options, "prune", plans, shape=_plan_shape, text=_plan_text)
    else:
        reports = on_each(options, "prune", instance, destroy)
        conclude(options, "prune", reports, shape=_report_shape, text=_report_text)
        if any(isinstance(d, Done) and (d.result.skipped or d.result.log_stays) for d in reports):
            raise typer.Exit(CommandFailed.exit_status)


def _plan_shape(done: Done[PrunePlan]) -> dict[str, Any]:
    return {"dry_run": True, **_planned(done.result)}


def _planned(plan: PrunePlan) -> dict[str, Any]:
    return {
        "keep": [
            _backup(k.backup)
            | {"stays_until": _until(plan, k.backup), "reasons": [str(r) for r in k.reasons]}
            for k in plan.retention.keep
        ],
        "destroy": [_backup(b) for b in plan.retention.destroy],
        "freed": plan.freed,
        "note": plan.retention.note,
        "orphans": plan.orphans,
        "strays": plan.orphans,  # what they were called before, for scripts that read it
        "unreadable": json_shapes.unreadable(plan.unreadable),
        "archived_log": [
            {"file": f.file.name, "server": f.file.server, "epoch": f.file.epoch, "size": f.size}
            for f in plan.archived
        ],
    }


def _report_shape(done: Done[PruneReport]) -> dict[str, Any]:
    report = done.result
    return {
        "dry_run": False,
        **_planned(report.plan),
        "destroyed": [_backup(b) for b in report.destroyed],
        "skipped": [_backup(s.backup) | {"why": s.why} for s in report.skipped],
        "archived_log_stays": report.log_stays,
    }


def _backup(backup: Backup) -> dict[str, Any]:
    return {
        "backup": backup.record.backup,
        "name": backup.name,
        "taken": plain(backup.record.taken),
        "used": sum(s.used for s in backup.snapshots),
    }


def _until(plan: PrunePlan, backup: Backup) -> str | None:
    end = plan.stays.get(backup.record.backup)
    return "forever" if end == FOREVER else plain(end)


def _stays(plan: PrunePlan, backup: Backup, ctx: Context) -> str:
    end = plan.stays.get(backup.record.backup)
    if end is None or end == FOREVER:
        return "forever" if end else "-"
    return local_text(end.replace(microsecond=0), ctx.zone)


def _plan_text(plans: list[Done[PrunePlan]]) -> str:
    return prose.fold("\n\n".join("\n".join(_plan_lines(done)) for done in plans))


def _plan_lines(done: Done[PrunePlan]) -> list[str]:
    plan, ctx = done.result, done.context
    rows = [(k.backup, "keep", "; ".join(map(str, k.reasons))) for k in plan.retention.keep]
    rows += [(b, "destroy", "") for b in plan.retention.destroy]
    rows.sort(key=lambda row: (row[0].createtxg, row[0].record.backup))
    cells = [
        [
            what,
            backup.name,
            local_text(backup.record.taken.replace(microsecond=0), ctx.zone),
            tables.size(sum(s.used for s in backup.snapshots)),
            _stays(plan, backup, ctx) if why else "",
            why,
        ]
        for backup, what, why in rows
    ]
    shown = (
        [tables.table(HEADER, cells, right=(3,), expendable=(2, 3, 4), text={5: REASONS})] if cells else []
    )
    orphans = [f"No backup needs, and nobody works on: {orphan}" for orphan in plan.orphans]
    unread = json_shapes.unreadable_lines(plan.unreadable)
    orphans += [f"{_archived(plan)} would go, which no backup that stays needs."] if plan.archived else []
    return [f"Instance {ctx.instance}", *shown, *_note(plan), *orphans, *unread, _verdict(plan)]


def _report_text(reports: list[Done[PruneReport]]) -> str:
    return "\n".join(line for done in reports for line in _report_lines(done))


def _report_lines(done: Done[PruneReport]) -> list[str]:
    report, name = done.result, done.context.instance
    kept = len(report.plan.retention.keep)
    orphans = [f"  took away what no backup needs: {orphan}" for orphan in report.plan.orphans]
    orphans += [f"  {line}" for line in json_shapes.unreadable_lines(report.plan.unreadable)]
    orphans += [f"  took away {_archived(report.plan)}"] if report.plan.archived else []
    orphans += [f"  archived log stays: {report.log_stays}"] if report.log_stays else []
    if not (report.plan.retention.destroy or report.destroyed or report.skipped):
        return [f"{name}: nothing is to be destroyed; {kept} stay", *_note(report.plan, "  "), *orphans]
    freed = "" if report.skipped else _bytes(report.plan, ", which freed")
    return [
        f"{name}: destroyed {_count(len(report.destroyed))}{freed}; {kept} stay",
        *_note(report.plan, "  "),
        *(f"  skipped {s.backup.name}: {s.why}" for s in report.skipped),
        *orphans,
    ]


def _archived(plan: PrunePlan) -> str:
    count, size = len(plan.archived), sum(f.size for f in plan.archived)
    return f"{count} file{'s' * (count != 1)} of archived log ({tables.size(size)})"


def _note(plan: PrunePlan, indent: str = "") -> list[str]:
    said = plan.retention.note
    return [f"{indent}{said[0].upper()}{said[1:]}."] if said else []


def _verdict(plan: PrunePlan) -> str:
    kept, gone = len(plan.retention.keep), len(plan.retention.destroy)
    if not gone:
        return f"Nothing is to be destroyed; {kept} stay."
    return f"{_count(gone)} would be destroyed{_bytes(plan, ', which would free')}; {kept} stay."


def _bytes(plan: PrunePlan, what: str) -> str:
    """What it frees, where ZFS could tell."""
    return f"{what} {tables.size(plan.freed)}" if plan.freed is not None else ""


def _count(number: int) -> str:
    return "1 backup" if number == 1 else f"{number} backups"
