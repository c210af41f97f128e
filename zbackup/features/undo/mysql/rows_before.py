"""Rows as they were before a transaction of which the log does not hold them whole, out of a clone that was
restored to just before it.

With binlog_row_image=MINIMAL or NOBLOB an image lacks columns: of a row before its change those that do not
tell it apart, of a changed row those that the statement did not set, of a new row those that the INSERT did
not name, which have their defaults (MySQL reference manual, "binlog_row_image"; MariaDB's likewise).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zbackup.engines.mysql.production import statements, tables
from zbackup.engines.mysql.production.tables import quoted_name
from zbackup.engines.mysql.server.connection import Connection, RowConnection
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.undo.mysql import reverse
from zbackup.features.undo.mysql.changes import UNKNOWN, Change, Row, Unknown
from zbackup.features.undo.mysql.json_binary import Untold
from zbackup.features.undo.mysql.net_change import Key, key_of
from zbackup.features.undo.mysql.put_back import PORTION, rows_at
from zbackup.features.undo.mysql.tables import Target
from zbackup.model.errors import DatabaseError, Refused, VerificationFailed
from zbackup.model.table_name import TableName

SCRATCH: Final = TableName("zbackup_undo", "as_new")
_LAX: Final = "SET SESSION sql_mode = ''"
_LITERAL: Final = re.compile(
    r"NULL|'.*'|[-+]?[0-9.]+(e[-+]?\d+)?|b'[01]*'|x'[0-9a-f]*'|0x[0-9a-f]*", re.I | re.S
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneSessions:
    """Sessions with the clone's server, and the tables as production has them."""

    session: Connection
    rows: RowConnection
    targets: dict[TableName, Target] = field(default_factory=dict)

    def require_unaltered(self) -> None:
        """Raise Refused for a table that had other columns before the transaction."""
        for name, target in self.targets.items():
            there = tables.read_table(self.session, name)
            if there is None or there.columns != target.table.columns:
                raise Refused(
                    f"the columns of {name} are others than before the transaction: it was altered since"
                )

    def defaults(self, name: TableName) -> Row:
        """The values that a new row has where its INSERT names no others; UNKNOWN where an expression gives
        them. Raise Refused where the server does not say."""
        computed = self._computed(name)
        stored = self.targets[name].table.stored
        plain = [column for column in stored if column.name not in computed]
        if not plain:
            return (UNKNOWN,) * len(stored)
        try:
            self.session.execute(f"CREATE DATABASE IF NOT EXISTS {identifier(SCRATCH.schema)}")
            self.session.execute(f"DROP TABLE IF EXISTS {quoted_name(SCRATCH)}")
            self.session.execute(f"CREATE TABLE {quoted_name(SCRATCH)} LIKE {quoted_name(name)}")
            self.session.execute(_LAX)
            self.session.execute(f"INSERT INTO {quoted_name(SCRATCH)} () VALUES ()")
            query = f"SELECT {reverse.selected(plain)} FROM {quoted_name(SCRATCH)}"
            (made,) = self.rows.read(query.encode())
        except (DatabaseError, ValueError) as failure:
            raise Refused(
                f"the log does not hold all of the rows that were inserted into {name} (binlog_row_image), "
                f"and what its columns have by default cannot be told: {failure}"
            ) from failure
        finally:
            self.session.execute(statements.SETTINGS)
        known = dict(zip((column.name for column in plain), made, strict=True))
        return tuple(known.get(column.name, UNKNOWN) for column in stored)

    def _computed(self, name: TableName) -> frozenset[str]:
        """The columns whose default is no constant."""
        found = self.session.rows(
            "SELECT COLUMN_NAME AS c, COLUMN_DEFAULT AS d, EXTRA AS e FROM information_schema.COLUMNS "
            "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            (name.schema, name.table),
        )
        mariadb = "mariadb" in self.session.version.lower()
        return frozenset(
            str(row["c"])
            for row in found
            if "DEFAULT_GENERATED" in str(row["e"]).upper()
            or (mariadb and row["d"] is not None and not _LITERAL.fullmatch(str(row["d"])))
        )


@dataclass(slots=True)
class RowsBefore:
    """The clone's rows at the keys that a transaction names."""

    clone: CloneSessions
    _rows: dict[TableName, dict[tuple[object, ...], Row]] = field(default_factory=dict)
    _wanted: dict[TableName, dict[tuple[object, ...], Key]] = field(default_factory=dict)
    lacking: set[TableName] = field(default_factory=set)
    """Tables into which rows were inserted that the log does not hold whole."""

    def __len__(self) -> int:
        return sum(map(len, self._wanted.values()))

    def saw(self, change: Change) -> None:
        """Hear of a change: the row that it is about has to be read."""
        name = change.table
        target = self.clone.targets[name]
        if change.before is not None:
            key = key_of(change.before, target.key, name)
            self._wanted.setdefault(name, {})[reverse.canonical_key(target.table, key)] = key
        elif UNKNOWN in (change.after or ()):
            self.lacking.add(name)

    def read(self) -> int:
        """Read all of them; how many bytes they have."""
        size = 0
        for name, wanted in self._wanted.items():
            keys, there = list(wanted.items()), self._rows.setdefault(name, {})
            for start in range(0, len(keys), PORTION):
                some = dict(keys[start : start + PORTION])
                found = rows_at(self.clone.rows, self.clone.targets[name], some, locked=False)
                there.update(self._marked(name, found, some.values()))
                size += sum(len(v) for row in found.values() for v in row if isinstance(v, bytes))
        return size

    def __call__(self, name: TableName, key: Key) -> Row:
        """The row with this key. Raise VerificationFailed if the clone has none."""
        table = self.clone.targets[name].table
        row = self._rows.get(name, {}).get(reverse.canonical_key(table, key))
        if row is None:
            raise VerificationFailed(
                f"the clone has no row of {name} with {reverse.shown_key(table, key)}, which the "
                "transaction changed"
            )
        return row

    def _marked(
        self, name: TableName, found: Mapping[tuple[object, ...], Row], keys: Iterable[Key]
    ) -> Mapping[tuple[object, ...], Row]:
        """The rows, with what marks documents whose text does not tell all of their types."""
        table = self.clone.targets[name].table
        documents = [column for column in table.stored if column.data_type == "json"]
        if not (documents and found):
            return found
        marked = dict(found)
        asked = " OR ".join(f"({reverse.where(table, key)})" for key in keys)
        for column in documents:
            query = f"SELECT {reverse.selected(table.key)} FROM {quoted_name(name)} WHERE "
            query += f"({statements.types_lost(column)}) AND ({asked})"
            index = table.stored.index(column)
            for key in self.clone.rows.read(query.encode()):
                at = reverse.canonical_key(table, key)
                if at in marked and (value := marked[at][index]) is not None:
                    marked[at] = _with(marked[at], index, Untold(_bytes(value)))
        return marked


def unknown_columns(steps: Sequence[Row | None], target: Target) -> list[str]:
    """The columns that some of these rows have no value for."""
    indexes = {index for row in steps if row for index, value in enumerate(row) if value is UNKNOWN}
    return [target.table.stored[index].name for index in sorted(indexes)]


def _with(row: Row, index: int, value: bytes) -> Row:
    return (*row[:index], value, *row[index + 1 :])


def _bytes(value: bytes | Unknown) -> bytes:
    return value if isinstance(value, bytes) else b""
