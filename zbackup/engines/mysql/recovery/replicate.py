"""A clone becomes a replica of production, from where its snapshot ends.

MySQL reference manual, "CHANGE REPLICATION SOURCE TO"; MariaDB's manual, "CHANGE MASTER TO".
"""

import time
from collections.abc import Mapping
from typing import Any

from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.clone.clone_server import Temporary
from zbackup.engines.mysql.recovery.covered_log import covered_files, end_of
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.cloning import SourceServer
from zbackup.model.errors import DatabaseError

CONNECTED_WITHIN_S = 60.0
POLL_S = 0.2


def follow(temporary: Temporary, source: SourceServer) -> None:
    """Start replication from the end of the clone's own copy of production's log, and wait until it flows.

    Raise DatabaseError with what the server says when it does not within a minute.
    """
    files, flavor = temporary.server.files, temporary.server.flavor
    # Those behind the newest of production's the clone has begun itself.
    last = LogPosition.parse(files.record.log_to).sequence
    covered = covered_files(files.record, files.where)
    known = [file for file in covered if LogPosition.of(file.name, 0).sequence <= last]
    start = end_of(files.record, files.where, known)
    for statement in statements(flavor, files.record.server, source, start):
        temporary.connection.execute(statement)
    _await_connection(temporary.connection, flavor)


def statements(
    flavor: str, recorded: Mapping[str, str], source: SourceServer, start: LogPosition
) -> list[str]:
    """What makes a server follow the source from there: by GTIDs where MySQL has them, else by
    position."""
    who = (literal(source.host), source.port, literal(source.user), literal(source.password()))
    if flavor == "mariadb":
        return [
            f"CHANGE MASTER TO MASTER_HOST = {who[0]}, MASTER_PORT = {who[1]}, MASTER_USER = {who[2]}, "
            f"MASTER_PASSWORD = {who[3]}, MASTER_LOG_FILE = {literal(start.file)}, "
            f"MASTER_LOG_POS = {start.offset}, MASTER_USE_GTID = no",
            "START SLAVE",
        ]
    where = f"SOURCE_LOG_FILE = {literal(start.file)}, SOURCE_LOG_POS = {start.offset}"
    if recorded.get("gtid_mode") == "ON":
        where = "SOURCE_AUTO_POSITION = 1"
    return [
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = {who[0]}, SOURCE_PORT = {who[1]}, "
        f"SOURCE_USER = {who[2]}, SOURCE_PASSWORD = {who[3]}, GET_SOURCE_PUBLIC_KEY = 1, {where}",
        "START REPLICA",
    ]


def _await_connection(connection: Connection, flavor: str) -> None:
    new = "Replica" if flavor == "mysql" else "Slave"
    statement = "SHOW REPLICA STATUS" if flavor == "mysql" else "SHOW SLAVE STATUS"
    deadline = time.monotonic() + CONNECTED_WITHIN_S
    while True:
        row: dict[str, Any] = connection.one(statement)
        said = str(row.get("Last_IO_Error") or row.get("Last_SQL_Error") or "")
        if row.get(f"{new}_IO_Running") == "Yes" and row.get(f"{new}_SQL_Running") == "Yes":
            return
        if said or time.monotonic() > deadline:
            raise DatabaseError(f"the clone cannot replicate production: {said or 'no connection in time'}")
        time.sleep(POLL_S)
