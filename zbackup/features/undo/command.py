"""zbackup undo"""

import sys
from typing import Annotated, Any

import typer

from zbackup.cli import tables
from zbackup.cli.command_context import OneInstance, on_one
from zbackup.cli.options import Options
from zbackup.cli.output import emit_incomplete, plain, tell
from zbackup.features.undo.undo import Confirm, UndoOptions, UndoReport, undo
from zbackup.features.undo.undoing import UndoneTable
from zbackup.model.errors import CopyIncomplete, Declined, UsageError
from zbackup.model.moment import local_text
from zbackup.model.transaction_name import parse_named

HELP = """Take back what one transaction changed, and nothing else.

Rows (or documents) that it deleted are inserted again, those that it changed get their old values, those that
it inserted are deleted: where production still has what it wrote. What was changed since is listed as a
conflict and left alone; the command then ends with 17. What is as it was already is left alone, too, so that
the same command continues one that was cut short.

The transaction is named by its GTID or its position, of MongoDB by its cluster time: zbackup log shows them.
Its rows are read from the log. Where that does not hold them whole (binlog_row_image=MINIMAL or NOBLOB; of
MongoDB where collections keep no pre-images), a server that is restored to just before it tells the rest, and
is gone again afterwards.

It writes by the account that zbackup copy writes by ([instance.NAME.copy_back]).

\b
zbackup log shop --table shop.orders --kind delete --since -1h     which transaction was it?
zbackup undo 3e11fa47-71ca-11e1-9e33-c80aa9429562:23 --dry-run     what would be done, as SQL
zbackup undo 3e11fa47-71ca-11e1-9e33-c80aa9429562:23               shown, asked, done
zbackup undo 0-1-4711 shop --yes --json                            for scripts
zbackup undo 1714557720,1 docs --dry-run                           MongoDB: its commands
"""

TransactionArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRANSACTION",
        help="Its GTID, or FILE:POSITION in the binary log; of MongoDB SECONDS,INCREMENT.",
    ),
]
FireTriggers = Annotated[
    bool,
    typer.Option("--fire-triggers", help="Let production's triggers run for each row that is put back."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the reverse as SQL, or as commands of MongoDB; change nothing."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Change production's rows without asking.")]


def command(
    options: Options,
    transaction: TransactionArgument,
    instance: OneInstance = None,
    *,
    fire_triggers: FireTriggers = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    name = parse_named(transaction)
    with on_one(options, "undo", instance) as ctx:
        choice = UndoOptions(dry_run=dry_run, fire_triggers=fire_triggers)
        report = undo(ctx, name, choice, confirmed(yes=yes))
        at = local_text(report.transaction.committed, ctx.zone)
    emit_incomplete(
        options,
        "undo",
        shape(report, dry_run=dry_run),
        lambda: text(report, at, dry_run=dry_run),
        incomplete(report, dry_run=dry_run),
    )


def incomplete(report: UndoReport, *, dry_run: bool) -> CopyIncomplete | None:
    """The error with the first of what is not taken back; None where all is."""
    if not report.left:
        return None
    first = next(line for table in report.tables for line in (*table.conflicts, *table.unlogged))
    what = "would not be" if dry_run else "was not"
    return CopyIncomplete(f"{report.name} {what} taken back whole: {report.left} left, {first}")


def confirmed(*, yes: bool) -> Confirm:
    """Ask on a terminal: Declined for no, UsageError where nobody can be asked."""

    def ask(report: UndoReport) -> None:
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("changing what production has must be confirmed: add --yes (--dry-run shows it)")
        for line in _lines(report):
            tell(line)
        if not typer.confirm(f"Change {report.plan.changes} rows of {report.instance} like that?", err=True):
            raise Declined("nothing was changed")

    return ask


def shape(report: UndoReport, *, dry_run: bool) -> dict[str, Any]:
    """See docs/reference/json.md."""
    return {
        "dry_run": dry_run,
        "instance": report.instance,
        "transaction": report.name,
        "gtid": report.transaction.gtid or None,
        "position": report.transaction.start,
        "committed": plain(report.transaction.committed),
        "tables": [_table_shape(table) for table in report.tables],
        "left": report.left,
        "statements": list(report.statements) if dry_run else None,
        "notes": list(report.plan.notes),
    }


def _table_shape(table: UndoneTable) -> dict[str, Any]:
    return {
        "table": str(table.table),
        "inserted": table.inserted,
        "updated": table.updated,
        "deleted": table.deleted,
        "already": table.already,
        "refused": table.refused,
        "conflicts": list(table.conflicts),
        "unlogged": list(table.unlogged),
    }


def text(report: UndoReport, at: str, *, dry_run: bool) -> str:
    """For people; of a dry run as statements, with what is none in comments."""
    head = f"{report.name}, committed {at}"
    if not dry_run:
        return "\n".join((f"{head}, is taken back:", *_lines(report)))
    lines = [f"the reverse of {head}:", *_lines(report)]
    mark = "//" if report.transaction.start.count("@") else "--"
    return "\n".join(
        (*(f"{mark} {line}" for each in lines for line in each.splitlines()), *report.statements)
    )


def _lines(report: UndoReport) -> list[str]:
    rows = [["Table", "Inserted again", "Updated", "Deleted", "Already", "Conflicts"]]
    for each in report.tables:
        counts = (each.inserted, each.updated, each.deleted, each.already, each.refused)
        rows.append([str(each.table), *map(str, counts)])
    lines = tables.aligned(rows, right=(1, 2, 3, 4, 5)).splitlines()
    for each in report.tables:
        lines += [f"conflict  {line}" for line in each.conflicts]
        if each.refused > len(each.conflicts):
            lines.append(f"... and {each.refused - len(each.conflicts)} more of {each.table}")
        lines += [f"not in the log  {line}" for line in each.unlogged]
    return lines
