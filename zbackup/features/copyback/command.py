"""zbackup copy"""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from zbackup.cli import completion, tables
from zbackup.cli.command_context import on_all
from zbackup.cli.options import Options
from zbackup.cli.output import emit_incomplete, tell
from zbackup.features.copyback.copy import Confirm, CopyReport, copy
from zbackup.features.copyback.copying import CopiedTable, CopyStep, CopyWish, Difference
from zbackup.jobs.clones.lifecycle import find
from zbackup.model.errors import CopyIncomplete, Declined, UsageError
from zbackup.model.table_name import TableName, parse_table

HELP = """Copy tables or collections out of a clone, back into production.

Nothing that production has is overwritten: without more, a table that production has gets a new one beside it
(orders_restored), and one that production lacks comes back under its own name, with foreign keys and
triggers. A new table is filled under another name, proven to hold what the clone has, and then renamed. Cut
short, the same command goes on.

It writes in small transactions, which replicas follow like any other, through an account of its own
([instance.NAME.copy_back]), and waits while replicas lag or many statements run.

\b
zbackup copy good shop.orders                          what was dropped is back; else orders_restored
zbackup copy good shop.orders --into shop.orders_0930  under this name
zbackup copy good shop                                 all tables and views of a schema
zbackup copy good shop.orders --missing                rows that were deleted: those whose key is not there
zbackup copy good shop.orders --changed --where "id < 500" --dry-run   which rows differ, and how
zbackup copy good shop.orders --replace                instead of production's table, which is kept
"""

