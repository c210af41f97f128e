"""The write load's journal of its transactions, and the judgement of a recovered state by it."""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.lab.load_model import Content, content

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 20
_BEGAN = time.time_ns() - time.monotonic_ns()


def true_ns() -> int:
    """The time in ns since 1970 UTC, as the host's clock told it when this process began.

    A test that moves that clock on purpose still learns when each transaction was committed.
    """
    return _BEGAN + time.monotonic_ns()


@dataclass(frozen=True, slots=True)
class Entry:
    """One transaction: when its COMMIT was sent and when the server's answer came, in ns since 1970 UTC.

    `acked` is None when no answer came: it may have been committed or not.
    """

    thread: int
    seq: int
    sent: int
    acked: int | None

    def line(self) -> str:
        """As it stands in the journal's file."""
        return f"{self.thread},{self.seq},{self.sent},{'' if self.acked is None else self.acked}\n"


@dataclass(frozen=True, slots=True)
class Summary:
    """How the load went. Times in ms; `stall` is the longest time in which no thread got an answer."""

    transactions: int
    seconds: float
    stall: float
    longest: float

    @property
    def rate(self) -> float:
        """Transactions a second."""
        return self.transactions / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A recovered state that is right: the last transaction of each thread in it, and what was to decide.

    `required` transactions had to be there, `undecided` ones were under way at the moment.
    """

    at: datetime | None
    last: dict[int, int]
    required: int
    undecided: int

    @property
    def present(self) -> int:
        """Number of transactions in the recovered state."""
        return sum(self.last.values())


class JournalFile:
    """The journal being written; a line is out of this process the moment write() returns, or on its disk."""

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._durable = durable

    def write(self, entry: Entry) -> None:
        os.write(self._file, entry.line().encode())
        if self._durable:
            os.fsync(self._file)


def parse(text: str) -> list[Entry]:
    """The entries of a journal; a last line that was cut off counts for nothing."""
    complete = text[: text.rfind("\n") + 1]
    fields = (line.split(",") for line in complete.splitlines())
    return [
        Entry(int(t), int(seq), int(sent), int(acked) if acked else None) for t, seq, sent, acked in fields
    ]


def read(journal: Path) -> list[Entry]:
    """The entries in the file `journal`."""
    return parse(journal.read_text())


def summarise(entries: Iterable[Entry]) -> Summary:
    """Rate and stalls of a journal."""
    answered = sorted((entry.acked, entry.sent) for entry in entries if entry.acked is not None)
    acks = [acked for acked, _ in answered]
    gaps = [later - earlier for earlier, later in pairwise(acks)]
    return Summary(
        transactions=len(acks),
        seconds=(acks[-1] - acks[0]) / 1e9 if acks else 0.0,
        stall=max(gaps, default=0) / 1e6,
        longest=max((acked - sent for acked, sent in answered), default=0) / 1e6,
    )


def nanoseconds(moment: datetime) -> int:
    """`moment` (with a zone) in ns since 1970 UTC, exactly."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def judge(
    found: dict[int, Content], entries: Iterable[Entry], at: datetime | None, by: datetime | None = None
) -> Verdict:
    """Compare the rows `found` with what the journal demands of a state as of `at` (None: the end).

    Everything answered before `at` is there, nothing sent at or after `at` is, and every row is as the
    last transaction of its thread left it. `by`: the state is of some moment between the two, as of a
    statement that was sent at `at` and answered at `by`. Raises AssertionError that lists what is wrong.
    """
    of_thread: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        of_thread[entry.thread].append(entry)
    moment = None if at is None else nanoseconds(at)
    latest = moment if by is None else nanoseconds(by)
    problems: list[str] = []
    last: dict[int, int] = {}
    required = undecided = 0
    for thread in sorted(of_thread.keys() | found.keys()):
        state = found.get(thread, Content())
        last[thread] = state.last
        least, most = bounds(of_thread[thread], moment, latest)
        required, undecided = required + least, undecided + most - least
        if not least <= state.last <= most:
            problems.append(_out_of_bounds(thread, state.last, least, most))
        problems += differences(thread, content(thread, state.last), state)
    if problems:
        hidden = f"\n... and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise AssertionError(f"state as of {at or 'the end'}:\n" + "\n".join(problems[:_SHOWN]) + hidden)
    return Verdict(at, last, required, undecided)


def bounds(entries: Iterable[Entry], moment: int | None, latest: int | None) -> tuple[int, int]:
    """Lowest and highest number of the last transaction that a thread may have in a state as of `moment`.

    It may be as late as `latest`, where that is another.

    One transaction beyond the journal is possible at the end: the load may have been killed between the
    commit and its line.
    """
    least, known, forbidden = 0, 0, None
    for entry in entries:
        known = max(known, entry.seq)
        if entry.acked is not None and (moment is None or entry.acked < moment):
            least = max(least, entry.seq)
        if latest is not None and entry.sent >= latest:
            forbidden = entry.seq if forbidden is None else min(forbidden, entry.seq)
    return least, known + 1 if forbidden is None else forbidden - 1


def differences(thread: int, expected: Content, found: Content) -> list[str]:
    """Every row of a thread that is missing, too much or other than expected."""
    problems = []
    if expected.progress != found.progress:
        problems.append(f"thread {thread}: progress is {found.progress}, expected {expected.progress}")
    problems += _row_differences(f"thread {thread}: ledger", expected.ledger, found.ledger)
    problems += _row_differences(f"thread {thread}: balance", expected.balance, found.balance)
    return problems


def _row_differences(what: str, expected: Mapping[Any, object], found: Mapping[Any, object]) -> list[str]:
    return [
        f"{what} {key}: found {found.get(key)!r}, expected {expected.get(key)!r}"
        for key in [*expected, *(found.keys() - expected.keys())]
        if expected.get(key) != found.get(key)
    ]


def _out_of_bounds(thread: int, last: int, least: int, most: int) -> str:
    if last < least:
        return (
            f"thread {thread}: transactions {last + 1} to {least} are lost (acknowledged before the moment)"
        )
    return f"thread {thread}: transactions {most + 1} to {last} are too much (sent at or after the moment)"
