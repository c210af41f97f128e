"""The net change of each row by a transaction, and the steps that take it back. Pure.

A transaction is a map from keys to rows, as they were before it and as it left them: each change of the log
is done to that map in its order, as the server did it. Taking back goes from the last change to the first, so
that rows find their parents and no two of them need one unique value.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zbackup.features.undo.mysql.changes import UNKNOWN, Change, Row, Unknown, never_whole
from zbackup.features.undo.mysql.values import Value
from zbackup.model.table_name import TableName

Key = tuple[Value, ...]
Kind = Literal["insert", "update", "delete"]
RowKey = tuple[TableName, Key]
RowBefore = Callable[[TableName, Key], Row | None]
"""Gives what is known of a row as it was before the transaction, beyond what the log holds."""


@dataclass(frozen=True, slots=True)
class RowStep:
    """One row that is taken back: it was `before` at the key `key_before`, and the transaction left it as
    `after` at `key`. None: there was no such row. The keys differ only if the transaction gave the row
    another."""

    table: TableName
    key: Key
    key_before: Key
    before: Row | None
    after: Row | None

    @property
    def kind(self) -> Kind:
        """The statement that takes it back."""
        if self.before is None:
            return "delete"
        return "insert" if self.after is None else "update"


def overlay(below: Row, above: Row) -> Row:
    """The values of `above`, and where it has none those of `below`."""
    return tuple(b if a is UNKNOWN else a for b, a in zip(below, above, strict=True))


def key_of(row: Row, columns: Sequence[int], table: TableName) -> Key:
    """The row's key. Raise ImagesIncomplete where it is not whole."""
    found: list[Value] = []
    for column in columns:
        value = row[column]
        if isinstance(value, Unknown):
            raise never_whole(f"the log does not hold the keys of {table} whole")
        found.append(value)
    return tuple(found)


def nothing_known(_: TableName, __: Key) -> Row | None:
    """The log alone tells what rows were."""
    return None


class NetChange:
    """Hears of each change of a transaction in its order. `keys` are the columns of each table's key among
    its stored columns; `row_before` and `new` complete what the log does not hold: rows as they were before
    it, and what a new row of a table has in columns that its INSERT did not name."""

    def __init__(
        self,
        keys: Mapping[TableName, Sequence[int]],
        row_before: RowBefore = nothing_known,
        new: Mapping[TableName, Row] | None = None,
    ) -> None:
        self._keys = keys
        self._row_before = row_before
        self._new = new or {}
        self._was: dict[RowKey, Row | None] = {}
        self._now: dict[RowKey, Row | None] = {}
        self._came_from: dict[RowKey, Key] = {}
        """Keys that rows had before the transaction, of those that were there then."""
        self._last: dict[RowKey, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._was)

    def saw(self, change: Change) -> None:
        """Hear of the next change. Raise ValueError for one of a row that is not there."""
        self._count += 1
        name, columns = change.table, self._keys[change.table]
        row, origin = self._new.get(name), None
        if change.before is not None:
            row, origin = self._take((name, key_of(change.before, columns, name)), change.before)
        if change.after is None:
            return
        # What is not in the image of a row after its change is as it was.
        after = change.after if row is None else overlay(row, change.after)
        at = name, key_of(after, columns, name)
        self._was.setdefault(at, None)
        self._now[at], self._last[at] = after, self._count
        if origin is not None:
            self._came_from[at] = origin

    def _take(self, at: RowKey, image: Row) -> tuple[Row, Key | None]:
        """The row that goes from this key, and the one that it had before the transaction."""
        if at not in self._now:
            below = self._row_before(*at)
            self._was[at] = self._now[at] = image if below is None else overlay(below, image)
            self._came_from[at] = at[1]
        row = self._now[at]
        if row is None:
            raise ValueError(f"a row of {at[0]} is changed that an earlier change has removed")
        self._now[at], self._last[at] = None, self._count
        return overlay(row, image), self._came_from.pop(at, None)

    def steps(self) -> list[RowStep]:
        """Return the steps that take all of it back, in the order in which they are done."""
        moved = dict(self._moved())
        gone = {(at[0], origin) for at, origin in moved.items()}
        found = []
        for at, was in self._was.items():
            now = self._now[at]
            if at in moved:
                origin = moved[at]
                found.append((at, RowStep(at[0], at[1], origin, self._was[at[0], origin], now)))
            elif at not in gone and was != now:
                found.append((at, RowStep(at[0], at[1], at[1], was, now)))
        return [step for at, step in sorted(found, key=lambda pair: -self._last[pair[0]])]

    def _moved(self) -> Iterator[tuple[RowKey, Key]]:
        """Rows that have another key now, where neither of the two keys was another row's."""
        for at, origin in self._came_from.items():
            old = at[0], origin
            if origin != at[1] and self._was[at] is None and self._now[old] is None:
                yield at, origin


def in_turn(steps: Sequence[RowStep], firing: Iterable[TableName]) -> list[RowStep]:
    """Rows of tables whose triggers fire come first: what these write elsewhere need not be taken back
    again."""
    first = frozenset(firing)
    return sorted(steps, key=lambda step: step.table not in first)
