"""Words for a server's log: positions in it, and the transactions it holds."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A place in a binlog: file name without directory, and byte offset.

    Positions of one server order by file sequence number, then offset; the base name is the same for all.
    """

    sequence: int
    offset: int
    file: str

    @classmethod
    def of(cls, file: str, offset: int) -> "LogPosition":
        """Raise ValueError unless `file` ends in a sequence number such as binlog.000012."""
        return cls(int(file.rpartition(".")[2]), offset, file)

    @classmethod
    def parse(cls, text: str) -> "LogPosition":
        """Read back what str() wrote."""
        file, _, offset = text.rpartition(":")
        return cls.of(file, int(offset))

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One committed transaction (or atomic DDL statement) in a binlog.

    `committed` is the commit time at the origin: microseconds on MySQL 8.0 and later, whole seconds on
    MariaDB, whose log has no finer ones. `gtid` is "" when the server does not use GTIDs.
    `end` is the offset just behind its last byte, in the same file.
    """

    start: LogPosition
    end: LogPosition
    committed: datetime
    gtid: str
