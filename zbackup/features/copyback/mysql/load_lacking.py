"""Load the rows that production's own table lacks, with lines that the clone's server makes.

Each portion is a transaction of its own. A load leaves out a row whose key is there by then, or which a
unique or foreign key or a CHECK keeps out: such a portion is taken back, and its rows are written as
statements.
"""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from zbackup.engines.mysql.production import statements
from zbackup.engines.mysql.production.throttle import ended_if_silent
from zbackup.engines.mysql.server.connection import Row, RowConnection
from zbackup.features.copyback.mysql import load_data_lines
from zbackup.features.copyback.mysql.compare import CopyTally, insert_lacking, pairs_of
from zbackup.features.copyback.mysql.copy_sessions import Ends
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.features.copyback.mysql.load_rows import committed, loaded, made


def load_lacking(ends: Ends, job: TableJob, found: Iterable[list[Row]]) -> CopyTally:
    """Put back the rows of the keys that were found. What is there already is left alone, so that a run that
    was cut short is just started again."""
    # By the first session, keys are compared meanwhile.
    sessions = ends.loaders[1:]
    most = load_data_lines.at_a_time(job.table)
    with ThreadPoolExecutor(max_workers=len(ends.loaders)) as workers:
        loading = LackingLoading(ends, job, workers, deque(sessions or ends.loaders))
        for keys in found:
            for start in range(0, len(keys), most):
                loading.begin(keys[start : start + most])
                if not sessions:
                    loading.end()
        loading.end()
    return loading.tally


@dataclass(frozen=True, slots=True)
class LackingLoad:
    """A portion that is under way, `taken` when production has it as it is."""

    keys: list[Row]
    rows: int
    session: RowConnection
    taken: Future[bool]


@dataclass(slots=True)
class LackingLoading:
    """The loads that are under way, and the sessions that are `free`."""

    ends: Ends
    job: TableJob
    workers: ThreadPoolExecutor
    free: deque[RowConnection]
    loads: deque[LackingLoad] = field(default_factory=deque)
    tally: CopyTally = field(default_factory=CopyTally)

    def begin(self, keys: list[Row]) -> None:
        """Load the rows of some keys when a session is free, and the throttle lets it."""
        rows, lines = made(self.ends, self.job.table, statements.one_of(self.job.table.key, keys))
        if not self.free:
            self._end_first()
        self.ends.throttle.wait(len(lines))
        session = self.free.popleft()
        self.loads.append(
            LackingLoad(keys, rows, session, self.workers.submit(_load, session, self.job, rows, lines))
        )

    def end(self) -> None:
        """Wait for all of them."""
        while self.loads:
            self._end_first()

    def _end_first(self) -> None:
        load = self.loads.popleft()
        taken = load.taken.result()
        self.free.append(load.session)
        if taken:
            self.tally.inserted += load.rows
        else:
            for pairs in pairs_of(self.ends, self.job, load.keys):
                insert_lacking(self.ends, self.job, pairs, self.tally)
        self.ends.progress.advance(self.tally.inserted, 0, "rows put back")


def _load(session: RowConnection, job: TableJob, rows: int, lines: bytes) -> bool:
    if not lines:
        return False
    with ended_if_silent(session):
        if loaded(session, load_data_lines.load(job.work, job.table), rows, lines) and committed(session):
            return True
        session.write(b"ROLLBACK")
        return False
