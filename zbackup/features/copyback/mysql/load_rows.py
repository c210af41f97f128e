"""Write rows with lines that the clone's server makes, in several sessions at once: see made_lines.

Each portion is a transaction of its own. Portions are loaded side by side, and committed in the order of
their keys, so that what is there after a kill is a beginning. A portion that cannot come as lines, or is not
taken as it is, is written as statements.

Before a portion is committed, production's server makes its lines again, of what it holds now: their hash
proves them while they are in its memory, and the clone's server has nothing to do for it.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from zbackup.engines.mysql.production import statements
from zbackup.engines.mysql.production.statements import BUSY
from zbackup.engines.mysql.production.tables import ServerTable
from zbackup.engines.mysql.server.connection import Row, RowConnection, StatementFailed
from zbackup.features.copyback.mysql import load_data_lines
from zbackup.features.copyback.mysql.copy_sessions import Ends
from zbackup.features.copyback.mysql.insert_rows import insert_rows
from zbackup.features.copyback.mysql.job import TableJob

Taken = Literal["no", "taken", "proven"]
"""Production did not take a portion as it is, or did so, or its lines are proven, too."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows of a range of keys. `lines` is empty where the server could not make them."""

    after: Row | None
    to: Row | None
    rows: int
    lines: bytes


def _portions(ends: Ends, table: ServerTable, after: Row | None) -> Iterator[Portion]:
    while True:
        last = next(iter(ends.clone.read(load_data_lines.last_of_portion(table, after))), None)
        rows, lines = made(ends, table, statements.between(table.key, after, last))
        yield Portion(after, last, rows, lines)
        if last is None:
            return
        after = last


def made(ends: Ends, table: ServerTable, condition: bytes) -> tuple[int, bytes]:
    """Return how many rows of the clone's meet the condition, -1 for an unknown number, and their lines; none
    where the server could not make them."""
    found = ends.clone.read_strictly(load_data_lines.lines(table, condition))
    if not found:
        return -1, b""
    rows, long, lines = found[0]
    # One that is as long as it may be was cut.
    whole = not int(long or 0) and lines is not None and len(lines) < load_data_lines.LONGEST
    return int(rows or 0), (lines or b"") + b"\n" if whole else b""


@dataclass(frozen=True, slots=True)
class Load:
    """A portion that is under way, `taken` when production's server took it as it is."""

    portion: Portion
    session: RowConnection
    taken: Future[Taken]


@dataclass(slots=True)
class Filled:
    """The number of rows that were written, and the ranges of keys (after, up to) that are not proven yet."""

    written: int = 0
    unproven: list[tuple[Row | None, Row | None]] = field(default_factory=list)


def load_rows(ends: Ends, job: TableJob, after: Row | None) -> Filled:
    """Write the rows behind this key."""
    with ThreadPoolExecutor(max_workers=len(ends.loaders)) as workers:
        loading = Loading(ends, job, workers, deque(ends.loaders))
        if after:
            loading.filled.unproven.append((None, after))
        ahead = _ahead(_portions(ends, job.table, after), loading.reading, give_up=ends.clone.abort)
        with closing(ahead) as portions:
            for portion in portions:
                if portion.rows:
                    loading.begin(portion)
        loading.end()
    return loading.filled


def _ahead(
    portions: Iterator[Portion], reading: Lock, *, give_up: Callable[[], None]
) -> Generator[Portion, None, None]:
    """Have the clone's server make the next one while one is loaded, `reading` held meanwhile.

    Who stops before the end, as by Ctrl-C, does not wait for an answer that may never come: `give_up` is
    called, which has it fail.
    """

    def next_one() -> Portion | None:
        with reading:
            return next(portions, None)

    with ThreadPoolExecutor(max_workers=1) as reader:
        try:
            made_next = reader.submit(next_one)
            while portion := made_next.result():
                made_next = reader.submit(next_one)
                yield portion
        except BaseException:
            give_up()
            raise


@dataclass(slots=True)
class Loading:
    """The loads that are under way, the one with the first keys first, and the sessions that are `free`.
    Who uses the clone's session holds `reading`."""

    ends: Ends
    job: TableJob
    workers: ThreadPoolExecutor
    free: deque[RowConnection]
    reading: Lock = field(default_factory=Lock)
    loads: deque[Load] = field(default_factory=deque)
    filled: Filled = field(default_factory=Filled)

    def begin(self, portion: Portion) -> None:
        """Load a portion when a session is free, and the throttle lets it."""
        if not self.free:
            self._end_first()
        if looks := self.ends.throttle.may_wait:
            # No transaction stays open meanwhile.
            self.end()
        self.ends.throttle.wait(len(portion.lines), looks=looks)
        session = self.free.popleft()
        self.loads.append(Load(portion, session, self.workers.submit(_load, session, self.job, portion)))

    def end(self) -> None:
        """Wait for all of them."""
        while self.loads:
            self._end_first()

    def _end_first(self) -> None:
        load = self._done()
        if load.taken.result() != "no" and committed(load.session):
            self.filled.written += load.portion.rows
            if load.taken.result() != "proven":
                self._note_unproven(load.portion)
        else:
            # Nothing of ours may stand in the way of the statements, which come first.
            load.session.write(b"ROLLBACK")
            later = [self._taken_back().portion for _ in list(self.loads)]
            self._insert(load.portion)
            for portion in later:
                self.begin(portion)
                self.end()
        written = self.filled.written
        self.ends.progress.advance(written, max(self.job.table.rows, written), "rows")

    def _done(self) -> Load:
        load = self.loads.popleft()
        load.taken.result()
        self.free.append(load.session)
        return load

    def _taken_back(self) -> Load:
        load = self._done()
        load.session.write(b"ROLLBACK")
        return load

    def _insert(self, portion: Portion) -> None:
        table = self.job.table
        query = statements.read_between(table, table.stored, portion.after, portion.to)
        with self.reading:
            self.filled.written += insert_rows(self.ends, self.job, query, self.filled.written)
        self._note_unproven(portion)

    def _note_unproven(self, portion: Portion) -> None:
        self.filled.unproven.append((portion.after, portion.to))


def committed(session: RowConnection) -> bool:
    """Return False where a global read lock keeps everybody from it, which takes the rows back."""
    try:
        session.write(b"COMMIT")
    except StatementFailed as failure:
        if failure.code not in BUSY:
            raise
        return False
    return True


def _load(session: RowConnection, job: TableJob, portion: Portion) -> Taken:
    """Load a portion's lines in a transaction that stays open, and prove them."""
    if not loaded(session, load_data_lines.load(job.work, job.table), portion.rows, portion.lines):
        return "no"
    asked = load_data_lines.proof(
        job.work, job.table, statements.between(job.table.key, portion.after, portion.to)
    )
    try:
        found = session.read_strictly(asked)
    except StatementFailed:
        return "no"
    return "proven" if found and load_data_lines.proves(found[0], portion.rows, portion.lines) else "taken"


def loaded(session: RowConnection, statement: bytes, rows: int, lines: bytes) -> bool:
    """Load lines in a transaction that stays open. Return False where production would not have taken them
    as they are."""
    if not lines:
        return False
    session.write(b"START TRANSACTION")
    try:
        return session.load(statement, lines) == (rows, 0)
    except StatementFailed:
        return False
