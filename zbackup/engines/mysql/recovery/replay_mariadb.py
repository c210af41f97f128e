"""Replay on MariaDB: the server on the base replicates over loopback from a server on the log source.

Giving binlogs to MariaDB as relay logs ends in a crash of the server (10.11), so a second temporary server
is started on the log source's clone and serves its binlog; `START SLAVE UNTIL MASTER_LOG_FILE` stops the
first one between two transactions (MariaDB knowledge base, "START REPLICA").
"""

from collections.abc import Callable

from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.recovery.replay import Applier, LogRange, as_sql, follow
from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.progress import Progress


def forget_replication(connection: Connection) -> None:
    """Remove every connection that came with the files: a clone must never call production's source."""
    for row in connection.rows("SHOW ALL SLAVES STATUS"):
        connection.execute(f"RESET SLAVE {as_sql(row['Connection_name'])} ALL")


def replay(
    connection: Connection,
    source: tuple[int, str, str],
    log: LogRange,
    progress: Progress,
    told: Callable[[object], None],
) -> None:
    """Apply the range from the server at `source` (loopback port, user, password); `told` as for follow.

    Raise VerificationFailed if it fails or does not stop where it must.
    """
    port, user, password = source
    connection.execute(
        f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = {as_sql(user)}, "
        f"MASTER_PASSWORD = {as_sql(password)}, MASTER_LOG_FILE = {as_sql(log.start.file)}, "
        f"MASTER_LOG_POS = {log.start.offset}, MASTER_USE_GTID = no, MASTER_SSL = 0, "
        f"MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_CONNECT_RETRY = 1"
    )
    connection.execute(
        f"START SLAVE UNTIL MASTER_LOG_FILE = {as_sql(log.stop.file)}, MASTER_LOG_POS = {log.stop.offset}"
    )
    follow(lambda: look(connection), log, progress, told)
    connection.execute("STOP SLAVE")
    connection.execute("RESET SLAVE ALL")


def look(connection: Connection) -> Applier:
    """Tell where the applier is, in the log source's terms."""
    row = connection.one("SHOW SLAVE STATUS")
    position = None
    if row["Relay_Master_Log_File"]:
        position = LogPosition.of(row["Relay_Master_Log_File"], int(row["Exec_Master_Log_Pos"]))
    return Applier(
        running=row["Slave_SQL_Running"] == "Yes",
        # Both are NULL while their threads are starting or ending.
        idle=str(row["Slave_SQL_Running_State"]).startswith("Slave has read all relay log")
        and str(row["Slave_IO_State"]).startswith("Waiting for master to send event"),
        position=position,
        error=str(row["Last_SQL_Error"] or row["Last_IO_Error"] or ""),
    )
