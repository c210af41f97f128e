"""Find where a replay of a log stops by time, when the times in it may be wrong and its order is not. Pure.

The order of a log is the truth: what stands before a transaction was not committed after it. Its times are
testimony. A host's clock may have stood ahead or have been put back, on MariaDB any session may set its own
time, and on a replica the times are another host's. So a transaction's effective commit time is an interval:
bounded by its neighbours' times, by the times in the headers of log files, and by readings of this host's
clock that were taken with snapshots (anchors). Where a target lies outside of all disputed intervals there is
one stop point; else there are two readings of the log, and somebody has to say which is right.

All times are microseconds since 1970, as the log has them; a transaction is (start, end, committed), and a
position is the number of a log file and an offset.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

Span = tuple[int, int, int]
Position = tuple[int, int]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
SECOND: Final = 1_000_000
NEVER: Final = 1 << 62

TOLERANCE: Final = timedelta(seconds=2)
"""Less is ordinary: a leap second or a nudge of the time service puts a clock back by up to one second, whole
seconds hide another, and in a group commit, or between the members of a cluster, times are out of order by
microseconds to milliseconds."""

REPLICA_TOLERANCE: Final = timedelta(seconds=10)
"""The same on a replica: several sources, or workers that do not keep the commit order, are seconds apart."""

WIDE: Final = 2
"""An interval of this many tolerances at most is as good as a time: both ends may be off by one."""

SLOW_AMONG: Final = 8
"""Transactions in order for each one behind, with which those behind are taken for slow statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of what is ordinary in a log. `starts`: its times tell when the statement that committed
    began, so that a slow one is behind. `replica`: they are the source's, so that all of them may be behind
    this host's clock.
    """

    starts: bool = False
    replica: bool = False

    @property
    def tolerance(self) -> int:
        """The tolerance, in microseconds."""
        return (REPLICA_TOLERANCE if self.replica else TOLERANCE) // _MICROSECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The part of a log in which the stop point for one target has to be: not before `after`, not behind
    `upto` (None: its end). Times in it that are not within `floor` and `ceiling` are certainly wrong. In
    front of it they had come to `said` at least, and those later than `passed` are certainly wrong."""

    after: Position = (0, 0)
    said: int = 0
    passed: int = 0
    upto: Position | None = None
    floor: int = 0
    ceiling: int = NEVER


@dataclass(frozen=True, slots=True)
class Point:
    """A possible stop point: in front of `first`, None at the log's end, with `count` transactions before it,
    of which `last` is the last (None: there is none). Each is the number of its file and the transaction."""

    count: int
    last: tuple[int, Span] | None
    first: tuple[int, Span] | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision where to stop: in front of `point`. If `other` is not None the log can be read in two
    ways, of which `point` is the earlier. `behind` transactions behind the stop point carry a time before the
    target."""

    point: Point
    other: Point | None
    behind: int


def micros(moment: datetime) -> int:
    """Microseconds since 1970 of a moment with a zone, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


