"""Rows that the database itself would delete, change or null when a row is taken back. Pure.

A foreign key that refers to a table acts on the rows of its own table: when a row that they refer to is
deleted (ON DELETE) or gets another key (ON UPDATE). Neither server tells a client which rows that were. So it
is known beforehand: a row is taken back only where all rows that refer to it are taken back by the same undo,
in a way that leaves nothing of what the foreign key did.

MySQL reference manual and MariaDB's, "FOREIGN KEY Constraints", "Referential Actions".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zbackup.engines.mysql.production.tables import ServerTable
from zbackup.features.undo.mysql import reverse
from zbackup.features.undo.mysql.net_change import RowStep
from zbackup.model.table_name import TableName

ACTING = ("CASCADE", "SET NULL", "SET DEFAULT")
"""Rules by which the server changes rows itself; by the others it refuses the statement."""
SHOWN = 3

RowId = tuple[TableName, tuple[object, ...]]
"""A table, and a key as reverse.canonical_key gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A foreign key of `child` that refers to a table. `columns` are pairs, the child's first."""

    name: str
    child: TableName
    on_delete: str
    on_update: str
    columns: tuple[tuple[str, str], ...]

    def rule(self, step: RowStep) -> str:
        """What it does when this row is taken back."""
        return self.on_delete if step.kind == "delete" else self.on_update

    def described(self, step: RowStep) -> str:
        """Describe it for people."""
        return (
            f"foreign key {self.name}, ON {'DELETE' if step.kind == 'delete' else 'UPDATE'} {self.rule(step)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Referring:
    """The rows of production that refer to a row by one foreign key: `rows`, with `shown`, the first of them
    for people. `keyless`: there is one in a table whose rows nothing tells apart."""

    reference: Reference
    rows: tuple[RowId, ...]
    shown: tuple[str, ...]
    keyless: bool = False


@dataclass(frozen=True, slots=True)
class NeededParent:
    """A row that another must refer to when it is taken back: `there` in production now, or `given` by the
    steps that take back these rows. `shown` is for people."""

    shown: str
    there: bool
    given: tuple[RowId, ...] = ()


def concerned(table: ServerTable, references: Sequence[Reference], step: RowStep) -> list[Reference]:
    """The foreign keys that mind when the row is taken back."""
    if step.kind == "insert":
        return []
    if step.kind == "delete" or step.before is None or step.after is None:
        return list(references)
    changed = {column.name for column in reverse.differing(table, step.before, step.after)}
    # A generated column has no value in a row here: it may have changed with any other.
    stored = {column.name for column in table.stored}
    return [
        reference
        for reference in references
        if any(parent in changed or parent not in stored for _, parent in reference.columns)
    ]


def covered(
    table: ServerTable, reference: Reference, step: RowStep, own: RowStep | None, *, now: bool
) -> bool:
    """Whether `own`, the step that takes back a row that refers to the one of `step`, leaves nothing of
    what the foreign key does to that row, which is of `table`.

    `now`: `step` is done first, and `own` after it; else `own` may be done first.
    """
    if own is None or own.after is None:
        return False
    if own.before is None or own is step:
        return True
    if now and step.kind == "delete" and reference.on_delete == "CASCADE":
        return False
    # It refers to another row then. If not, the log does not hold what the foreign key did to it before.
    changed = {column.name for column in reverse.differing(table, own.before, own.after)}
    return any(column in changed for column, _ in reference.columns)


def trouble(
    step: RowStep,
    found: Sequence[Referring],
    own: Mapping[RowId, RowStep],
    tables: Mapping[TableName, ServerTable],
    *,
    now: bool,
) -> str:
    """Name the rows of others that refer to the row that `step` takes back; "" for none.

    `own` are the steps that are done in the same transaction, by the rows as they are before it; `tables` are
    those of their rows. `now`: see `covered`.
    """
    for referring in found:
        table = tables.get(referring.reference.child)
        foreign = [
            shown
            for row, shown in zip(referring.rows, referring.shown, strict=True)
            if table is None or not covered(table, referring.reference, step, own.get(row), now=now)
        ]
        if not (foreign or referring.keyless):
            continue
        rule, named = referring.reference.rule(step), ", ".join(foreign[:SHOWN])
        more = f" and {len(foreign) - SHOWN} more" if len(foreign) > SHOWN else ""
        what = {"CASCADE": "go with it" if step.kind == "delete" else "get its key"}.get(rule, "lose it")
        would = f", and would {what}" if rule in ACTING else ""
        where = f"{referring.reference.child}{' ' if named else ''}{named}{more}"
        return f"rows refer to it now{would}: {where} ({referring.reference.described(step)})"
    return ""


def orphaned(needs: Sequence[NeededParent], own: Mapping[RowId, RowStep]) -> str:
    """Name the row that is missing for the others to refer to; "" for none."""
    missing = (need for need in needs if not need.there and not any(row in own for row in need.given))
    return next((f"the row that it refers to is missing: {need.shown}" for need in missing), "")


def troubled(
    steps: Sequence[tuple[RowId, RowStep]],
    found: Mapping[RowId, Sequence[Referring]],
    needs: Mapping[RowId, Sequence[NeededParent]],
    tables: Mapping[TableName, ServerTable],
) -> dict[RowId, str]:
    """The steps that cannot be taken, by their rows, and why: one that is not taken covers no other, and
    gives no other its parent."""
    own = dict(steps)
    left: dict[RowId, str] = {}
    while True:
        more = {
            row: why
            for row in own.keys() & (found.keys() | needs.keys())
            if (
                why := trouble(own[row], found.get(row, ()), own, tables, now=False)
                or orphaned(needs.get(row, ()), own)
            )
        }
        if not more:
            return left
        left |= more
        own = {row: step for row, step in own.items() if row not in more}
