"""Words for what a server's log holds."""

from dataclasses import dataclass
from datetime import datetime


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
