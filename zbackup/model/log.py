"""Words for what a server's log holds."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from zbackup.model import bounds

LOG_BEHIND = "log_behind"
"""In Record.server: why a copy of the server's log could not be brought up to date when it was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One committed transaction, or one entry of a log that has no transactions.

    `start` and `end` are where it stands in the log, in the engine's own words: FILE:OFFSET in a binlog,
    SECONDS,INCREMENT@TERM in an oplog, where both are the same. `committed` is the commit time at the
    origin, as finely as the log knows it. `gtid` is "" where there is none. `what` says what it does, where
    the log says that in one place, such as "drop shop.orders".
    """

    start: str
    end: str
    committed: datetime
    gtid: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The result of a search of a log for one transaction. If it was not `found`, `why` says so in a clause.

    `others` have the same name and come behind it in the same log.
    `first` and `last` are the names of the oldest and the newest file that were there to search; the oldest
    was `begun` then (None: not known).
    """

    found: Transaction | None
    others: tuple[Transaction, ...] = ()
    first: str
    last: str
    begun: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A position in a binlog: file name without directory, and byte offset.

    Positions of one server order by file sequence number, then offset; the base name is the same for all. As
    the name of a transaction it means the one that it lies in, or that begins there.
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


@dataclass(frozen=True, slots=True, order=True)
class ClusterTime:
    """A MongoDB timestamp: seconds since 1970 and the number of the operation within that second.

    All members of a cluster, shards too, order what they do by it.
    """

    seconds: int
    increment: int

    @classmethod
    def parse(cls, text: str) -> "ClusterTime":
        """Read SECONDS,INCREMENT. Raise ValueError if it is not that."""
        found = re.fullmatch(r"\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*", text)
        if not found or max(map(int, found.groups())) >= 2**32:
            raise ValueError(f'"{text}" is not SECONDS,INCREMENT, such as 1714557720,1')
        return cls(int(found[1]), int(found[2]))

    @property
    def at(self) -> datetime:
        """The second it is in."""
        return datetime.fromtimestamp(self.seconds, UTC)

    def __str__(self) -> str:
        return f"{self.seconds},{self.increment}"


def how_many(count: int, one: str = "transaction", more: str = "transactions") -> str:
    """For people: "1 transaction", "2 transactions"."""
    return f"{count} {one if count == 1 else more}"


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The part of a log that is there without a break, from position to position in the engine's own words.

    `last` is where a replay of what comes later begins. `head` tells the file of the log that this is in from
    others of its name, as it does in archives (LogFileId.head), and `size` is that file's; "" and 0 where the
    log is in no files.
    """

    first: str
    last: str
    head: str = field(default="", compare=False)
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class LogDamage:
    """The damage of a log. `torn`: its newest file ends within what was being written last.

    `unread`: nothing was found, but not all of it was read.
    """

    what: str
    torn: bool = False
    unread: bool = False


@lru_cache(maxsize=65_536)
def position_of(text: str) -> tuple[int, ...]:
    """The numbers in a position of a log, by which positions of one log are in order, whatever the engine."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", text))
