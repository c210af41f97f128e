"""Find where to stop: exactly between the last transaction before a moment and the first one from it on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import chain, sequence
from zbackup.engines.mysql.binlog.position import LoggedTransaction, LogPosition
from zbackup.engines.mysql.binlog.reader import describe, microseconds, opened
from zbackup.engines.mysql.binlog.scan import Span
from zbackup.proc import secure_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A prefix of the log.

    Everything from the start up to `stop` is to be applied: `transactions` of them, `log_bytes` bytes of log
    over all files. `stop` is the end of `last_applied`, or the start if nothing is to be applied.
    `first_skipped` is None when the log ends before the moment. `out_of_order` transactions behind the cut
    carry a commit time before the moment; they are skipped too, because a log can only be cut once.
    """

    stop: LogPosition
    last_applied: LoggedTransaction | None
    first_skipped: LoggedTransaction | None
    transactions: int
    log_bytes: int
    out_of_order: int


def find_cut(
    files: Sequence[Path],
    start: LogPosition,
    target: datetime | LogPosition,
    *,
    end: LogPosition | None = None,
) -> Cut:
    """Cut the log before the first transaction, in log order, that was committed at `target` or later.

    A `target` that is a position cuts before the first transaction that stands there or behind, whatever its
    time, and nothing is read of later files; `out_of_order` is 0 then.

    `files` are all of one log; `end` is where the log ends (its last complete transaction if None). For
    MariaDB, whose times are whole seconds, a transaction of second s may have committed until s + 1: the
    caller rounds the target down to be sure. Raise GapError when the log has a gap between start and end,
    BinlogDamaged or BinlogEncrypted when it cannot be read.
    """
    place = target if isinstance(target, LogPosition) else None
    moment = microseconds(target) if isinstance(target, datetime) else 0
    files = chain(files, start, end or place)
    applied = out_of_order = 0
    last_applied: LoggedTransaction | None = None
    first_skipped: LoggedTransaction | None = None
    for path in files:
        first = start.offset if path.name == start.file else FIRST_EVENT
        limit = end.offset if end is not None and path.name == end.file else None
        with opened(path, limit) as scanner:
            spans = scanner.spans(first)
            if first_skipped is None:
                found = _before_place(spans, path, place) if place else _before(spans, moment)
                count, newest, skipped = found
                applied += count
                last_applied = describe(path, scanner, newest) if newest else last_applied
                first_skipped = describe(path, scanner, skipped) if skipped else None
            if not place:
                out_of_order += sum(committed < moment for _, _, committed in spans)
    stop = last_applied.end if last_applied else start
    return Cut(
        stop=stop,
        last_applied=last_applied,
        first_skipped=first_skipped,
        transactions=applied,
        log_bytes=_distance(files, start, stop),
        out_of_order=out_of_order,
    )


def _before(spans: Iterator[Span], moment: int) -> tuple[int, Span | None, Span | None]:
    """How many transactions come before the first that is not before `moment`; the last of them; that one."""
    count = 0
    last: Span | None = None
    for span in spans:
        if span[2] >= moment:
            return count, last, span
        last = span
        count += 1
    return count, last, None


def _before_place(
    spans: Iterator[Span], path: Path, place: LogPosition
) -> tuple[int, Span | None, Span | None]:
    """The same for a place in the log; `spans` are those of the file `path`."""
    offset = place.offset if path.name == place.file else None
    count = 0
    last: Span | None = None
    for span in spans:
        if offset is not None and span[0] >= offset:
            return count, last, span
        last = span
        count += 1
    return count, last, None


def _distance(files: Sequence[Path], start: LogPosition, stop: LogPosition) -> int:
    """Bytes of log from start to stop over all files."""
    passed = sum(secure_files.size(path) for path in files if sequence(path.name) < stop.sequence)
    return passed + stop.offset - start.offset
