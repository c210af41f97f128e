"""Write rows into a working table, each statement in a transaction of its own."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from zbackup.engines.mysql.production import statements
from zbackup.engines.mysql.production.statements import BUSY
from zbackup.engines.mysql.server.connection import Row, StatementFailed
from zbackup.features.copyback.mysql.copy_sessions import Ends
from zbackup.features.copyback.mysql.job import TableJob

BATCH_BYTES = 1 << 20
BATCH_ROWS = 2000
TRIES = 5


def insert_rows(ends: Ends, job: TableJob, query: bytes, before: int = 0) -> int:
    """Write what the clone's server finds for the query; how many rows. `before` were written by now."""
    table, columns = job.table, job.table.stored
    written = 0
    with ThreadPoolExecutor(max_workers=1) as writer:
        # One statement is done while the next is read and made; they stay in their order.
        begun: Future[int] | None = None
        for rows in batches(ends.clone.stream(query)):
            statement = statements.insert(job.work, columns, rows)
            if begun:
                begun.result()
            ends.throttle.wait(len(statement))
            begun = writer.submit(again, partial(ends.production.write, statement))
            written += len(rows)
            ends.progress.advance(before + written, max(table.rows, before + written), "rows")
        if begun:
            begun.result()
    return written


def again(action: Callable[[], int]) -> int:
    """Try again when somebody else holds a lock: our wait is short, so that nobody waits behind us."""
    for left in range(TRIES, -1, -1):
        try:
            return action()
        except StatementFailed as failure:
            if failure.code not in BUSY or not left:
                raise
    raise AssertionError("unreachable")


def batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Rows in bounded portions."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if value) + 16
        if size >= BATCH_BYTES or len(batch) >= BATCH_ROWS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