class StopSearch:
    """Finds the stop point for a target while a log is read once, from where a replay would begin to its end.

    What is kept does not grow with the log. `add` takes one file after another; when `enough`, nothing that
    follows can change the answer.
    """

    def __init__(self, stop: int, within: Bounds, rules: Rules) -> None:
        self._stop, self._within, self._rules = stop, within, rules
        self._count = 0
        self._last: tuple[int, Span] | None = None
        self._known = max(within.floor, within.said)
        """The latest believable time before the target of what stands before any stop point."""
        self._doubtful: Point | None = None
        """In front of the first with no believable time, when only such ones follow."""
        self._ahead = self._back = False
        """True if one of those carries a time from the target on, and if one carries a time that would be
        believable had the log not come further before."""
        self._first: Point | None = None
        """In front of the first at the target or later."""
        self._first_time = 0
        self._least: tuple[Point, int] | None = None
        """In front of that which has the least time from the target on, `_first` or one behind it."""
        self._least_behind: tuple[Point, int] | None = None
        """The same of what follows the last that carries a time before the target."""
        self._leaps: list[tuple[int, int]] = []
        """From which time to which those before the target leapt, where they began statements."""
        self._behind = self._slow = self._early = 0
        self._earliest_behind = self._moved_on = NEVER
        self._latest = 0
        self._before_behind = (0, 0)
        """The number of those at the target or later, and the latest of them, when the last was found
        behind."""
        self.enough = False

    def add(
        self,
        file: int,
        header: int | None,
        spans: Iterable[Span],
        began: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """Read a file's transactions; `header` is when the server began it, in whole seconds, None if that
        is not known or lies before all that is read of it. `began` tells, where that matters, in which
        seconds the last transactions before the file began."""
        within = self._within
        if self.enough:
            return
        if header is not None:
            self._read_header(file, header, began)
        spans = iter(spans)
        if file <= within.after[0]:
            following = self._pass(file, spans, within.after[1] if file == within.after[0] else NEVER)
            if following is None:
                return
            spans = chain((following,), spans)
        limit = NEVER
        if within.upto is not None and file >= within.upto[0]:
            limit = within.upto[1] if file == within.upto[0] else 0
        if self._first is None:
            spans = self._search(file, spans, limit)
        if self._first is not None and not self.enough:
            self._search_behind(file, spans, limit)

    def decide(self) -> Decision:
        """The stop point, when all was added."""
        end = Point(self._count, self._last, None)
        low = self._doubtful or self._first or end
        if self._are_in_ordinary_disorder() or self._are_slow():
            high, time = self._least or (end, self._within.ceiling)
            disputed = time - self._known > WIDE * self._rules.tolerance or self._is_doubt_open()
        else:
            high, disputed = self._least_behind[0] if self._least_behind else end, True
        if not disputed and not self._ahead:
            # What carries an earlier time and stands in front of the first at the target is before it.
            low = self._first or end
        return Decision(low, high if disputed and high != low else None, self._behind)

    def _is_doubt_open(self) -> bool:
        """Whether those without a believable time may be far from the target on either side of it."""
        return self._doubtful is not None and ((self._ahead and self._back) or not self._came_to_target())

    def _are_in_ordinary_disorder(self) -> bool:
        """Whether what carries an earlier time is so little behind that clocks that are right may do
        that."""
        tolerance = self._rules.tolerance
        least = self._least[1] if self._least else self._stop
        near = least - self._earliest_behind <= WIDE * tolerance
        return near and self._earliest_behind >= self._stop - tolerance

    def _are_slow(self) -> bool:
        """Whether what carries an earlier time began before the target and ended behind it.

        So it is when the log's times came to the target step by step, few of many are behind, and the log
        goes on behind the last of them where the many had come to. Had a clock stood ahead, it would go on
        where that clock was put forward.
        """
        early, latest = self._before_behind
        return (
            self._rules.starts
            and self._came_to_target()
            and self._slow * SLOW_AMONG <= early
            and self._moved_on >= latest - self._rules.tolerance
            and not self._leapt_over(self._earliest_behind, latest)
        )

    def _leapt_over(self, began: int, latest: int) -> bool:
        """Whether a clock put forward by as much as the log went back then would look the same."""
        slack = self._rules.tolerance
        return any(
            before <= began + slack and began < after and after - before >= latest - began - slack
            for before, after in self._leaps
        )

    def _leap(self, before: int, after: int) -> None:
        """Keep where the times leapt. One as long as what followed it is the only one that can matter."""
        slack = self._rules.tolerance
        self._leaps = [(b, a) for b, a in self._leaps if a - b >= after - a - slack]
        self._leaps.append((before, after))

    def _came_to_target(self) -> bool:
        """Whether the log's times rose to the target step by step."""
        return self._first_time - self._known <= WIDE * self._rules.tolerance

    def _here(self, file: int, span: Span) -> Point:
        return Point(self._count, self._last, (file, span))

    def _pass(self, file: int, spans: Iterator[Span], limit: int) -> Span | None:
        """Everything that begins before `limit` is certainly before the target. The first that does not.

        How far times had come tells whether those that follow are wrong, as on a replica no anchor does.
        """
        count, last, known, passed = self._count, None, self._known, self._within.passed
        for span in spans:
            if span[0] >= limit:
                break
            if known < span[2] <= passed:
                known = span[2]
            count += 1
            last = span
        else:
            span = None
        self._count, self._last, self._known = count, (file, last) if last else self._last, known
        return span

    def _read_header(self, file: int, header: int, began: Callable[[], Collection[int]]) -> None:
        """A header is testimony, too: what stands before it was written before its second was over.

        But a server that begins a file since one is full notes when the statement began that filled it: then
        nothing is told by that, as long as the log's times came to the target step by step. Where they leapt
        there, a clock may have been put forward while that statement ran.
        """
        if (file, 0) <= self._within.after or not self._within.floor <= header <= self._within.ceiling:
            return
        if self._first is None or header + SECOND >= self._stop:
            return
        if not (self._came_to_target() and header in began()):
            self._is_behind(header + SECOND)

    def _search(self, file: int, spans: Iterator[Span], limit: int) -> Iterator[Span]:
        """Look for the first at the target or later, and return what follows it."""
        stop, tolerance, known = self._stop, self._rules.tolerance, self._known
        least, starts = max(self._within.floor, known - tolerance), self._rules.starts
        count, last = self._count, self._last
        for span in spans:
            begin, _, committed = span
            if begin < limit and least <= committed < stop:
                if committed > known:
                    if starts and committed - known > tolerance:
                        self._leap(known, committed)
                    known = committed
                    if known - tolerance > least:
                        least = known - tolerance
                self._doubtful = None
            else:
                self._count, self._last, self._known = count, last, known
                if begin >= limit:
                    self._close(file, span)
                    return spans
                self._weigh(file, span)
            count += 1
            last = (file, span)
            if self._first is not None:
                break
        self._count, self._last, self._known = count, last, known
        return spans

    def _weigh(self, file: int, span: Span) -> None:
        """Look at one that is not simply before the target, while none at the target was found.

        A time that is behind those before it, as of a slow statement, tells nothing of when it ended.
        """
        committed = span[2]
        if self._stop <= committed <= self._within.ceiling:
            self._first, self._first_time = self._here(file, span), committed
            self._least = self._least_behind = (self._first, committed)
            self._early, self._latest, self._moved_on = 1, committed, committed
        else:
            if self._doubtful is None:
                self._doubtful, self._ahead, self._back = self._here(file, span), False, False
            self._ahead = self._ahead or committed >= self._stop
            self._back = self._back or self._within.floor <= committed < self._stop

    def _search_behind(self, file: int, spans: Iterator[Span], limit: int) -> None:
        """Look for what contradicts the first that was found."""
        count, last, starts, ceiling = self._count, self._last, self._rules.starts, self._within.ceiling
        telling = self._telling()
        for span in spans:
            begin, _, committed = span
            if begin >= limit:
                self._count, self._last = count, last
                self._close(file, span)
                return
            if committed < telling:
                self._count, self._last = count, last
                self._weigh_behind(file, span)
                telling = self._telling()
            elif starts and committed <= ceiling:
                self._early += 1
                if committed > self._latest:
                    self._latest = committed
            count += 1
            last = (file, span)
        self._count, self._last = count, last

    def _telling(self) -> int:
        """A time below this says something that is not known yet."""
        if self._least is None or self._least_behind is None:
            return NEVER
        return max(self._stop, self._least[1], self._least_behind[1], self._moved_on)

    def _weigh_behind(self, file: int, span: Span) -> None:
        committed = span[2]
        if committed < self._within.floor:
            self._behind += 1
        elif committed < self._stop:
            self._behind += 1
            self._is_behind(committed)
        elif committed <= self._within.ceiling:
            here, tolerance = self._here(file, span), self._rules.tolerance
            if self._least is None or committed < self._least[1] - tolerance:
                self._least = (here, committed)
            if self._least_behind is None or committed < self._least_behind[1] - tolerance:
                self._least_behind = (here, committed)
            self._early += 1
            self._latest = max(self._latest, committed)
            self._moved_on = min(self._moved_on, committed)

    def _is_behind(self, committed: int) -> None:
        self._slow += 1
        self._before_behind = (self._early, self._latest)
        self._earliest_behind = min(self._earliest_behind, committed)
        self._least_behind, self._moved_on = None, NEVER

    def _close(self, file: int, span: Span) -> None:
        """Everything from here on is certainly not before the target."""
        self.enough = True
        here = (self._here(file, span), self._within.ceiling)
        if self._first is None:
            self._first, self._first_time = here
        self._least = self._least or here
        self._least_behind = self._least_behind or here
