"""The net change of each row by a transaction, and the steps that take it back. Pure.

Rows are told apart by their keys. A transaction may change a row several times; what counts is what the row
was before the first, and after the last. Taking back goes from the last change to the first, so that rows
find their parents and no two of them need one unique value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zbackup.engines.mysql.undo.changes import UNKNOWN, Change, Row, Unknown
from zbackup.engines.mysql.undo.values import Value
from zbackup.model.copying import TableName
from zbackup.model.undoing import ImagesIncomplete

Key = tuple[Value, ...]
Kind = Literal["insert", "update", "delete"]


@dataclass(slots=True)
class Step:
    """One row that is taken back: it was `before` at the key `key_before`, and the transaction left it as
    `after` at `key`. None: there was no such row. The keys differ only if the transaction gave the row
    another."""

    table: TableName
    key: Key
    key_before: Key
    before: Row | None
    after: Row | None
    order: int = 0

    @property
    def kind(self) -> Kind:
        """The statement that takes it back."""
        if self.before is None:
            return "delete"
        return "insert" if self.after is None else "update"

    @property
    def lacks(self) -> bool:
        """Tell whether the log lacks values that are to be put back."""
        if self.before is None:
            return False
        if self.after is None:
            return UNKNOWN in self.before
        return any(b is UNKNOWN and a is not UNKNOWN for b, a in zip(self.before, self.after, strict=True))

    def completed(self, row: Row) -> "Step":
        """The step with the row as it was before the transaction, which the log holds in part only."""
        after = None if self.after is None else overlay(row, self.after)
        return Step(self.table, self.key, self.key_before, row, after, self.order)


def overlay(below: Row, above: Row) -> Row:
    """The values of `above`, and where it has none those of `below`."""
    return tuple(b if a is UNKNOWN else a for b, a in zip(below, above, strict=True))


def key_of(row: Row, places: Sequence[int], table: TableName) -> Key:
    """The row's key. Raise ImagesIncomplete where it is not whole."""
    found: list[Value] = []
    for place in places:
        value = row[place]
        if isinstance(value, Unknown):
            raise ImagesIncomplete(f"the log does not hold the keys of {table} whole")
        found.append(value)
    return tuple(found)


class NetChange:
    """Hears of each change of a transaction in its order. `keys` are the places of each table's key among its
    stored columns."""

    def __init__(self, keys: Mapping[TableName, Sequence[int]]) -> None:
        self._keys = keys
        self._steps: dict[tuple[TableName, Key], Step] = {}
        self._moved: dict[tuple[TableName, Key], Key] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._steps)

    def saw(self, change: Change) -> None:
        """Hear of the next change."""
        self._count += 1
        name, before, after = change.table, change.before, change.after
        places = self._keys[name]
        old = key_of(before, places, name) if before is not None else None
        if before is not None and after is not None:
            # What is not in the image of a row after its change is as it was.
            after = overlay(before, after)
        new = key_of(after, places, name) if after is not None else None
        if old is not None and new is not None and old != new and self._moves(name, old, new):
            self._steps[name, new] = Step(name, new, old, before, after, self._count)
            self._moved[name, old] = new
            return
        if old is not None and (new is None or new != old):
            self._write(name, old, before, None)
        if new is not None:
            self._write(name, new, before if new == old else None, after)

    def _moves(self, name: TableName, old: Key, new: Key) -> bool:
        """Tell whether a row that gets another key can be taken back as one: nothing else is known of both
        keys."""
        return not any((name, key) in known for key in (old, new) for known in (self._steps, self._moved))

    def _write(self, name: TableName, key: Key, before: Row | None, after: Row | None) -> None:
        """At this key there is `after` now. `before` is what is known of what was there until now."""
        self._split(name, key)
        known = self._steps.get((name, key))
        if known is None:
            self._steps[name, key] = Step(name, key, key, before, after, self._count)
            return
        if known.before is not None and before is not None and known.after is not None:
            # Values that were not touched until now are what they were at first.
            untouched = tuple(
                b if k is UNKNOWN and a is UNKNOWN else k
                for k, a, b in zip(known.before, known.after, before, strict=True)
            )
            known.before = untouched
        if known.after is not None and after is not None:
            after = overlay(known.after, after)
        known.after, known.order = after, self._count

    def _split(self, name: TableName, key: Key) -> None:
        """Take a row that got another key for two, as one of its keys is written again."""
        step = self._steps.get((name, self._moved.get((name, key), key)))
        if step is None or step.key == step.key_before:
            return
        del self._moved[name, step.key_before]
        was = Step(name, step.key_before, step.key_before, step.before, None, step.order)
        self._steps[name, was.key] = was
        self._steps[name, step.key] = Step(name, step.key, step.key, None, step.after, step.order)

    def steps(self) -> list[Step]:
        """Return the steps that take all of it back, in the order in which they are done."""
        left = [s for s in self._steps.values() if s.key != s.key_before or s.before != s.after]
        return sorted(left, key=lambda step: -step.order)


def in_turn(steps: Sequence[Step], firing: Iterable[TableName]) -> list[Step]:
    """Rows of tables whose triggers fire come first: what these write elsewhere need not be taken back
    again."""
    first = frozenset(firing)
    return sorted(steps, key=lambda step: step.table not in first)
