"""The contents of a server, to compare one with another."""

import re
from typing import Any

from tests.system.house import Connection

Portrait = dict[str, Any]
Rows = tuple[tuple[Any, ...], ...]

_SYSTEM = "('mysql','information_schema','performance_schema','sys')"
_LEFT_OUT = re.compile(r" AUTO_INCREMENT=\d+| USING HASH")

# Their status is not compared: see the stories.
_EVENTS = (
    "SELECT EVENT_SCHEMA, EVENT_NAME, DEFINER, TIME_ZONE, EVENT_DEFINITION, EVENT_TYPE, EXECUTE_AT,"
    " INTERVAL_VALUE, INTERVAL_FIELD, SQL_MODE, STARTS, ENDS, ON_COMPLETION, CHARACTER_SET_CLIENT,"
    " COLLATION_CONNECTION, DATABASE_COLLATION FROM information_schema.EVENTS"
)


def portrait(connection: "Connection[Any]") -> Portrait:
    """Rows by checksum, definitions, accounts and how many transactions are in doubt.

    A MEMORY table is empty whenever a server starts, so those are compared by definition, without USING HASH,
    which is what they use anyway. The next value of AUTO_INCREMENT is left out: rolled back rows count at the
    origin only. A table with a multi-valued index has another checksum each time: its rows are read.
    """
    found = _tables(connection) | _programs(connection) | _accounts(connection)
    for schema, name, *rest in ask(connection, _EVENTS):
        found[f"event {schema}.{name}"] = rest
    found["in doubt"] = len(ask(connection, "XA RECOVER"))
    return found


def ask(connection: "Connection[Any]", query: str) -> Rows:
    """All rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return tuple(cursor.fetchall())


def _tables(connection: "Connection[Any]") -> Portrait:
    found: Portrait = {}
    for (schema,) in ask(
        connection,
        f"SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN {_SYSTEM}",
    ):
        found[f"schema {schema}"] = ask(connection, f"SHOW CREATE DATABASE `{schema}`")
    for schema, table, engine in ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA NOT IN {_SYSTEM}",
    ):
        name = f"`{schema}`.`{table}`"
        definition = ask(connection, f"SHOW CREATE TABLE {name}")[0][1]
        found[f"table {name}"] = _LEFT_OUT.sub("", str(definition))
        if table == "mv":
            found[f"rows of {name}"] = ask(connection, f"SELECT * FROM {name} ORDER BY 1")
        elif engine and engine != "MEMORY":
            found[f"rows of {name}"] = ask(connection, f"CHECKSUM TABLE {name} EXTENDED")[0][1]
    return found


def _programs(connection: "Connection[Any]") -> Portrait:
    """Routines and triggers."""
    found: Portrait = {}
    for schema, name, kind in ask(
        connection,
        "SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE FROM information_schema.ROUTINES"
        f" WHERE ROUTINE_SCHEMA NOT IN {_SYSTEM}",
    ):
        found[f"{kind} {schema}.{name}"] = ask(connection, f"SHOW CREATE {kind} `{schema}`.`{name}`")
    for schema, name in ask(
        connection, "SELECT TRIGGER_SCHEMA, TRIGGER_NAME FROM information_schema.TRIGGERS"
    ):
        if schema != "sys":
            # The last column is when it was made.
            made = ask(connection, f"SHOW CREATE TRIGGER `{schema}`.`{name}`")
            found[f"trigger {schema}.{name}"] = made[0][:6]
    return found


def _accounts(connection: "Connection[Any]") -> Portrait:
    found: Portrait = {}
    for user, host in ask(connection, "SELECT user, host FROM mysql.user WHERE user NOT LIKE 'mysql.%'"):
        account = f"'{user}'@'{host}'" if host else f"'{user}'"
        found[f"account {account}"] = ask(connection, f"SHOW GRANTS FOR {account}")
    return found
