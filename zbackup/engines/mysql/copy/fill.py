"""Fill a new table with the clone's rows, and prove that it holds them."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from zbackup.engines.mysql.copy import made_lines, statements
from zbackup.engines.mysql.copy.brake import Brake
from zbackup.engines.mysql.copy.job import TableJob
from zbackup.engines.mysql.copy.tables import Column, Table, quoted_name
from zbackup.engines.mysql.server.connection import Row, RowConnection, StatementFailed
from zbackup.model.copying import TableName
from zbackup.model.errors import VerificationFailed
from zbackup.model.progress import Progress

BATCH_BYTES = 1 << 20
BATCH_ROWS = 2000
COMPARED_ROWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Sessions for rows: the clone's, with one view of all that is read, and production's."""

    clone: RowConnection
    production: RowConnection
    brake: Brake
    progress: Progress


def fill(ends: Ends, job: TableJob, where: str) -> int:
    """Write the rows that the working table lacks behind its last key; how many.

    Each statement is a transaction of its own, so that what is there after a kill is a beginning.
    """
    table, columns = job.table, job.table.stored
    after = last_key(ends.production, job.work, table.key)
    if not table.key and ends.production.read(f"SELECT 1 FROM {quoted_name(job.work)} LIMIT 1".encode()):
        # Without a key nobody can tell which rows are there.
        ends.production.write(f"TRUNCATE TABLE {quoted_name(job.work)}".encode())
    if job.as_lines:
        return fill_with_lines(ends, job, after)
    return _as_statements(ends, job, statements.read_rows(table, columns, after=after, where=where))


def _as_statements(ends: Ends, job: TableJob, query: bytes, before: int = 0) -> int:
    table, columns = job.table, job.table.stored
    written = 0
    with ThreadPoolExecutor(max_workers=1) as writer:
        # One statement is done while the next is read and made; they stay in their order.
        begun: Future[int] | None = None
        for rows in batches(ends.clone.stream(query)):
            statement = statements.insert(job.work, columns, rows)
            if begun:
                begun.result()
            ends.brake.wait(len(statement))
            begun = writer.submit(ends.production.write, statement)
            written += len(rows)
            ends.progress.advance(before + written, max(table.rows, before + written), "rows")
        if begun:
            begun.result()
    return written


def fill_with_lines(ends: Ends, job: TableJob, after: Row | None) -> int:
    """The same with lines that the clone's server makes: see made_lines. A portion that cannot come so, or is
    not taken as it is, is written as statements."""
    table = job.table
    statement = made_lines.load(job.work, table)
    written = 0
    with ThreadPoolExecutor(max_workers=1) as writer:
        begun: tuple[Portion, Future[bool]] | None = None

        def ended() -> int:
            """Wait for the portion that is under way; how many rows of it had to be written as statements."""
            if begun is None:
                return 0
            portion, taken = begun
            if taken.result():
                return portion.rows
            query = statements.read_between(table, table.stored, portion.after, portion.to)
            return _as_statements(ends, job, query, written)

        for portion in _portions(ends, table, after):
            written += ended()
            begun = None
            ends.progress.advance(written, max(table.rows, written), "rows")
            if not portion.rows:
                continue
            ends.brake.wait(len(portion.lines))
            begun = portion, writer.submit(_load, ends.production, statement, portion)
        written += ended()
    ends.progress.advance(written, max(table.rows, written), "rows")
    return written


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


def _load(production: RowConnection, statement: bytes, portion: Portion) -> bool:
    """Write a portion's lines in one transaction; False where production would not have taken them as they
    are, and has none."""
    if not portion.lines:
        return False
    production.write(b"START TRANSACTION")
    try:
        taken = production.load(statement, portion.lines) == (portion.rows, 0)
    except StatementFailed:
        taken = False
    production.write(b"COMMIT" if taken else b"ROLLBACK")
    return taken


def on_both(ends: Ends, in_clone: bytes, in_production: bytes) -> tuple[list[Row], list[Row]]:
    """Ask both servers at once."""
    with ThreadPoolExecutor(max_workers=1) as other:
        there = other.submit(ends.clone.read, in_clone)
        here = ends.production.read(in_production)
        return there.result(), here


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


def last_key(connection: RowConnection, name: TableName, key: Sequence[Column]) -> Row | None:
    """The greatest key there is."""
    if not key:
        return None
    query = f"SELECT {statements.selected(key)} FROM {quoted_name(name)}".encode()
    rows = connection.read(query + statements.order(key, last_first=True) + b" LIMIT 1")
    return rows[0] if rows else None


def prove(ends: Ends, job: TableJob, where: str) -> None:
    """Raise VerificationFailed unless the working table holds exactly the clone's rows."""
    table = job.table
    limit = f" AND ({where}\n)".encode() if where else b""
    done = 0
    for after, to in ranges(ends.clone, table):
        ends.brake.wait()
        span = statements.between(table.key, after, to)
        (there,), (here,) = on_both(
            ends,
            statements.digest(table.name, table.stored, span + limit),
            statements.digest(job.work, table.stored, span),
        )
        if there != here or not statements.is_whole(here):
            counts = ", ".join(
                f"{int(row[0] or 0)} {whose}"
                for row, whose in ((there, "in the clone"), (here, "in the copy"))
            )
            reason = "did somebody write to the clone meanwhile?"
            if not (statements.is_whole(here) and statements.is_whole(there)):
                reason = (
                    "rows of it are too long for the server's max_allowed_packet: raise that on both sides"
                )
            raise VerificationFailed(
                f"{job.step.source} did not come out as it is in the clone ({counts}, of one range of keys); "
                + reason
            )
        done += int(here[0] or 0)
        ends.progress.advance(done, max(table.rows, done), "rows")


def ranges(connection: RowConnection, table: Table) -> Iterator[tuple[Row | None, Row | None]]:
    """Ranges of keys (after, up to) that cover the table, each with COMPARED_ROWS rows; one without a key."""
    after: Row | None = None
    while table.key:
        query = statements.read_rows(table, table.key, after=after)
        rows = connection.read(query + f" LIMIT 1 OFFSET {COMPARED_ROWS - 1}".encode())
        if not rows:
            break
        yield after, rows[0]
        after = rows[0]
    yield after, None
