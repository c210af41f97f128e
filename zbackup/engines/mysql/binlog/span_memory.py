"""Remembers where transactions stand in files that were read: a restore looks at the same log many times.

A look, a plan, a record and a replay each go through all of the log, ten times in all. At most ROOM
transactions are remembered in a process; a file that has changed is another (see reader.opened).
"""

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

Span = tuple[int, int, int]
"""Offset of a transaction's first byte, offset behind its last, commit time in microseconds since 1970."""

Identity = tuple[int, ...]
"""Numbers of which one is another as soon as a file is another file, or has other bytes."""

ROOM: Final = 1_000_000
"""Transactions that are remembered: 24 MB."""

EACH_FILE: Final = 100
"""Transactions that a file counts for on top of its own: what tells it from others takes room, too."""


@dataclass(frozen=True, slots=True)
class TransactionRun:
    """All transactions that begin at `since` or behind it, up to the last of them that is here."""

    since: int
    numbers: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def upto(self) -> int:
        """Behind the last of them."""
        return self.numbers[-2] if self.numbers else self.since

    def tells_of(self, start: int) -> bool:
        """Whether `start` was seen to be a position between transactions: whoever reads from within one
        has to find out."""
        first, numbers = self._first(start), self.numbers
        begins = 3 * first < len(numbers) and numbers[3 * first] == start
        return start == self.since or begins or (first > 0 and numbers[3 * first - 2] == start)

    def behind(self, start: int) -> Iterator[Span]:
        """The spans that begin at `start` or behind it."""
        numbers = self.numbers
        for at in range(3 * self._first(start), len(numbers), 3):
            yield numbers[at], numbers[at + 1], numbers[at + 2]

    def _first(self, start: int) -> int:
        return bisect_left(range(len(self.numbers) // 3), start, key=lambda at: self.numbers[3 * at])

    def and_then(self, more: "array[int]") -> "TransactionRun":
        """The same with what follows it."""
        return TransactionRun(self.since, self.numbers + more)


class SpanMemory:
    """Remembers those of the files that were read last. Several threads may use it."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._runs: OrderedDict[Identity, TransactionRun] = OrderedDict()
        self._lock = Lock()

    def from_(self, file: Identity, start: int) -> TransactionRun:
        """Return what is known of a file from `start` on; an empty run when that is nothing."""
        with self._lock:
            run = self._runs.get(file)
            if run is None or not run.tells_of(start):
                return TransactionRun(start)
            self._runs.move_to_end(file)
            return run

    def left(self, run: TransactionRun) -> int:
        """Return how many numbers more of the run's file can be remembered, if all others are forgotten."""
        return 3 * (self._room - EACH_FILE) - len(run.numbers)

    def keep(self, file: Identity, run: TransactionRun) -> None:
        """Remember the run, unless more is known. What was asked for longest ago is forgotten for it."""
        with self._lock:
            before = self._runs.get(file)
            if self.left(run) < 0 or len(run.numbers) <= (len(before.numbers) if before else 0):
                return
            self._runs[file] = run
            self._runs.move_to_end(file)
            taken = sum(len(each.numbers) + 3 * EACH_FILE for each in self._runs.values())
            while taken > 3 * self._room:
                taken -= len(self._runs.popitem(last=False)[1].numbers) + 3 * EACH_FILE


READ: Final = SpanMemory()
"""The memory of the files that this process reads."""
