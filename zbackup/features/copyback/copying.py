"""Words for copying tables or collections out of a clone, back into production."""

from dataclasses import dataclass
from typing import Literal

from zbackup.model.table_name import TableName

Action = Literal["new", "beside", "replace", "rows", "view"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWish:
    """The wish that a copy fulfils.

    `into` None: beside a table of the same name, or under its own name where production has none; with
    "*" for its table, another schema. `replace` exchanges production's table, and keeps the old one.
    `missing` and `changed` change rows of production's own table: those whose key it lacks, and those that
    differ. `where` is a condition on the clone's rows. `bare`: without triggers and foreign keys;
    `fire_triggers`: those of production's table may run for each row that is put back. `moment` and `clone`,
    its identity, make the names of what is kept or unfinished. `given`: people have a login in the clone, or
    had one in that from which it was made.
    """

    tables: tuple[TableName, ...]
    into: TableName | None = None
    replace: bool = False
    missing: bool = False
    changed: bool = False
    where: str = ""
    bare: bool = False
    fire_triggers: bool = False
    moment: str = ""
    clone: str = ""
    given: bool = False

    @property
    def schemas(self) -> tuple[str, ...]:
        """Return the schemas of production that it writes to."""
        return tuple(dict.fromkeys((self.into or name).schema for name in self.tables))

    @property
    def rows(self) -> bool:
        """Whether rows are put into the table that production has."""
        return self.missing or self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """One table's part of a copy. `statements` are what production is told, in order, for people: where rows
    are written, their shape. `kept` is the name under which the old table stays, `rows` an estimate.
    `resumed`: an earlier run began it. `overwrites`: a view of that name is there."""

    source: TableName
    into: TableName
    action: Action
    statements: tuple[str, ...]
    rows: int = 0
    kept: TableName | None = None
    resumed: bool = False
    overwrites: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """The steps that a copy would take, in order."""

    steps: tuple[CopyStep, ...]
    notes: tuple[str, ...] = ()

    @property
    def overwrites(self) -> bool:
        """Whether rows, tables or views that production has are exchanged for others."""
        return any(step.action in ("replace", "rows") or step.overwrites for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """The differences of one row, for people: its key, and each value in production and in the clone."""

    key: str
    values: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of production's rows from the clone's: how many rows it lacks, how many differ (None:
    those that it has were not compared), and examples. It gets those that it lacks if the copy `inserts`."""

    missing: int
    changed: int | None
    inserts: bool = True
    examples: tuple[RowChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """The result of a step. `conflicts` are rows that production did not take, each in a line, of `refused`
    in all."""

    source: TableName
    into: TableName
    action: Action
    inserted: int = 0
    updated: int = 0
    kept: TableName | None = None
    verified: bool = False
    refused: int = 0
    conflicts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
