"""Statements that read and write rows, as bytes. Pure.

A value is written as a literal with the character set of its column, so that what is stored is what was
read, byte by byte; MySQL reference manual, "Character Set Introducers".
"""

import re
from collections.abc import Sequence

from zbackup.engines.mysql.production.tables import GEOMETRY, Column, ServerTable, quoted_name
from zbackup.engines.mysql.server.connection import Row
from zbackup.engines.mysql.sql.quoting import byte_literal, identifier
from zbackup.model.errors import VerificationFailed
from zbackup.model.table_name import TableName

# Names of columns and zones, quotes in identifiers and zero values mean the same in both sessions. Strict: a
# value that does not fit ends the copy instead of being cut, and so does an engine that is not there. What an
# administrator has set for all sessions must neither leave out rows nor let in those without a parent.
SETTINGS = (
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,STRICT_ALL_TABLES,ALLOW_INVALID_DATES,"
    "NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', lock_wait_timeout = 5, innodb_lock_wait_timeout = 5, "
    "foreign_key_checks = 1, unique_checks = 1, sql_select_limit = 18446744073709551615, "
    "sql_big_selects = 1, sql_safe_updates = 0, sql_auto_is_null = 0, sql_quote_show_create = 1"
)

NOT_TAKEN = (1062, 1216, 1451, 1452, 1526, 1557, 1586, 1761, 1762, 3819, 4025)
"""Errors by which production's other rows or rules refuse a row: unique and foreign keys, CHECK constraints,
and partitions, none of which is for it."""
NO_PARENT = (1216, 1452)
BUSY = (1205, 1213)
"""A lock was not granted in time, or the transaction was chosen to end a deadlock."""

LONG = frozenset(
    (
        "tinytext",
        "text",
        "mediumtext",
        "longtext",
        "tinyblob",
        "blob",
        "mediumblob",
        "longblob",
        "vector",
        *GEOMETRY,
    )
)
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")
_NOT_WHOLE = 10**30
"""More than all rows of a table come to: 64 bits of each."""


def literal(column: Column, value: bytes | None) -> bytes:
    """A value as a statement takes it."""
    if value is None:
        return b"NULL"
    return _introducer(column) + byte_literal(value)


def key_literal(column: Column, value: bytes | None) -> bytes:
    """The same for comparisons, in which the text of a number would be compared as a fraction.

    Raise VerificationFailed for a number that is none.
    """
    if column.kind != "number" or value is None:
        return literal(column, value)
    if not _NUMBER.fullmatch(value):
        raise VerificationFailed(f"the clone's server gave {value[:40]!r} for a number in {column.name}")
    return value


def _introducer(column: Column) -> bytes:
    match column.kind:
        case "bytes":
            return b"_binary"
        case "text" if column.data_type == "json":
            return b"_utf8mb4"
        case "text":
            # Types such as UUID have text of plain ASCII.
            return f"_{column.charset or 'latin1'}".encode()
    return b""


def selected(columns: Sequence[Column]) -> str:
    """The columns of a SELECT."""
    return ", ".join(whole(c) if c.kind == "float" else identifier(c.name) for c in columns)


def whole(column: Column) -> str:
    """A FLOAT as it is stored: its own text has six digits. A product, as a sum has no -0."""
    return f"{identifier(column.name)} * 1e0"


def read_rows(
    table: ServerTable, columns: Sequence[Column], *, after: Row | None = None, where: str = ""
) -> bytes:
    """All rows in the key's order, behind the key `after`; in the server's own order without a key."""
    limits = ([beyond(table.key, after)] if after else []) + ([f"({where}\n)".encode()] if where else [])
    text = f"SELECT {selected(columns)} FROM {quoted_name(table.name)}"
    text += f" FORCE INDEX ({identifier(table.index)})" if table.index else ""
    condition = b" WHERE " + b" AND ".join(limits) if limits else b""
    return text.encode() + condition + order(table.key)


def read_between(table: ServerTable, columns: Sequence[Column], after: Row | None, to: Row | None) -> bytes:
    """The rows of a range of keys, in the key's order."""
    text = (
        f"SELECT {selected(columns)} FROM {quoted_name(table.name)} FORCE INDEX ({identifier(table.index)})"
    )
    return text.encode() + b" WHERE " + between(table.key, after, to) + order(table.key)


def order(key: Sequence[Column], *, last_first: bool = False) -> bytes:
    """The ORDER BY of a walk by the key."""
    way = " DESC" if last_first else ""
    return (" ORDER BY " + ", ".join(identifier(c.name) + way for c in key)).encode() if key else b""


def beyond(key: Sequence[Column], at: Row, *, less: bool = False, equal: bool = False) -> bytes:
    """The condition for keys behind `at`, or before it; `equal`: that one, too.

    Written out column by column, as servers find no range in a comparison of rows.
    """
    sign = b"<" if less else b">"
    ways = []
    for depth, (column, value) in enumerate(zip(key, at, strict=True)):
        last = b"=" if equal and depth == len(key) - 1 else b""
        name = identifier(column.name).encode()
        same = [_equal(c, v) for c, v in zip(key[:depth], at[:depth], strict=True)]
        ways.append(b" AND ".join([*same, name + b" " + sign + last + b" " + key_literal(column, value)]))
    return b"(" + b" OR ".join(b"(" + way + b")" for way in ways) + b")"


