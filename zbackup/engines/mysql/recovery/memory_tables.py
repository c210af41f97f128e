"""MEMORY tables while a log is replayed: their rows are in no snapshot.

A row that the log changes but a snapshot cannot hold would end the replay ("Can't find record"), with every
InnoDB table healthy. So for as long as it takes, such tables are given to the engine BLACKHOLE: there an
applier finds every row it is told to change and keeps none, while all other tables stay under strict rules
(MySQL manual, "The BLACKHOLE Storage Engine"; ha_blackhole.cc). Afterwards they are MEMORY tables again and
empty, as after any start of a server.

That is done where the log holds rows. A log of statements needs what was in the table since the snapshot:
there nothing is set aside, and a statement that reads such a table gives what it finds.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from zbackup.engines.mysql.server.connection import Connection, StatementFailed
from zbackup.engines.mysql.sql.quoting import literal, qualified
from zbackup.model.event_log import log
from zbackup.model.record import Record

# Survives renaming the table and CREATE TABLE ... LIKE.
MARK = "zbackup: MEMORY; "


@contextmanager
def set_aside(
    connection: Connection,
    record: Record,
    watched: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Iterator[None]:
    """While the body replays, no MEMORY table can stop it; see above. Leaves no trace in the server's log.

    The server is `watched` while it is waited for here.
    """
    with watched():
        tables = _tables(connection, "MEMORY") if record.server.get("binlog_format") == "ROW" else {}
        there = bool(tables) and _has_blackhole(connection)
        loaded = bool(tables) and not there and _load_blackhole(connection)
        if there or loaded:
            connection.execute("SET SESSION sql_log_bin = 0, sql_mode = ''")
            for name, comment in tables.items():
                connection.execute(
                    f"ALTER TABLE {name} ENGINE = BLACKHOLE, COMMENT = {literal(MARK + comment)}"
                )
    yield
    if not (there or loaded):
        return
    with watched():
        for name, comment in _tables(connection, "BLACKHOLE").items():
            if name in tables or comment.startswith(MARK):
                was = literal(comment.removeprefix(MARK))
                connection.execute(f"ALTER TABLE {name} ENGINE = MEMORY, COMMENT = {was}")
        if loaded:
            connection.execute("UNINSTALL SONAME 'ha_blackhole'")


def _tables(connection: Connection, engine: str) -> dict[str, str]:
    """Users' tables of an engine, quoted, and their comments."""
    rows = connection.rows(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, TABLE_COMMENT AS c FROM information_schema.TABLES "
        "WHERE ENGINE = %s AND TABLE_TYPE = 'BASE TABLE' "
        "AND TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')",
        (engine,),
    )
    return {qualified(str(row["s"]), str(row["t"])): str(row["c"]) for row in rows}


def _has_blackhole(connection: Connection) -> bool:
    there = connection.one(
        "SELECT COUNT(*) AS n FROM information_schema.ENGINES "
        "WHERE ENGINE = 'BLACKHOLE' AND SUPPORT IN ('YES', 'DEFAULT')"
    )
    return bool(there["n"])


def _load_blackhole(connection: Connection) -> bool:
    """MariaDB may have it as a plugin that is not loaded, or not installed on this host at all."""
    try:
        connection.execute("INSTALL SONAME 'ha_blackhole'")
    except StatementFailed as missing:
        log.warning("replay.no_blackhole", reason=str(missing))
        return False
    return True
