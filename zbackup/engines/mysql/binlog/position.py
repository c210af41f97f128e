"""The transactions that a binlog holds, and the position that a backup recorded of it."""

from dataclasses import dataclass
from datetime import datetime

from zbackup.model.errors import VerificationFailed
from zbackup.model.log import LogPosition, Transaction
from zbackup.model.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTransaction:
    """One committed transaction (or atomic DDL statement) in a binlog.

    `committed` is the commit time at the origin: microseconds on MySQL 8.0 and later, whole seconds on
    MariaDB, whose log has no finer ones. `gtid` is "" when the server does not use GTIDs.
    `end` is the offset just behind its last byte, in the same file.
    """

    start: LogPosition
    end: LogPosition
    committed: datetime
    gtid: str

    def described(self) -> Transaction:
        """Convert to the model's types."""
        return Transaction(start=str(self.start), end=str(self.end), committed=self.committed, gtid=self.gtid)


def described(transaction: LoggedTransaction | None) -> Transaction | None:
    """Convert to the model's types."""
    return transaction.described() if transaction else None


def recorded_position(record: Record) -> LogPosition | None:
    """Where the binlog ended by the backup's record; None when that is not known.

    Raise VerificationFailed when the record cannot be understood.
    """
    try:
        return LogPosition.parse(record.position) if record.position else None
    except ValueError as damaged:
        raise VerificationFailed(
            f"the recorded log position {record.position!r} is not FILE:OFFSET: {damaged}"
        ) from damaged