def between(key: Sequence[Column], after: Row | None, to: Row | None) -> bytes:
    """The condition for keys behind `after` up to and with `to`; None: no such end."""
    ends = [beyond(key, after)] if after else []
    ends += [beyond(key, to, less=True, equal=True)] if to else []
    return b" AND ".join(ends) or b"TRUE"


def one_of(key: Sequence[Column], rows: Sequence[Row]) -> bytes:
    """The condition for these keys."""
    if len(key) == 1:
        values = b", ".join(key_literal(key[0], row[0]) for row in rows)
        return identifier(key[0].name).encode() + b" IN (" + values + b")"
    return b"(" + b" OR ".join(b"(" + is_row(key, row) + b")" for row in rows) + b")"


def is_row(key: Sequence[Column], row: Row) -> bytes:
    """The condition for one key."""
    return b" AND ".join(_equal(c, v) for c, v in zip(key, row, strict=True))


def _equal(column: Column, value: bytes | None) -> bytes:
    return identifier(column.name).encode() + b" = " + key_literal(column, value)


def insert(name: TableName, columns: Sequence[Column], rows: Sequence[Row]) -> bytes:
    """One statement for some rows."""
    names = ", ".join(identifier(c.name) for c in columns)
    values = b",\n".join(insert_values(columns, row) for row in rows)
    return f"INSERT INTO {quoted_name(name)} ({names}) VALUES\n".encode() + values


def insert_values(columns: Sequence[Column], row: Row) -> bytes:
    """One row, in parentheses."""
    return b"(" + b",".join([literal(c, v) for c, v in zip(columns, row, strict=True)]) + b")"


def update(
    name: TableName, key: Sequence[Column], at: Row, changed: Sequence[tuple[Column, bytes | None]]
) -> bytes:
    """Give one row these values."""
    values = b", ".join(identifier(c.name).encode() + b" = " + literal(c, v) for c, v in changed)
    return b"UPDATE " + quoted_name(name).encode() + b" SET " + values + b" WHERE " + is_row(key, at)


def digest(table: TableName, columns: Sequence[Column], condition: bytes) -> bytes:
    """Return the statement that counts the rows, and gives a sum in which each value counts.

    Values are hexadecimal, numbers or times: what separates them is in none. A sum, as rows may be equal, of
    64 bits of each row's hash. A row of which a value is beyond the server's limits (max_allowed_packet) has
    none: see `is_whole`.
    """
    texts = ", '#', ".join(_digested(c) for c in columns)
    # MySQL 9.6 has MD5 no more. Servers compute an expression as often as it is named: so it is named once.
    number = f"CAST(CONV(LEFT(SHA2(CONCAT({texts}), 256), 16), 16, 10) AS UNSIGNED)"
    query = f"SELECT COUNT(*), SUM(IFNULL({number}, {_NOT_WHOLE})) FROM {quoted_name(table)} WHERE "
    return query.encode() + condition


def is_whole(found: Row) -> bool:
    """Whether every row is in the sum that `digest` asked for."""
    return int(found[1] or 0) < _NOT_WHOLE


def _digested(column: Column) -> str:
    name = identifier(column.name)
    if column.data_type == "bit":
        text = f"{name} + 0"
    elif column.kind == "float":
        text = whole(column)
    elif column.data_type == "json":
        text = f"SHA2(CAST({name} AS CHAR CHARACTER SET utf8mb4), 256)"
    elif column.data_type in LONG:
        # Twice as long in hexadecimal, it would be too long for the server where the value is not.
        text = f"SHA2({name}, 256)"
    elif column.kind == "bytes" or column.charset:
        text = f"HEX({name})"
    else:
        text = name
    # What is too long becomes NULL, and must not pass for one.
    return f"IF({name} IS NULL, '-', CONCAT(':', {text}))"


def loses_types(name: TableName, column: Column, where: str) -> bytes:
    """Return the statement that counts the values of a column of MySQL's JSON that do not come back from
    their text as they were.

    Dates, times and binary become strings, and DECIMALs lose their last zeros (MySQL reference manual, "The
    JSON Data Type").
    """
    limit = f" AND ({where}\n)" if where else ""
    return f"SELECT COUNT(*) FROM {quoted_name(name)} WHERE ({types_lost(column)}){limit}".encode()


def types_lost(column: Column) -> str:
    """The condition for these values."""
    text = f"CAST({identifier(column.name)} AS CHAR CHARACTER SET utf8mb4)"
    back = f"CAST({text} AS JSON)"
    again = f"CAST({back} AS CHAR CHARACTER SET utf8mb4)"
    return f"{identifier(column.name)} <> {back} OR BINARY {text} <> BINARY {again}"
