"""Replay on MariaDB: the server on the base replicates over loopback from whoever gives it the log.

Giving binlogs to MariaDB as relay logs ends in a crash of the server (10.11), so we are its source
(replication_source). `START SLAVE UNTIL MASTER_LOG_FILE` stops it between two transactions (MariaDB
knowledge base, "START REPLICA").
"""

from collections.abc import Callable
from dataclasses import replace

from zbackup.engines.mysql.recovery.replay import Applier, LogRange, follow
from zbackup.engines.mysql.recovery.replication_source import ReplicationSource
from zbackup.engines.mysql.server.connection import Connection, whole_number
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.engines.mysql.sql.shown import error_shown
from zbackup.model.log import LogPosition
from zbackup.model.progress import Progress
from zbackup.proc.listen_beside import LOOPBACK

PATIENCE_S = 7 * 24 * 3600


def forget_replication(connection: Connection) -> None:
    """Remove every connection that came with the files: a clone must never call production's source."""
    for row in connection.rows("SHOW ALL SLAVES STATUS"):
        connection.execute(f"RESET SLAVE {literal(row['Connection_name'])} ALL")


def replay(
    connection: Connection,
    source: ReplicationSource,
    log: LogRange,
    packet: int,
    progress: Progress,
    told: Callable[[object], None],
) -> None:
    """Apply the range from the source, with this max_allowed_packet; `told` as for follow.

    Raise VerificationFailed if it fails or does not stop where it must.
    """
    # When all is sent, nothing comes for as long as it takes to apply it.
    connection.execute(f"SET GLOBAL slave_net_timeout = {PATIENCE_S}")
    connection.execute(f"SET GLOBAL slave_max_allowed_packet = {packet}")
    connection.execute(
        f"CHANGE MASTER TO MASTER_HOST = {literal(LOOPBACK)}, MASTER_PORT = {source.port}, "
        f"MASTER_USER = {literal(source.user)}, MASTER_PASSWORD = {literal(source.password)}, "
        f"MASTER_LOG_FILE = {literal(log.start.file)}, MASTER_LOG_POS = {log.start.offset}, "
        f"MASTER_USE_GTID = no, MASTER_SSL = 0, MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_CONNECT_RETRY = 1, "
        f"MASTER_HEARTBEAT_PERIOD = 0"
    )
    connection.execute(
        f"START SLAVE UNTIL MASTER_LOG_FILE = {literal(log.stop.file)}, MASTER_LOG_POS = {log.stop.offset}"
    )
    follow(lambda: _with_source(applier_state(connection), source), log, progress, told)
    connection.execute("STOP SLAVE")
    connection.execute("RESET SLAVE ALL")
    connection.execute("SET GLOBAL slave_net_timeout = DEFAULT")


def _with_source(seen: Applier, source: ReplicationSource) -> Applier:
    """Add why the source gave up: what it could not give is why the applier will not get any further.

    As long as it has not given all, the applier waits for it, as for an event of a gigabyte on a slow disk.
    """
    error = seen.error or next(iter(source.failures), "")
    return replace(seen, error=error, idle=seen.idle and source.given)


def applier_state(connection: Connection) -> Applier:
    """Where the applier is, in the log source's terms."""
    row = connection.one("SHOW SLAVE STATUS")
    position = None
    if row["Relay_Master_Log_File"]:
        position = LogPosition.of(row["Relay_Master_Log_File"], whole_number(row, "Exec_Master_Log_Pos"))
    return Applier(
        running=row["Slave_SQL_Running"] == "Yes",
        # Both are NULL while their threads are starting or ending.
        idle=str(row["Slave_SQL_Running_State"]).startswith("Slave has read all relay log")
        and str(row["Slave_IO_State"]).startswith("Waiting for master to send event"),
        position=position,
        error=error_shown(str(row["Last_SQL_Error"] or row["Last_IO_Error"] or "")),
    )
