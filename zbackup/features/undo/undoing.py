"""Words for taking back one transaction: the rows it wrote, and what became of them since."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zbackup.model.errors import ZbackupError
from zbackup.model.table_name import TableName


class ImagesIncomplete(ZbackupError):
    """The log does not hold all that was overwritten: a clone from before the transaction does. `tables` are
    those that the transaction changed; `by_clone` tells whether a clone is enough to take it back exactly."""

    tables: tuple[TableName, ...] = ()
    by_clone: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoWish:
    """`name` is what the transaction is called. `altered` says of tables, by their
    names in small letters, how their definition was changed since. With `fire_triggers` production's
    triggers may run for each row."""

    name: str
    altered: Mapping[str, str] = field(default_factory=dict)
    fire_triggers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneTable:
    """The result for one table, in rows: those that are `inserted` again, `updated` to what they
    were, or `deleted`, as the transaction had inserted them; those that were `already` as before it.

    `conflicts` are rows that are left alone, each in a line, of `refused` in all: they were changed since,
    or production's other rows or rules do not take them. `unlogged` says which other rows the log does not
    hold though the transaction changed them.
    """

    table: TableName
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    already: int = 0
    refused: int = 0
    conflicts: tuple[str, ...] = ()
    unlogged: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        """Count the rows that are written."""
        return self.inserted + self.updated + self.deleted

    @property
    def left(self) -> int:
        """Count what is not taken back."""
        return self.refused + len(self.unlogged)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The plan of taking back, as production is now. `transactions` is how many it takes."""

    tables: tuple[UndoneTable, ...]
    transactions: int
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        """Count the rows that are written."""
        return sum(table.changes for table in self.tables)
