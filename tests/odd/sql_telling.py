"""Tells the worlds of a MySQL or MariaDB server, and takes the picture that a clone is compared with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql

from tests.lab.mysql_fixture import DatabaseServer
from tests.odd.sql_worlds import SQL_WORLDS
from tests.odd.worlds import LAST, Act, Stage

_WITH_GTIDS = {1785, 1786, 1787}
"""What enforce_gtid_consistency forbids: production fails there, too."""

_OWN = "LEFT({}, 2) = 'w_'"
_PICTURES = {
    "tables": (
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COLLATION, CREATE_OPTIONS, TABLE_COMMENT "
        f"FROM information_schema.TABLES WHERE {_OWN.format('TABLE_SCHEMA')} ORDER BY 1, 2"
    ),
    "columns": (
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, COLUMN_DEFAULT, IS_NULLABLE,"
        " COLUMN_TYPE, COLLATION_NAME, COLUMN_KEY, EXTRA, GENERATION_EXPRESSION FROM"
        f" information_schema.COLUMNS WHERE {_OWN.format('TABLE_SCHEMA')} ORDER BY 1, 2, 4"
    ),
    "indexes": (
        "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE, INDEX_TYPE "
        f"FROM information_schema.STATISTICS WHERE {_OWN.format('TABLE_SCHEMA')} ORDER BY 1, 2, 3, 4"
    ),
    "triggers": (
        "SELECT TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_ORDER,"
        " ACTION_STATEMENT, ACTION_TIMING, SQL_MODE, DEFINER FROM information_schema.TRIGGERS WHERE"
        f" {_OWN.format('TRIGGER_SCHEMA')} ORDER BY 1, 2"
    ),
    "routines": (
        "SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE, ROUTINE_DEFINITION, SQL_MODE, ROUTINE_COMMENT,"
        f" DEFINER FROM information_schema.ROUTINES WHERE {_OWN.format('ROUTINE_SCHEMA')} ORDER BY 1, 2, 3"
    ),
    "events": (
        "SELECT EVENT_SCHEMA, EVENT_NAME, EVENT_DEFINITION, INTERVAL_VALUE, SQL_MODE, EVENT_COMMENT,"
        f" DEFINER, TIME_ZONE FROM information_schema.EVENTS WHERE {_OWN.format('EVENT_SCHEMA')} ORDER BY"
        " 1, 2"
    ),
    "views": (
        "SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION, CHECK_OPTION, DEFINER, SECURITY_TYPE FROM "
        f"information_schema.VIEWS WHERE {_OWN.format('TABLE_SCHEMA')} ORDER BY 1, 2"
    ),
    "partitions": (
        "SELECT TABLE_SCHEMA, TABLE_NAME, PARTITION_NAME, PARTITION_METHOD, PARTITION_EXPRESSION, "
        "PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE PARTITION_NAME IS NOT NULL AND "
        f"{_OWN.format('TABLE_SCHEMA')} ORDER BY 1, 2, PARTITION_ORDINAL_POSITION"
    ),
    "foreign keys": (
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_NAME, UPDATE_RULE,"
        " DELETE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE"
        f" {_OWN.format('CONSTRAINT_SCHEMA')} ORDER BY 1, 2, 3"
    ),
    "schemas": (
        "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA "
        f"WHERE {_OWN.format('SCHEMA_NAME')} ORDER BY 1"
    ),
}
_ACCOUNTS = {
    "mysql": (
        "SELECT User, Host, plugin, HEX(authentication_string), account_locked FROM mysql.user "
        f"WHERE {_OWN.format('User')} ORDER BY 1, 2"
    ),
    "mariadb": f"SELECT User, Host, Priv FROM mysql.global_priv WHERE {_OWN.format('User')} ORDER BY 1, 2",
}


class Session:
    """A client that stays, as long as its server does."""

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._connection: pymysql.connections.Connection[Any] | None = None

    def connect(self) -> None:
        """Begin anew."""
        self._connection = self._server.connect()
        limit = ", max_statement_time = 0" if self._server.settings.kind == "mariadb" else ""
        self.execute(f"SET SESSION wait_timeout = 28800, lock_wait_timeout = 30{limit}")

    def close(self) -> None:
        """End."""
        if self._connection is not None and self._connection.open:
            self._connection.close()

    def ready(self) -> None:
        """Go on, or begin anew where the server was away."""
        if self._connection is not None:
            try:
                self._connection.ping(reconnect=False)
                return
            except pymysql.MySQLError:
                pass
        self.connect()

    def execute(self, statement: str | bytes) -> list[tuple[Any, ...]]:
        """Returns the rows of the first answer."""
        assert self._connection is not None
        with self._connection.cursor() as cursor:
            cursor.execute(statement)  # type: ignore[arg-type]
            rows = list(cursor.fetchall())
            while cursor.nextset():
                cursor.fetchall()
        return rows


class SqlTelling:
    """The worlds `names` of one server, each with a session of its own."""

    def __init__(self, server: DatabaseServer, names: Sequence[str], outside: Path) -> None:
        self._server, self._names, self._outside = server, names, outside
        self._sessions = {name: Session(server) for name in names}
        self._kept: dict[str, dict[str, Any]] = {name: {} for name in names}

    def stage(self, number: int) -> None:
        """Tell a stage of all worlds."""
        for name in self._names:
            session = self._sessions[name]
            session.ready()
            for act in SQL_WORLDS[name].acts(number):
                try:
                    self._act(act, name, session, number)
                except pymysql.MySQLError as failed:
                    if number == LAST:
                        break  # only what of it is in the log counts
                    raise AssertionError(f"{name}, stage {number}: {act!r}: {failed}") from failed

    def _act(self, act: Act, name: str, session: Session, number: int) -> None:
        def run(statement: str | bytes) -> list[tuple[Any, ...]]:
            if isinstance(statement, bytes):
                return session.execute(statement)
            text = statement.removeprefix("? ").replace("{n}", str(number))
            try:
                return session.execute(text)
            except pymysql.MySQLError as failed:
                if not statement.startswith("? ") and failed.args[0] not in _WITH_GTIDS:
                    raise
                return []

        if callable(act):
            kept = self._kept[name]
            act(
                Stage(
                    number=number,
                    session=session,
                    server=self._server,
                    outside=self._outside,
                    kept=kept,
                    run=run,
                )
            )
        else:
            run(act)

    def picture(self) -> dict[str, Any]:
        """What the worlds have made of the server by now."""
        with self._server.connect() as connection:
            return picture(connection, self._names, self._server.settings.kind)

    def end(self) -> None:
        """All sessions end."""
        for session in self._sessions.values():
            session.close()


def picture(
    connection: "pymysql.connections.Connection[Any]", names: Sequence[str], kind: str
) -> dict[str, Any]:
    """Definitions, checksums and answers by what was asked; nothing where no world was told."""
    if not names:
        return {}
    asked = {**_PICTURES, "accounts": _ACCOUNTS[kind]}
    asked |= {question: question for name in names for question in SQL_WORLDS[name].asks}
    found = {name: _answer(connection, question) for name, question in asked.items()}
    tables = [row[:2] for row in found["tables"] if row[2] in ("BASE TABLE", "SYSTEM VERSIONED")]
    for schema, table in tables:
        quoted = f"`{schema}`.`" + str(table).replace("`", "``") + "`"
        # MySQL's checksum of JSON says something else each time.
        json = any(row[:2] == (schema, table) and row[6] == "json" for row in found["columns"])
        question = f"SELECT * FROM {quoted} ORDER BY 1" if json else f"CHECKSUM TABLE {quoted}"
        found[f"content of {quoted}"] = _answer(connection, question)
    return found


def _answer(connection: "pymysql.connections.Connection[Any]", question: str) -> Any:
    try:
        with connection.cursor() as cursor:
            cursor.execute(question)
            return list(cursor.fetchall())
    except pymysql.MySQLError as failed:
        return f"error {failed.args[0]}"
