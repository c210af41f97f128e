"""Rows that the clone's server makes into lines, and that production's loads: zbackup hands on bytes. Pure.

A value costs Python more than either server. So the clone's server makes one text of many rows, in the form
that LOAD DATA takes, and production's is given that text as the file of LOAD DATA LOCAL: data, of which no
byte is a part of a statement. They go into the log as rows (both manuals, "LOAD DATA",
"GROUP_CONCAT").

A load LOCAL turns errors into warnings. So one that does not take every row without a warning is rolled back,
and its rows are written as statements: see load_rows. Text stands between quotes, as QUOTE puts it: one
function of the server's finds all that a load would take for something else.
"""

import hashlib
from collections.abc import Sequence

from zbackup.engines.mysql.production import statements
from zbackup.engines.mysql.production.tables import GEOMETRY, Column, ServerTable, quoted_name
from zbackup.engines.mysql.server.connection import Connection, Row
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.model.table_name import TableName

LONGEST = 16 << 20
"""Bytes of lines at a time. A server cuts what is longer, and its rows are written as statements."""
FASTER = "local_infile = ON and binlog_format = ROW let it load rows, which is quicker"
LONG_VALUE = 16 << 10
"""Rows with longer ones are written as statements: a line holds one value more than once while it is made."""
LINES_AT_MOST = 5000
WANTED_BYTES = 1 << 20
MOST_KEYS = 200_000
"""Production may have any number of keys in a range that has few in the clone."""

SETTING = f"SET SESSION group_concat_max_len = {LONGEST}"
AS_BYTES = "SET SESSION collation_connection = 'binary'"
"""MySQL's QUOTE gives text in the session's character set, which has no place for any bytes."""

_NOT_AS_LINES = frozenset(("bit", "vector", "uuid", "inet4", "inet6", *GEOMETRY))
"""Types whose text as a value in an expression is not what a load takes."""
_TAB, _NULL = "0x09", "0x4E554C4C"


def loads(production: Connection) -> bool:
    """Whether the server takes rows as lines, and logs them as rows."""
    asked = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('local_infile', 'binlog_format', 'log_bin')"
    found = {str(row["Variable_name"]): str(row["Value"]).upper() for row in production.rows(asked)}
    as_rows = found.get("log_bin") == "OFF" or found.get("binlog_format", "ROW") == "ROW"
    return found.get("local_infile") == "ON" and as_rows


def are_possible(table: ServerTable) -> bool:
    """Whether rows of the table can come as lines: those of a key's ranges, each all or none."""
    return (
        table.engine.lower() == "innodb"
        and bool(table.key)
        and not any(column.data_type in _NOT_AS_LINES for column in table.stored)
    )


def at_a_time(table: ServerTable) -> int:
    """Return how many rows make a portion, by the server's estimate of their length."""
    return max(1, min(LINES_AT_MOST, WANTED_BYTES // max(table.row_bytes, 1)))


def lines(table: ServerTable, condition: bytes) -> bytes:
    """Return the statement for the number of rows, of those that are no lines as they are LONG_VALUE, and for
    all of them in one text."""
    long = " OR ".join(_is_long(c) for c in table.stored if c.data_type in statements.LONG) or "NULL"
    source = f"FROM {quoted_name(table.name)} FORCE INDEX ({identifier(table.index)}) WHERE "
    return f"SELECT COUNT(*), COUNT(IF({long}, 1, NULL)), {_text(table)} {source}".encode() + condition


def proof(name: TableName, table: ServerTable, condition: bytes) -> bytes:
    """Return the statement for the number of rows that a table of the same shape has there, and for the hash
    of their lines, which are in the key's order only if that is the primary one."""
    source = f"FROM {quoted_name(name)} FORCE INDEX ({identifier(table.index)}) WHERE "
    return f"SELECT COUNT(*), SHA2({_text(table)}, 256) {source}".encode() + condition


def proves(found: Row, rows: int, made: bytes) -> bool:
    """Whether these are the rows of the lines that were `made`, the last of which has an end, too."""
    return found == (b"%d" % rows, hashlib.sha256(memoryview(made)[:-1]).hexdigest().encode())


def _text(table: ServerTable) -> str:
    values = f", {_TAB}, ".join(_value(column) for column in table.stored)
    return f"GROUP_CONCAT({values} SEPARATOR '\\n')"


def _is_long(column: Column) -> str:
    return f"LENGTH({identifier(column.name)}) > {LONG_VALUE}"


def _value(column: Column) -> str:
    name = identifier(column.name)
    if column.kind == "float":
        text = statements.whole(column)
    elif column.kind in ("text", "bytes"):
        text = f"CAST({name} AS BINARY)"
        if column.data_type == "json":
            text = f"CAST(CAST({name} AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
        if column.data_type in statements.LONG:
            text = f"IF({_is_long(column)}, NULL, {text})"
        return f"QUOTE({text})"  # NULL is the word without quotes, as a load takes it
    else:
        text = name
    return f"IFNULL({text}, {_NULL})"


def load(name: TableName, table: ServerTable) -> bytes:
    """Return the statement that takes them."""
    fields, set_ = [], []
    for number, column in enumerate(table.stored):
        if column.data_type == "json":
            # It takes text of a character set alone.
            fields.append(f"@json{number}")
            set_.append(f"{identifier(column.name)} = CONVERT(@json{number} USING utf8mb4)")
        else:
            fields.append(identifier(column.name))
    text = (
        f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {quoted_name(name)} CHARACTER SET binary "
        "FIELDS TERMINATED BY '\\t' OPTIONALLY ENCLOSED BY '\\'' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' "
        f"({', '.join(fields)})"
    )
    return (text + (f" SET {', '.join(set_)}" if set_ else "")).encode()


def are_numbers(key: Sequence[Column]) -> bool:
    """Whether keys can come as lines of numbers."""
    return len(key) == 1 and key[0].kind == "number"


def numbers(name: TableName, column: Column, condition: bytes) -> bytes:
    """Return the statement for how many numbers a range has, how long they are, and for all of them in one
    text, in no order that a server promises: for that it would hold them all in memory."""
    one = identifier(column.name)
    made = f"GROUP_CONCAT({one} SEPARATOR '\\n')"
    return f"SELECT COUNT(*), SUM(LENGTH({one})), {made} FROM {quoted_name(name)} WHERE ".encode() + condition


def split(found: Row) -> list[bytes] | None:
    """Return the numbers that this statement found; None where they are too many, or the server cut them."""
    count, length, text = int(found[0] or 0), int(found[1] or 0), found[2] or b""
    if not count:
        return []
    return text.split(b"\n") if len(text) == length + count - 1 and count <= MOST_KEYS else None


def last_of_portion(table: ServerTable, after: Row | None) -> bytes:
    """Return the statement for the last key of the next portion."""
    query = statements.read_rows(table, table.key, after=after)
    return query + f" LIMIT 1 OFFSET {at_a_time(table) - 1}".encode()
