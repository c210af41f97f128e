"""Look in production for the rows that refer to those that are taken back."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zbackup.engines.mysql.production import tables
from zbackup.engines.mysql.production.tables import Column, quoted_name
from zbackup.engines.mysql.server.connection import Connection, RowConnection
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.undo.mysql import reverse
from zbackup.features.undo.mysql.changes import Unknown
from zbackup.features.undo.mysql.foreign_keys import NeededParent, Reference, Referring, RowId, concerned
from zbackup.features.undo.mysql.net_change import RowStep
from zbackup.features.undo.mysql.tables import Target
from zbackup.features.undo.mysql.values import Value
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

REMEMBERED = 10_000


@dataclass(slots=True, kw_only=True)
class ReferringRows:
    """`production` tells of tables, `rows` reads them."""

    production: Connection
    rows: RowConnection
    targets: Mapping[TableName, Target]
    _keys: dict[TableName, tuple[Column, ...]] = field(default_factory=dict)
    _parents: dict[str, bool] = field(default_factory=dict)

    def of(self, step: RowStep, *, most: int, locked: bool) -> list[Referring]:
        """The rows that refer to the one that `step` takes back, by each foreign key that minds: one more
        than `most` at most, which are too many.

        `locked`: none can be added, changed or removed before the transaction ends.
        """
        target = self.targets[step.table]
        found = []
        for reference in concerned(target.table, target.references, step):
            key = self._key(reference.child)
            where = self._condition(target, reference, step)
            query = f"SELECT {reverse.selected(key) if key else '1'} FROM {quoted_name(reference.child)} "
            query += f"WHERE {where} LIMIT {most + 1}{' LOCK IN SHARE MODE' * locked}"
            if not (rows := self.rows.read(query.encode())):
                continue
            pairs = (
                [(tuple(reverse.canonical(c, v) for c, v in zip(key, row, strict=True)), row) for row in rows]
                if key
                else []
            )
            found.append(
                Referring(
                    reference=reference,
                    rows=tuple((reference.child, canonical) for canonical, _ in pairs),
                    shown=tuple(_shown(key, row) for _, row in pairs),
                    keyless=not key,
                )
            )
        return found

    def needs(self, step: RowStep, rows: "RowsGiven") -> list[NeededParent]:
        """The rows that the one of `step` refers to when it is taken back. `rows` are given by the undo."""
        if step.before is None:
            return []
        target, found = self.targets[step.table], []
        stored = {column.name: (column, n) for n, column in enumerate(target.table.stored)}
        for key in target.parents:
            own = [stored[name] for name, _ in key.columns if name in stored]
            values = [step.before[n] for _, n in own]
            if len(own) < len(key.columns) or any(
                value is None or isinstance(value, Unknown) for value in values
            ):
                continue
            if step.after and all(reverse.same(c, step.before[n], step.after[n]) for c, n in own):
                continue
            where = " AND ".join(
                f"{identifier(parent)} = {reverse.literal(column, value)}"
                for (_, parent), (column, _), value in zip(key.columns, own, values, strict=True)
            )
            query = f"SELECT 1 FROM {quoted_name(key.parent)} WHERE {where} LIMIT 1"
            looked_up = tuple(_folded(c, v) for (c, _), v in zip(own, values, strict=True))
            found.append(
                NeededParent(
                    shown=f"{key.parent} {where} (foreign key {key.name})",
                    there=self._is_there(query),
                    given=rows.with_values(key.parent, tuple(p for _, p in key.columns), looked_up),
                )
            )
        return found

    def _is_there(self, query: str) -> bool:
        """Many rows refer to one."""
        if query not in self._parents:
            if len(self._parents) >= REMEMBERED:
                self._parents.clear()
            self._parents[query] = bool(self.rows.read(query.encode()))
        return self._parents[query]

    def _key(self, name: TableName) -> tuple[Column, ...]:
        """The columns that tell a table's rows apart, () for none."""
        if name not in self._keys:
            table = self.targets[name].table if name in self.targets else None
            table = table or tables.read_table(self.production, name)
            if table is None:
                raise Refused(f"{name} cannot be read, and its rows may refer to rows that the undo changes")
            self._keys[name] = table.key
        return self._keys[name]

    def _condition(self, target: Target, reference: Reference, step: RowStep) -> str:
        columns = {column.name: (column, n) for n, column in enumerate(target.table.stored)}
        parts = []
        for own, parent in reference.columns:
            if parent in columns:
                column, index = columns[parent]
                value = reverse.literal(column, step.after[index] if step.after else None)
            else:
                where = reverse.where(target.table, step.key)
                value = f"(SELECT {identifier(parent)} FROM {quoted_name(step.table)} WHERE {where})"
            parts.append(f"{identifier(own)} = {value}")
        return " AND ".join(parts)


@dataclass(slots=True)
class RowsGiven:
    """Rows as an undo gives them back, to be found by their values."""

    targets: Mapping[TableName, Target]
    steps: Sequence[tuple[RowId, RowStep]]
    _by: dict[tuple[TableName, tuple[str, ...]], dict[tuple[object, ...], list[RowId]]] = field(
        default_factory=dict
    )

    def with_values(
        self, table: TableName, columns: tuple[str, ...], values: tuple[object, ...]
    ) -> tuple[RowId, ...]:
        """The rows of a table that may have these values, as `_folded` gives them, in these columns."""
        if (table, columns) not in self._by:
            self._by[table, columns] = self._sorted(table, columns)
        return tuple(self._by[table, columns].get(values, ()))

    def _sorted(self, table: TableName, columns: tuple[str, ...]) -> dict[tuple[object, ...], list[RowId]]:
        found: dict[tuple[object, ...], list[RowId]] = {}
        if table not in self.targets:
            return found
        stored = {column.name: (column, n) for n, column in enumerate(self.targets[table].table.stored)}
        if not all(name in stored for name in columns):
            return found
        for row, step in self.steps:
            if step.table == table and step.before is not None:
                before = step.before
                values = tuple(_folded(stored[c][0], before[stored[c][1]]) for c in columns)
                found.setdefault(values, []).append(row)
        return found


def row_id(target: Target, step: RowStep) -> RowId:
    """The row that `step` takes back, as it is before that."""
    return step.table, reverse.canonical_key(target.table, step.key)


def _folded(column: Column, value: Value | Unknown) -> object:
    """The same for values that refer to each other in any collation, and for some that only look so: of those
    the server itself takes no row."""
    if column.kind != "text" or not isinstance(value, bytes):
        return reverse.canonical(column, value)
    letters = unicodedata.normalize("NFKD", value.decode("utf-8", "replace"))
    return "".join(c for c in letters if not unicodedata.combining(c)).casefold().rstrip()


def _shown(key: tuple[Column, ...], row: tuple[bytes | None, ...]) -> str:
    return ", ".join(
        f"{column.name}={reverse.shown(column, value)}" for column, value in zip(key, row, strict=True)
    )
