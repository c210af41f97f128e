"""Find tables that were altered without a word in the log, as with sql_log_bin = 0.

An applier takes rows with more or fewer columns than its table has, and leaves out what has no place (MySQL
manual, "Replication with Differing Table Definitions"). The event in front of rows tells how many columns
their table has. Where that is another number than in the base, or before, and no statement in the log names
the table in between, the change was not logged.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.compressed import inner_events
from zbackup.engines.mysql.binlog.contents import Contents, kinds_of, read_contents
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    HEADER_SIZE,
    SHAPE,
    TABLE_MAP,
    TRANSACTION_PAYLOAD,
    Buffer,
)
from zbackup.engines.mysql.binlog.reader import opened
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.table_map import POST_HEADER, number, read_name
from zbackup.engines.mysql.recovery.packets import has_text
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.errors import Refused
from zbackup.model.log import LogPosition
from zbackup.model.table_name import EVERY_TABLE, joined, separated

_OWN_SCHEMAS: Final = ("mysql", "sys", "information_schema", "performance_schema")
_HEAD: Final = 600
"""Bytes at the beginning of a table map that hold the names and the number of columns."""


class _Tables:
    """The number of columns of each table, by schema.table: the base's, until a statement names the table."""

    def __init__(self, of_base: Callable[[str, str], int | None]) -> None:
        self._of_base = of_base
        self._columns: dict[str, dict[str, int]] = {}
        self._tables: set[str] = set()
        self._schemas: set[str] = set()

    def before(self, schema: str, table: str, columns: int) -> int:
        """How many columns the table had up to now; these where nobody knows."""
        there = self._columns.setdefault(table.casefold(), {})
        name = joined(schema, table)
        if name not in there:
            changed = table.casefold() in self._tables or schema.casefold() in self._schemas
            there[name] = columns if changed else self._of_base(schema, table) or columns
        return there[name]

    def changed(self, contents: Contents) -> None:
        """Forget the tables whose definition a statement may have changed, in whichever schema."""
        for name in (name for name, mask in contents.tables.items() if "ddl" in kinds_of(mask)):
            schema, table = (part.casefold() for part in separated(name))
            if table == EVERY_TABLE:
                self._schemas.add(schema)
                for there in self._columns.values():
                    for known in [n for n in there if separated(n)[0].casefold() == schema]:
                        del there[known]
                continue
            self._tables.add(table)
            self._columns.pop(table, None)


def require_all_logged(connection: Connection, log: LogRange, heard: Callable[[Contents], None]) -> None:
    """Raise Refused when rows that would be replayed are of a table with other columns than the server's.

    `heard` is told of each transaction that has statements.
    """
    tables = _Tables(partial(_columns, connection))
    for path in log.files:
        limit = log.stop.offset if path.name == log.stop.file else log.torn.get(path.name)
        with opened(path, limit) as scanner:
            start = log.start.offset if path.name == log.start.file else FIRST_EVENT
            for begin, end, _ in scanner.spans(start):
                _look(tables, scanner, path, (begin, end), heard)


def _look(
    tables: _Tables,
    scanner: Scanner,
    path: Path,
    span: tuple[int, int],
    heard: Callable[[Contents], None],
) -> None:
    if has_text(scanner.data, span, scanner.trailer):
        contents = read_contents(scanner, span)
        tables.changed(contents)
        heard(contents)
    for schema, table, columns in _maps(scanner.data, *span, scanner.trailer):
        if (before := tables.before(schema, table, columns)) != columns:
            raise Refused(_told(joined(schema, table), (before, columns), scanner, path, span))


def _told(name: str, columns: tuple[int, int], scanner: Scanner, path: Path, span: tuple[int, int]) -> str:
    subject = scanner.gtid(span[0]) or str(LogPosition.of(path.name, span[0]))
    return (
        f"{name} has {columns[1]} columns in {subject} and had {columns[0]} before, but no logged "
        "statement changed it (was sql_log_bin = 0?): rows would lack values. Start from a backup taken "
        f"after that change (--base), or restore to before it (--before {subject})"
    )


def _maps(data: Buffer, at: int, end: int, trailer: int) -> Iterator[tuple[str, str, int]]:
    """The tables of which rows follow, each with its number of columns."""
    unpack = SHAPE.unpack_from
    while at + HEADER_SIZE <= end:
        kind, size, _ = unpack(data, at)
        if kind == TABLE_MAP:
            body = data[at + HEADER_SIZE : min(at + size - trailer, at + HEADER_SIZE + _HEAD)]
            # What cannot be read ends the replay by itself.
            with suppress(ValueError, LookupError):
                schema, second = read_name(body, POST_HEADER)
                table, behind = read_name(body, second)
                if schema not in _OWN_SCHEMAS:
                    yield schema, table, number(body, behind)[0]
        elif kind == TRANSACTION_PAYLOAD:
            with suppress(ValueError, LookupError):
                for inner in inner_events(data[at + HEADER_SIZE : at + size - trailer], _HEAD + HEADER_SIZE):
                    yield from _maps(inner, 0, len(inner), 0)
        at += max(size, HEADER_SIZE)


def _columns(connection: Connection, schema: str, table: str) -> int | None:
    """The number of columns that a server's table has in its log; None where it does not tell.

    Asked for its columns, a sequence of MariaDB's is opened, and an applier then fails at it (11.8.9). A long
    unique key of MariaDB's has a column of its own that is not shown, and a versioned table may have two.
    """
    where = f"TABLE_SCHEMA = {literal(schema)} AND TABLE_NAME = {literal(table)}"
    kinds = connection.rows(f"SELECT TABLE_TYPE AS kind FROM information_schema.TABLES WHERE {where}")
    if [row["kind"] for row in kinds] != ["BASE TABLE"]:
        return None
    keys = connection.rows(f"SELECT INDEX_TYPE AS kind FROM information_schema.STATISTICS WHERE {where}")
    if any(row["kind"] == "HASH" for row in keys):
        return None
    return int(connection.one(f"SELECT COUNT(*) AS n FROM information_schema.COLUMNS WHERE {where}")["n"])
