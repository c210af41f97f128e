"""Read what a server says of a table: columns, the key to walk it by, foreign keys, triggers.

Sources: MySQL reference manual and MariaDB's, "INFORMATION_SCHEMA Tables".
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import qualified
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

ColumnKind = Literal["number", "plain", "text", "bytes", "float"]

GEOMETRY = (
    *("geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection"),
    *("multipoint", "multilinestring", "multipolygon"),
)
_BYTES = frozenset(
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit", "vector", *GEOMETRY)
)
_NUMBERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"))
# By these a table can be walked in the order of its index: comparisons and sorting agree, and a value's text
# is the value. An ENUM sorts by its number, and compares by its word.
_WALKED = _NUMBERS | {
    "char",
    "varchar",
    "binary",
    "varbinary",
    "date",
    "datetime",
    "timestamp",
    "time",
    "uuid",
}

_ENCRYPTED = re.compile(r"""\bENCRYPTION=['"]?Y|\bENCRYPTED[`"]?=['"]?(?:YES|ON|1)\b""", re.IGNORECASE)
"""MySQL before 8.0 has the letter in double quotes, MariaDB the name where the mode is ANSI_QUOTES."""

SYSTEM_SCHEMAS = ("mysql", "information_schema", "performance_schema", "sys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`charset` is "" where the value is no text of a character set. `generated`: computed by the server."""

    name: str
    type: str
    data_type: str
    charset: str = ""
    generated: bool = False

    @property
    def kind(self) -> ColumnKind:
        if self.data_type in _BYTES:
            return "bytes"
        if self.data_type in _NUMBERS:
            return "number"
        if self.data_type == "float":
            return "float"
        # JSON and types such as MariaDB's UUID take text, and no other bytes.
        is_text = self.charset or self.data_type in ("json", "uuid", "inet4", "inet6")
        return "text" if is_text else "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """A foreign key of `table` on `parent`: pairs of columns, this table's first."""

    name: str
    table: TableName
    parent: TableName
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """`event` is INSERT, UPDATE or DELETE."""

    name: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """One table or view as the server has it. `key` are the columns of the unique index `index` that it can
    be walked by, () if it has none; `rows` and `row_bytes` are the server's estimates. `encrypted`: by its
    own definition."""

    name: TableName
    type: str
    engine: str
    rows: int
    row_bytes: int
    columns: tuple[Column, ...]
    key: tuple[Column, ...] = ()
    index: str = ""
    triggers: tuple[Trigger, ...] = ()
    encrypted: bool = False

    @property
    def is_view(self) -> bool:
        return self.type == "VIEW"

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns that have to be written: the server computes the others."""
        return tuple(c for c in self.columns if not c.generated)


def in_schema(connection: Connection, schema: str, only: str = "") -> list[TableName]:
    """All tables and views of a schema, views last; `only` those of a type."""
    rows = connection.rows(
        "SELECT TABLE_NAME AS t FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s "
        "AND TABLE_TYPE <> 'SYSTEM VIEW' AND (TABLE_TYPE = %s OR %s = '') "
        "ORDER BY TABLE_TYPE = 'VIEW', TABLE_NAME",
        (schema, only, only),
    )
    return [TableName(schema, str(row["t"])) for row in rows]


def read_table(connection: Connection, name: TableName) -> ServerTable | None:
    """Return what the server says of it; None where there is none, or the account may not see it."""
    found = connection.one(
        "SELECT TABLE_TYPE AS type, ENGINE AS engine, TABLE_ROWS AS n, AVG_ROW_LENGTH AS length, "
        "CREATE_OPTIONS AS options FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (name.schema, name.table),
    )
    if not found:
        return None
    columns = _columns(connection, name)
    index, key = _key(connection, name, columns)
    return ServerTable(
        name=name,
        type=str(found["type"]),
        engine=str(found["engine"] or ""),
        rows=int(found["n"] or 0),
        row_bytes=int(found["length"] or 0),
        columns=columns,
        key=key,
        index=index,
        triggers=_triggers(connection, name),
        encrypted=bool(_ENCRYPTED.search(_text(found["options"] or ""))),
    )


def foreign_keys(connection: Connection, name: TableName, *, of_others: bool) -> tuple[ForeignKey, ...]:
    """The foreign keys that the table has, or those of other tables that refer to it."""
    side = "REFERENCED_TABLE" if of_others else "TABLE"
    rows = connection.rows(
        "SELECT CONSTRAINT_NAME AS name, TABLE_SCHEMA AS s, TABLE_NAME AS t, COLUMN_NAME AS c, "
        "REFERENCED_TABLE_SCHEMA AS ps, REFERENCED_TABLE_NAME AS pt, REFERENCED_COLUMN_NAME AS pc "
        "FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL "
        f"AND {side}_SCHEMA = %s AND {side}_NAME = %s ORDER BY TABLE_SCHEMA, TABLE_NAME, "
        "CONSTRAINT_NAME, ORDINAL_POSITION",
        (name.schema, name.table),
    )
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((str(row["s"]), str(row["t"]), str(row["name"])), []).append(row)
    keys = (
        ForeignKey(
            name=constraint,
            table=TableName(schema, table),
            parent=TableName(str(parts[0]["ps"]), str(parts[0]["pt"])),
            columns=tuple((str(p["c"]), str(p["pc"])) for p in parts),
        )
        for (schema, table, constraint), parts in found.items()
    )
    return tuple(key for key in keys if not (of_others and key.table == name))


def index_names(connection: Connection, name: TableName) -> set[str]:
    """The names of its indexes."""
    rows = connection.rows(
        "SELECT DISTINCT INDEX_NAME AS i FROM information_schema.STATISTICS "
        "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (name.schema, name.table),
    )
    return {str(row["i"]) for row in rows}


def definition(connection: Connection, name: TableName, what: str = "TABLE") -> str:
    """Return what SHOW CREATE says of a table, view or trigger."""
    row = connection.one(f"SHOW CREATE {what} {quoted_name(name)}")
    column = "SQL Original Statement" if what == "TRIGGER" else f"Create {what.title()}"
    return str(row[column])


def quoted_name(name: TableName) -> str:
    """A table's name as statements take it, with its schema."""
    return qualified(name.schema, name.table)


def _columns(connection: Connection, name: TableName) -> tuple[Column, ...]:
    rows = connection.rows(
        "SELECT COLUMN_NAME AS name, COLUMN_TYPE AS type, DATA_TYPE AS data_type, "
        "CHARACTER_SET_NAME AS charset, COALESCE(GENERATION_EXPRESSION, '') <> '' AS made "
        "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
        "ORDER BY ORDINAL_POSITION",
        (name.schema, name.table),
    )
    return tuple(
        Column(
            name=str(row["name"]),
            type=_text(row["type"]),
            data_type=_text(row["data_type"]).lower(),
            charset=_word(row["charset"] or ""),
            generated=bool(int(row["made"])),
        )
        for row in rows
    )


def _word(value: object) -> str:
    """The clone's server is not believed: a character set's name becomes part of statements."""
    text = _text(value)
    if not re.fullmatch(r"\w*", text, re.ASCII):
        raise Refused(f"the server gave {text[:40]!r} for a character set")
    return text


def _text(value: object) -> str:
    """MySQL gives some of these as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _key(
    connection: Connection, name: TableName, columns: tuple[Column, ...]
) -> tuple[str, tuple[Column, ...]]:
    """The primary key, else a unique index without NULLs, if a table can be walked by it."""
    rows = connection.rows(
        "SELECT INDEX_NAME AS i, COLUMN_NAME AS c, SUB_PART AS part, NULLABLE AS nullable "
        "FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
        "AND NON_UNIQUE = 0 AND INDEX_TYPE = 'BTREE' "
        "ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX",
        (name.schema, name.table),
    )
    known = {column.name: column for column in columns}
    indexes: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        indexes.setdefault(str(row["i"]), []).append(row)
    for index, parts in indexes.items():
        if all(
            part["c"] in known
            and part["part"] is None
            and str(part["nullable"] or "") != "YES"
            and known[part["c"]].data_type in _WALKED
            and not known[part["c"]].generated
            for part in parts
        ):
            return index, tuple(known[part["c"]] for part in parts)
    return "", ()


def _triggers(connection: Connection, name: TableName) -> tuple[Trigger, ...]:
    rows = connection.rows(
        "SELECT TRIGGER_NAME AS name, EVENT_MANIPULATION AS event FROM information_schema.TRIGGERS "
        "WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s ORDER BY ACTION_TIMING, "
        "EVENT_MANIPULATION, ACTION_ORDER",
        (name.schema, name.table),
    )
    return tuple(Trigger(name=str(row["name"]), event=str(row["event"])) for row in rows)


def unseen(watch: Connection, name: TableName) -> set[str]:
    """Foreign keys that refer to the table, also from tables that the copies' account may not see.

    Sources: MySQL reference manual, "The INFORMATION_SCHEMA INNODB_FOREIGN Table"; MariaDB's manual,
    "Information Schema INNODB_SYS_FOREIGN Table". Both need the privilege PROCESS, and show all foreign keys;
    the standard's tables show those alone of tables on which the account has a privilege.
    """
    if "mariadb" in watch.version.lower():
        # Names are as InnoDB's files have them.
        table, parts = "INNODB_SYS_FOREIGN", ("CONVERT(CAST({} AS BINARY) USING filename)",)
    else:
        table, parts = "INNODB_FOREIGN", ("{}",)
    whole = "SUBSTRING_INDEX({}, '/', {})"

    def part(column: str, which: int) -> str:
        return parts[0].format(whole.format(column, which))

    rows = watch.rows(
        f"SELECT {part('ID', -1)} AS name, {part('FOR_NAME', 1)} AS s, {part('FOR_NAME', -1)} AS t "
        f"FROM information_schema.{table} WHERE FOR_NAME <> REF_NAME "
        f"AND {part('REF_NAME', 1)} = %s AND {part('REF_NAME', -1)} = %s",
        (name.schema, name.table),
    )
    return {f"{row['name']} of {row['s']}.{row['t']}" for row in rows}
