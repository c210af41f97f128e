"""Tell what a server says of its log and its replication, whatever its flavour and version call it.

Statements by version: SHOW BINARY LOG STATUS is MySQL's since 8.2 and the only form since 8.4; SHOW REPLICA
STATUS since 8.0.22 (MySQL reference manual, "SQL Statements for Controlling Replication"). MariaDB's manual:
SHOW BINLOG STATUS since 10.5.2, and every older form still works; only the old forms are used here.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from zbackup.engines.mysql.server.connection import Connection, NamedRow, NotAnswered
from zbackup.engines.mysql.sql.shown import error_shown
from zbackup.model.errors import DatabaseError, Refused
from zbackup.model.log import LogPosition

Flavor = Literal["mysql", "mariadb"]

# Their appliers belong to Group Replication, which coordinates them itself.
GROUP_CHANNELS = ("group_replication_applier", "group_replication_recovery")

AWAITED_S = 10
_QUESTIONS = frozenset(
    (
        *("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS", "SHOW BINLOG STATUS", "SHOW BINARY LOGS"),
        *("SHOW REPLICA STATUS", "SHOW SLAVE STATUS", "SHOW ALL SLAVES STATUS"),
    )
)


@dataclass(frozen=True, slots=True, order=True)
class Dialect:
    """A flavour and its version: what the server is called and understands."""

    flavor: Flavor
    version: tuple[int, ...]

    @classmethod
    def of(cls, version: str) -> "Dialect":
        """Parse VERSION(), such as "10.11.6-MariaDB-log" or "8.4.3-3" (Percona's build 3 of 8.4.3)."""
        numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
        if not numbers:
            raise DatabaseError(f"the server's version {version!r} makes no sense")
        return cls("mariadb" if "mariadb" in version.lower() else "mysql", tuple(map(int, numbers.groups())))

    def is_mysql(self, *least: int) -> bool:
        """MySQL (or Percona Server) of at least this version."""
        return self.flavor == "mysql" and self.version >= least

    def is_mariadb(self, *least: int) -> bool:
        """MariaDB of at least this version."""
        return self.flavor == "mariadb" and self.version >= least


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """The end of the server's binlog. `filters` are binlog_do_db and binlog_ignore_db settings, if any."""

    position: LogPosition | None
    gtid: str
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One replication channel (MariaDB: connection), "" being the default one.

    `until` is the condition at which the applier was told to stop, "" for none; `error` is why it stopped
    by itself.
    """

    name: str
    applier_running: bool
    until: str = ""
    error: str = ""


def dialect(connection: Connection) -> Dialect:
    """What the server at the other end of `connection` is."""
    return Dialect.of(connection.version)


def require_answering(connection: Connection) -> None:
    """Raise NotAnswered where somebody has waited for long for what is asked here: each session that waits
    with him stays in the server until the log goes on, for no KILL ends it."""
    for row in connection.rows("SHOW FULL PROCESSLIST"):
        text, seconds = " ".join(str(row["Info"] or "").upper().split()).rstrip(";"), int(row["Time"] or 0)
        if text in _QUESTIONS and seconds >= AWAITED_S and int(row["Id"]) != connection.id:
            raise NotAnswered(
                f"the server at {connection.where} does not answer {text}: connection {row['Id']} has waited "
                f"for that for {seconds} s"
            )


def log_status(connection: Connection, dialect: Dialect) -> LogStatus:
    """The end of the binlog now. The position is None when the server keeps none.

    performance_schema.log_status is not asked: it waits for a commit that waits for the acknowledgement of a
    semi-sync replica, no KILL frees it, and everybody who asks for the log or the replicas meanwhile waits
    for it (tried on MySQL 9.7). This does not wait for such a commit.
    """
    statement = "SHOW BINARY LOG STATUS" if dialect.is_mysql(8, 2) else "SHOW MASTER STATUS"
    row = connection.one(statement)
    if not row:
        return LogStatus(position=None, gtid="")
    filters = [f"{name} = {row[name]}" for name in ("Binlog_Do_DB", "Binlog_Ignore_DB") if row.get(name)]
    if dialect.flavor == "mariadb":
        gtid = str(connection.one("SELECT @@global.gtid_binlog_pos AS gtid")["gtid"])
    else:
        gtid = _one_line(row.get("Executed_Gtid_Set"))
    return LogStatus(position=_position(row["File"], row["Position"]), gtid=gtid, filters=tuple(filters))


def _position(file: str, offset: object) -> LogPosition:
    """Raise Refused for a log that is one file, written over at each start.

    MySQL takes what follows the last dot of log_bin for an extension and leaves it out; where there is a dot
    before that one, it takes the number of each file for an extension, too.
    """
    try:
        return LogPosition.of(file, int(str(offset)))
    except ValueError:
        raise Refused(
            f"the binary log's file {file} has no number, so that the server writes the next one over it and "
            f"nothing can be replayed: set log_bin to a name without a dot, and restart the server"
        ) from None


def channels(connection: Connection, dialect: Dialect) -> tuple[Channel, ...]:
    """All replication channels that are set up on this server and are not Group Replication's own."""
    if dialect.flavor == "mariadb":
        statement = "SHOW ALL SLAVES STATUS"
    else:
        statement = "SHOW REPLICA STATUS" if dialect.is_mysql(8, 0, 22) else "SHOW SLAVE STATUS"
    found = (channel_of(row) for row in connection.rows(statement))
    return tuple(channel for channel in found if channel.name not in GROUP_CHANNELS)


def channel_of(row: dict[str, Any]) -> Channel:
    """Read one row of SHOW REPLICA STATUS, in the old words or the new ones."""
    words = {key.replace("Slave", "Replica").replace("Master", "Source"): value for key, value in row.items()}
    new = NamedRow("SHOW REPLICA STATUS", words)
    until = str(new.get("Until_Condition") or "None")
    return Channel(
        name=str(new.get("Channel_Name") or new.get("Connection_name") or ""),
        applier_running=new["Replica_SQL_Running"] == "Yes",
        until="" if until == "None" else until,
        error=error_shown(str(new.get("Last_SQL_Error") or "")),
    )


def _one_line(gtids: object) -> str:
    """MySQL breaks long GTID sets into lines."""
    return str(gtids or "").replace("\n", "")
