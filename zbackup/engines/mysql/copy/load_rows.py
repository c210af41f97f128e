"""Write rows with lines that the clone's server makes, in several sessions at once: see made_lines.

Each portion is a transaction of its own. Portions are loaded side by side, and committed in the order of
their keys, so that what is there after a kill is a beginning. A portion that cannot come as lines, or is not
taken as it is, is written as statements.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from zbackup.engines.mysql.copy import made_lines, statements
from zbackup.engines.mysql.copy.ends import Ends
from zbackup.engines.mysql.copy.insert_rows import BUSY, insert_rows
from zbackup.engines.mysql.copy.job import TableJob
from zbackup.engines.mysql.copy.tables import Table
from zbackup.engines.mysql.server.connection import Row, RowConnection, StatementFailed


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows of a range of keys. `lines` is empty where the server could not make them."""

    after: Row | None
    to: Row | None
    rows: int
    lines: bytes


def _portions(ends: Ends, table: Table, after: Row | None) -> Iterator[Portion]:
    while True:
        last = next(iter(ends.clone.read(made_lines.last_of_portion(table, after))), None)
        asked = made_lines.lines(table, statements.between(table.key, after, last))
        found = ends.clone.read_strictly(asked)
        rows, long, lines = found[0] if found else (b"-1", b"0", None)
        # One that is as long as it may be was cut.
        whole = not int(long or 0) and lines is not None and len(lines) < made_lines.LONGEST
        yield Portion(after, last, int(rows or 0), (lines or b"") + b"\n" if whole else b"")
        if last is None:
            return
        after = last


@dataclass(frozen=True, slots=True)
class Load:
    """A portion that is under way, `taken` when production's server took it as it is."""

    portion: Portion
    session: RowConnection
    taken: Future[bool]


def load_rows(ends: Ends, job: TableJob, after: Row | None) -> int:
    """Write the rows behind this key; how many."""
    with ThreadPoolExecutor(max_workers=len(ends.loaders)) as workers:
        loading = Loading(ends, job, workers, deque(ends.loaders))
        for portion in _portions(ends, job.table, after):
            if portion.rows:
                loading.begin(portion)
        loading.end()
    return loading.written


@dataclass(slots=True)
class Loading:
    """The loads that are under way, the one with the first keys first, and the sessions that are `free`."""

    ends: Ends
    job: TableJob
    workers: ThreadPoolExecutor
    free: deque[RowConnection]
    loads: deque[Load] = field(default_factory=deque)
    written: int = 0

    def begin(self, portion: Portion) -> None:
        """Load a portion when a session is free, and the brake lets it."""
        if not self.free:
            self._end_first()
        if self.ends.brake.may_wait:
            # No transaction stays open meanwhile.
            self.end()
        self.ends.brake.wait(len(portion.lines))
        session = self.free.popleft()
        statement = made_lines.load(self.job.work, self.job.table)
        self.loads.append(Load(portion, session, self.workers.submit(_load, session, statement, portion)))

    def end(self) -> None:
        """Wait for all of them."""
        while self.loads:
            self._end_first()

    def _end_first(self) -> None:
        load = self._done()
        if load.taken.result() and _committed(load.session):
            self.written += load.portion.rows
        else:
            # Nothing of ours may stand in the way of the statements, which come first.
            load.session.write(b"ROLLBACK")
            later = [self._taken_back().portion for _ in list(self.loads)]
            self._insert(load.portion)
            for portion in later:
                self.begin(portion)
                self.end()
        self.ends.progress.advance(self.written, max(self.job.table.rows, self.written), "rows")

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
        self.written += insert_rows(self.ends, self.job, query, self.written)


def _committed(session: RowConnection) -> bool:
    """Return False where a global read lock keeps everybody from it, which takes the rows back."""
    try:
        session.write(b"COMMIT")
    except StatementFailed as failure:
        if failure.code not in BUSY:
            raise
        return False
    return True


def _load(session: RowConnection, statement: bytes, portion: Portion) -> bool:
    """Load a portion's lines in a transaction that stays open. Return False where production would not have
    taken them as they are."""
    if not portion.lines:
        return False
    session.write(b"START TRANSACTION")
    try:
        return session.load(statement, portion.lines) == (portion.rows, 0)
    except StatementFailed:
        return False
