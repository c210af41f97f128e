"""A server's binary log as it gives it to replicas: in the clear, whatever its files are like.

MySQL reference manual, "Encrypting Binary Log Files and Relay Log Files", and MariaDB's, "Encrypting Binary
Logs": a replica is sent the log decrypted. Positions are those of the log as it would be without encryption.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import Connection, StatementFailed, connect
from zbackup.engines.mysql.server.status import dialect, log_status
from zbackup.model.errors import DatabaseError, Refused

SILENT_S: Final = 30.0
"""Seconds that the server may send nothing, while there is more of the log than was read."""

_NO_SUCH_POSITION: Final = 1236
_CHECKSUMS: Final = (
    "SET @source_binlog_checksum = @@global.binlog_checksum,"
    " @master_binlog_checksum = @@global.binlog_checksum"
)
_NAMED: Final = "SET @replica_uuid = %s, @slave_uuid = %s"
"""MySQL ends other sessions that read its log under the same name, and all that have none are one to it."""
_ALL_EVENTS: Final = "SET @mariadb_slave_capability = 4"
"""Else a MariaDB leaves out or rewrites what older replicas do not know (its manual, "Slave Capability")."""


class NoSuchPosition(DatabaseError):
    """The server has nothing of its log at a position that was asked for."""


class SentLog(Protocol):
    """One session with a server. After `events` it is of no use for anything else."""

    def files(self) -> list[str]:
        """Names of the log's files, the oldest first."""

    def end(self) -> LogPosition:
        """Where the log ends now. Raise Refused where the server keeps none."""

    def events(self, file: str, offset: int) -> Iterator[bytes]:
        """The events from there on, file after file, up to where the log ends when all were read.

        Raise NoSuchPosition where no event begins there.
        """


@dataclass(frozen=True, slots=True)
class ServerLog:
    connection: Connection

    def files(self) -> list[str]:
        return [str(row["Log_name"]) for row in self.connection.rows("SHOW BINARY LOGS")]

    def end(self) -> LogPosition:
        position = log_status(self.connection, dialect(self.connection)).position
        if position is None:
            raise Refused(f"the server at {self.connection.where} keeps no binary log")
        return position

    def events(self, file: str, offset: int) -> Iterator[bytes]:
        """See SentLog. The server knows no such replica, waits for none and keeps nothing back for it."""
        self.connection.execute(_CHECKSUMS)
        mariadb = dialect(self.connection).flavor == "mariadb"
        if mariadb:
            self.connection.execute(_ALL_EVENTS)
        else:
            own = str(uuid.uuid4())
            self.connection.execute(_NAMED, (own, own))
        try:
            yield from self.connection.binlog(file, offset, annotated=mariadb)
        except StatementFailed as failure:
            if failure.code != _NO_SUCH_POSITION:
                raise
            raise NoSuchPosition(str(failure)) from failure


@contextmanager
def sent_log(options: ConnectOptions) -> Iterator[SentLog]:
    """Open a session. Raise what connect() raises."""
    with connect(replace(options, limit_s=options.limit_s or SILENT_S)) as connection:
        yield ServerLog(connection)
