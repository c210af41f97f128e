"""Positions in a binlog, and the transactions it holds."""

from dataclasses import dataclass
from datetime import datetime

from zbackup.model import bounds
from zbackup.model.errors import VerificationFailed
from zbackup.model.log import Transaction
from zbackup.model.record import Record


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A position in a binlog: file name without directory, and byte offset.

    Positions of one server order by file sequence number, then offset; the base name is the same for all.
    """

    sequence: int
    offset: int
    file: str

    @classmethod
    def of(cls, file: str, offset: int) -> "LogPosition":
        """Raise ValueError unless `file` ends in a sequence number such as binlog.000012."""
        return cls(bounds.count(file.rpartition(".")[2]), offset, file)

    @classmethod
    def parse(cls, text: str) -> "LogPosition":
        """Read back what str() wrote. Raise ValueError."""
        file, _, offset = text.rpartition(":")
        return cls.of(file, bounds.count(offset))

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


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
