"""Fill a new table with the clone's rows, and prove that it holds them."""

from collections.abc import Iterator, Sequence

from zbackup.engines.mysql.production import statements
from zbackup.engines.mysql.production.tables import Column, ServerTable, quoted_name
from zbackup.engines.mysql.server.connection import Row, RowConnection
from zbackup.features.copyback.mysql.copy_sessions import Ends, on_both
from zbackup.features.copyback.mysql.insert_rows import insert_rows
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.features.copyback.mysql.load_rows import Filled, load_rows
from zbackup.model.errors import VerificationFailed
from zbackup.model.table_name import TableName

COMPARED_ROWS = 20_000


def fill(ends: Ends, job: TableJob, where: str) -> Filled:
    """Write the rows that the working table lacks behind its last key.

    Each statement is a transaction of its own, so that what is there after a kill is a beginning.
    """
    table, columns = job.table, job.table.stored
    after = last_key(ends.production, job.work, table.key)
    if not table.key and ends.production.read(f"SELECT 1 FROM {quoted_name(job.work)} LIMIT 1".encode()):
        # Without a key nobody can tell which rows are there.
        ends.production.write(f"TRUNCATE TABLE {quoted_name(job.work)}".encode())
    if job.as_lines:
        return load_rows(ends, job, after)
    query = statements.read_rows(table, columns, after=after, where=where)
    return Filled(insert_rows(ends, job, query), [(None, None)])


def last_key(connection: RowConnection, name: TableName, key: Sequence[Column]) -> Row | None:
    """The greatest key there is."""
    if not key:
        return None
    query = f"SELECT {statements.selected(key)} FROM {quoted_name(name)}".encode()
    rows = connection.read(query + statements.order(key, last_first=True) + b" LIMIT 1")
    return rows[0] if rows else None


def prove(ends: Ends, job: TableJob, where: str, unproven: Sequence[tuple[Row | None, Row | None]]) -> None:
    """Raise VerificationFailed unless the working table holds exactly the clone's rows of these ranges."""
    table = job.table
    limit = f" AND ({where}\n)".encode() if where else b""
    done = 0
    for after, to in (part for span in unproven for part in ranges(ends.clone, table, *span)):
        ends.throttle.wait()
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


def ranges(
    connection: RowConnection, table: ServerTable, after: Row | None = None, to: Row | None = None
) -> Iterator[tuple[Row | None, Row | None]]:
    """Ranges of keys (after, up to), each with COMPARED_ROWS rows, that cover the table or this range of it;
    one without a key."""
    while table.key:
        query = statements.read_between(table, table.key, after, to)
        rows = connection.read(query + f" LIMIT 1 OFFSET {COMPARED_ROWS - 1}".encode())
        if not rows:
            break
        yield after, rows[0]
        after = rows[0]
    yield after, to