CloneName = Annotated[
    str, typer.Argument(metavar="CLONE", help="The clone's name.", autocompletion=completion.clones)
]
Tables = Annotated[
    list[str],
    typer.Argument(metavar="TABLE...", help="SCHEMA.TABLE, or SCHEMA for all that is in it; any number."),
]
Into = Annotated[
    str,
    typer.Option(
        "--into", metavar="NAME", help="Another name, SCHEMA.TABLE, or another SCHEMA.", show_default=False
    ),
]
Replace = Annotated[
    bool,
    typer.Option("--replace", help="Take the place of production's table, which becomes NAME_before_TIME."),
]
Missing = Annotated[
    bool, typer.Option("--missing", help="Insert the rows whose key production's table lacks.")
]
Changed = Annotated[
    bool, typer.Option("--changed", help="Put back the rows that differ from production's of the same key.")
]
Where = Annotated[
    str,
    typer.Option(
        "--where", metavar="CONDITION", help="Only the clone's rows that meet it: SQL, or a MongoDB filter.",
        show_default=False,
    ),
]  # fmt: skip
Bare = Annotated[
    bool,
    typer.Option("--bare", help="Make tables without foreign keys and triggers, also under their own name."),
]
FireTriggers = Annotated[
    bool, typer.Option("--fire-triggers", help="Let production's triggers run for each row that is put back.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Show each kind of statement and the first rows that differ, change nothing."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Change what production has without asking.")]

ACTIONS = {
    "new": "new",
    "beside": "beside",
    "replace": "replaced",
    "rows": "rows put back",
    "view": "view",
}


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    clone: CloneName,
    names: Tables,
    *,
    into: Into = "",
    replace: Replace = False,
    missing: Missing = False,
    changed: Changed = False,
    where: Where = "",
    bare: Bare = False,
    fire_triggers: FireTriggers = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    with on_all(options, "copy") as contexts:
        engine = find(contexts, clone)[0].engine_name
        wish = CopyWish(
            tables=tuple(dict.fromkeys(parse_table(name, engine) for name in names)),
            into=parse_table(into, engine) if into else None,
            replace=replace,
            missing=missing,
            changed=changed,
            where=where,
            bare=bare,
            fire_triggers=fire_triggers,
            moment=f"{contexts[0].clock.now():%Y%m%dT%H%M%S}",
        )
        report = copy(contexts, clone, wish, confirmed(yes=yes), dry_run=dry_run)
    emit_incomplete(
        options,
        "copy",
        shape(report, dry_run=dry_run),
        lambda: (plan_text if dry_run else text)(report),
        incomplete(report),
    )


def incomplete(report: CopyReport) -> CopyIncomplete | None:
    """The error with the first of the rows or views that production did not take; None where it took all."""
    if not report.refused:
        return None
    first = next(line for table in report.tables for line in table.conflicts)
    return CopyIncomplete(f"production did not take {report.refused} rows or views: {first}")


def confirmed(*, yes: bool) -> Confirm | None:
    """Ask on a terminal, and nobody with `yes`: Declined for no, UsageError where nobody can be asked."""
    if yes:
        return None

    def ask(report: CopyReport) -> None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("changing what production has must be confirmed: add --yes (--dry-run shows it)")
        for line in _plan_lines(report):
            tell(line)
        if not typer.confirm(f"Change {report.instance} like that?", err=True):
            raise Declined("nothing was changed")

    return ask


def shape(report: CopyReport, *, dry_run: bool) -> dict[str, Any]:
    """See docs/reference/json.md."""
    found: Sequence[CopyStep | CopiedTable] = report.plan.steps if dry_run else report.tables
    return {
        "dry_run": dry_run,
        "instance": report.instance,
        "clone": report.clone,
        "tables": [_table_shape(each, report.differences.get(each.source)) for each in found],
        "notes": list(report.plan.notes),
    }


def _table_shape(each: CopyStep | CopiedTable, found: Difference | None) -> dict[str, Any]:
    common: dict[str, Any] = {
        "table": str(each.source),
        "into": str(each.into),
        "action": each.action,
        "kept": str(each.kept) if each.kept else None,
        "notes": list(each.notes),
        "difference": None if found is None else _difference_shape(found),
    }
    if isinstance(each, CopyStep):
        return common | {
            "rows": each.rows,
            "resumed": each.resumed,
            "statements": list(each.statements),
        }
    return common | {
        "inserted": each.inserted,
        "updated": each.updated,
        "verified": each.verified,
        "refused": each.refused,
        "conflicts": list(each.conflicts),
    }


def _difference_shape(found: Difference) -> dict[str, Any]:
    return {
        "missing": found.missing,
        "changed": found.changed,
        "examples": [
            {
                "key": row.key,
                "values": [{"column": n, "production": old, "clone": new} for n, old, new in row.values],
            }
            for row in found.examples
        ],
    }


def plan_text(report: CopyReport) -> str:
    return "\n".join(_plan_lines(report))


def _plan_lines(report: CopyReport) -> list[str]:
    lines = []
    for step in report.plan.steps:
        lines.append(f"{step.source} -> {step.into}{' (resumes an earlier run)' * step.resumed}")
        lines += [f"  {line}" for sql in step.statements for line in sql.splitlines()]
        lines += [f"  note: {note}" for note in step.notes]
        if found := report.differences.get(step.source):
            lines += _difference_lines(step.into, found)
    return lines


def _difference_lines(name: TableName, found: Difference) -> list[str]:
    if found.changed is None:
        return [f"  {name} lacks {found.missing} rows; those that it has are not compared (--changed)"]
    if found.inserts:
        lines = [f"  {name} lacks {found.missing} rows, and {found.changed} differ"]
    else:
        lines = [f"  {found.changed} rows of {name} differ"]
        lines[0] += f"; {found.missing} that it lacks stay away (--missing)" if found.missing else ""
    for row in found.examples:
        lines.append(f"    {row.key}")
        lines += [f"      {column}: {old} -> {new}" for column, old, new in row.values]
    if found.examples and found.changed > len(found.examples):
        lines.append(f"    ... and {found.changed - len(found.examples)} more")
    return lines


def text(report: CopyReport) -> str:
    if not report.tables:
        return "nothing to copy"
    rows = [["Table", "Into", "How", "Inserted", "Updated"]]
    for each in report.tables:
        rows.append(
            [str(each.source), str(each.into), ACTIONS[each.action], str(each.inserted), str(each.updated)]
        )
    lines = [tables.aligned(rows, right=(3, 4))]
    for each in report.tables:
        lines += [f"  {each.kept} is what {each.into} was"] if each.kept else []
        lines += [f"  note       {note}" for note in each.notes]
        lines += [f"  not taken  {line}" for line in each.conflicts]
    return "\n".join(lines)
