"""Read transactions from binlog files."""

import mmap
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Final

from zbackup.engines.mysql.binlog.errors import damage_typed
from zbackup.engines.mysql.binlog.events import FIRST_EVENT, Buffer
from zbackup.engines.mysql.binlog.position import LoggedTransaction
from zbackup.engines.mysql.binlog.read_in_pieces import Pieces
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.span_memory import Identity, Span
from zbackup.model.log import LogPosition
from zbackup.proc import secure_files

LARGEST_GROUP: Final = 256
"""Transactions that are looked at to find one of those that were committed with the last."""
SETTLED_S: Final = 1.0
"""Seconds since its last change after which a file is known by the time of that change."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def transactions(
    path: Path, *, start: int = FIRST_EVENT, end: int | None = None
) -> Iterator[LoggedTransaction]:
    """The complete transactions between two offsets of a file, in log order.

    `start` must lie between transactions; `end` (the file's end if None) may lie anywhere, and a transaction
    that it cuts is left out. `committed` is exact to the microsecond for MySQL 8.0 and later and is the
    original commit time; for MariaDB and MySQL 5.7 it is the whole second in which the committing statement
    started, so it may fall from one transaction to the next. Ends quietly where the server had not finished
    writing. Raise BinlogDamaged for corruption, BinlogEncrypted for a file that only the server can
    read, BinlogTooOld for one of a server that is not supported.
    """
    with opened(path, end) as scanner:
        for span in scanner.spans(start):
            yield describe(path, scanner, span)


def last_in_file(path: Path, *, start: int = FIRST_EVENT, end: int | None = None) -> LoggedTransaction | None:
    """What transactions() gives last, found faster."""
    with opened(path, end) as scanner:
        last = deque(scanner.spans(start), maxlen=1)
        return describe(path, scanner, last[0]) if last else None


def begun(path: Path) -> datetime | None:
    """When the server began the file, in whole seconds: the time of its first event.

    None if it has none.
    """
    with secure_files.open_regular(path) as file:
        file.seek(FIRST_EVENT)
        stamp = file.read(4)
    return datetime.fromtimestamp(int.from_bytes(stamp, "little"), UTC) if len(stamp) == 4 else None


def last_begun(path: Path) -> frozenset[int]:
    """Find the seconds in which the file's last transactions began, by their first events, in microseconds.

    A server begins a new file in the session that filled the one before, behind all that commit with it.
    """
    with opened(path) as scanner:
        last = deque(scanner.spans(), maxlen=LARGEST_GROUP)
        return frozenset(scanner.stamp(start) for start, _, _ in last)


def check_events(path: Path, *, start: int = FIRST_EVENT, end: int | None = None) -> int:
    """Verify every event's checksum, not only those that transactions() needs to read.

    Return the offset behind the last event. Raise as transactions() does.
    """
    with opened(path, end) as scanner:
        return scanner.check(start)


@contextmanager
def opened(path: Path, end: int | None = None) -> Iterator[Scanner]:
    """A scanner over the file's first `end` bytes (all if None) as they are now. It may be written to.

    Raise BinlogDamaged where what is read of it makes no sense, here or by the caller.
    """
    with secure_files.open_regular(path) as file:
        size = file.seek(0, 2)
        limit = size if end is None else min(size, end)
        # An empty file cannot be mapped.
        data: Buffer = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
        try:
            with damage_typed(path.name):
                yield Scanner(data, path.name, limit, _identity(file, limit))
        finally:
            if isinstance(data, mmap.mmap):
                data.close()


def _identity(file: IO[bytes], limit: int) -> Identity | None:
    """Return what tells these bytes from others; None for a file that was changed too recently for that.

    Nobody but the kernel sets the time of a file's last change (ctime, inode(7)); it does so by a clock that
    stands still for some milliseconds at a time, within which a file could be read and then changed again.
    """
    stat = os.fstat(file.fileno())
    if time.time() - stat.st_ctime < SETTLED_S:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, limit


@contextmanager
def opened_live(path: Path) -> Iterator[Scanner]:
    """The same over all of a file that its server may cut short meanwhile, or replace by a shorter one.

    Then reading raises VerificationFailed.
    """
    with secure_files.open_regular(path) as file:
        size = file.seek(0, 2)
        with damage_typed(path.name):
            yield Scanner(Pieces(file, path.name, size), path.name, size)


def describe(path: Path, scanner: Scanner, span: Span) -> LoggedTransaction:
    """A span in the words of the rest of zbackup."""
    start, end, committed = span
    return LoggedTransaction(
        start=LogPosition.of(path.name, start),
        end=LogPosition.of(path.name, end),
        committed=moment(committed),
        gtid=scanner.gtid(start),
    )


def moment(microseconds: int) -> datetime:
    """The moment that many microseconds after 1970 began, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 of a moment with a zone, exactly."""
    return (moment - _EPOCH) // _MICROSECOND
