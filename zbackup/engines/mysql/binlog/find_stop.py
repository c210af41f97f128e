"""Find where to stop: exactly between the last transaction before a moment and the first one from it on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import chain, sequence
from zbackup.engines.mysql.binlog.position import LoggedTransaction, described
from zbackup.engines.mysql.binlog.reader import begun, describe, last_begun, microseconds, opened
from zbackup.engines.mysql.binlog.span_memory import Span
from zbackup.model.anchors import Anchor, bounds, dependable
from zbackup.model.commit_times import Point, Rules, StopSearch
from zbackup.model.log import LogPosition
from zbackup.model.recovery import LaterStop
from zbackup.model.target import Time, WholeLog
from zbackup.proc import secure_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The knowledge about the times in a log: what is ordinary in it, and clock readings (see
    commit_times)."""

    rules: Rules
    anchors: tuple[Anchor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPoint:
    """A prefix of the log.

    Everything from the start up to `stop` is to be applied: `transactions` of them, `log_bytes` bytes of log
    over all files. `stop` is the end of `last_applied`, or the start if nothing is to be applied.
    `first_skipped` is None when the log ends before the moment. `out_of_order` transactions behind the stop
    point carry a commit time before the moment; they are skipped too, because a replay can only stop once.
    Where the log can be read in two ways this is the earlier stop point, and `later` the other.
    """

    stop: LogPosition
    last_applied: LoggedTransaction | None
    first_skipped: LoggedTransaction | None
    transactions: int
    log_bytes: int
    out_of_order: int = 0
    later: LaterStop | None = None


def find_stop(
    files: Sequence[Path],
    start: LogPosition,
    stop: Time | LogPosition | WholeLog,
    *,
    end: LogPosition | None = None,
    times: Times | None = None,
) -> StopPoint:
    """Find the stop point: before the first transaction, in log order, that was committed at the target or
    later.

    A `stop` that is a position is before the first transaction that stands there or behind, whatever its
    time, and nothing is read of later files. The whole log has no stop point.

    `files` are all of one log; `end` is where the log ends (its last complete transaction if None). For
    MariaDB, whose times are whole seconds, a transaction of second s may have committed until s + 1: the
    caller rounds the target down to be sure. Raise GapError when the log has a gap between start and end,
    BinlogDamaged or BinlogEncrypted when it cannot be read.
    """
    position = stop if isinstance(stop, LogPosition) else None
    files = chain(files, start, end or position)
    if isinstance(stop, Time):
        return _by_time(files, start, end, microseconds(stop.at), times or Times(rules=Rules()))
    count = 0
    last_applied: LoggedTransaction | None = None
    first_skipped: LoggedTransaction | None = None
    for path in files:
        with opened(path, _limit(path, end)) as scanner:
            spans = scanner.spans(_begin(path, start))
            upto = position.offset if position and path.name == position.file else None
            found, newest, skipped = _before(spans, upto)
            count += found
            last_applied = describe(path, scanner, newest) if newest else last_applied
            first_skipped = describe(path, scanner, skipped) if skipped else None
    return _stop_point(files, start, count, last_applied, first_skipped)


def _by_time(
    files: Sequence[Path], start: LogPosition, end: LogPosition | None, stop: int, times: Times
) -> StopPoint:
    anchors = dependable(times.anchors, times.rules)
    search = StopSearch(stop, bounds(anchors, stop, times.rules), times.rules)
    for before, path in zip((None, *files), files, strict=False):
        with opened(path, _limit(path, end)) as scanner:
            header = begun(path) if before else None
            spans = scanner.spans(_begin(path, start))
            began = partial(last_begun, before) if before else tuple
            search.add(sequence(path.name), microseconds(header) if header else None, spans, began)
        if search.enough:
            break
    decision = search.decide()
    named = {sequence(path.name): path for path in files}
    point, other = decision.point, decision.other
    applied, skipped = (_described(named, each) for each in (point.last, point.first))
    found = _stop_point(files, start, point.count, applied, skipped)
    return replace(found, out_of_order=decision.behind, later=_later(named, other) if other else None)


def _later(files: Mapping[int, Path], other: Point) -> LaterStop:
    skipped = described(_described(files, other.first))
    return LaterStop(first_skipped=skipped, transactions=other.count)


def _described(files: Mapping[int, Path], found: tuple[int, Span] | None) -> LoggedTransaction | None:
    if found is None:
        return None
    path = files[found[0]]
    with opened(path) as scanner:
        return describe(path, scanner, found[1])


def _stop_point(
    files: Sequence[Path],
    start: LogPosition,
    transactions: int,
    last_applied: LoggedTransaction | None,
    first_skipped: LoggedTransaction | None,
) -> StopPoint:
    stop = last_applied.end if last_applied else start
    return StopPoint(
        stop=stop,
        last_applied=last_applied,
        first_skipped=first_skipped,
        transactions=transactions,
        log_bytes=_distance(files, start, stop),
    )


def _begin(path: Path, start: LogPosition) -> int:
    return start.offset if path.name == start.file else FIRST_EVENT


def _limit(path: Path, end: LogPosition | None) -> int | None:
    return end.offset if end is not None and path.name == end.file else None


def _before(spans: Iterator[Span], offset: int | None) -> tuple[int, Span | None, Span | None]:
    """How many begin before `offset` (None: all do); the last of them; the first that does not."""
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
