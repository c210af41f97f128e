"""Rows into the table that production has: those whose key it lacks, and those that differ."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from zbackup.engines.mysql.production import statements
from zbackup.engines.mysql.production.statements import NO_PARENT, NOT_TAKEN
from zbackup.engines.mysql.production.tables import Column, ServerTable
from zbackup.engines.mysql.production.throttle import ended_if_silent
from zbackup.engines.mysql.server.connection import ConnectionLost, Row, StatementFailed
from zbackup.features.copyback.copying import CopyWish, Difference, RowChange
from zbackup.features.copyback.mysql import load_data_lines
from zbackup.features.copyback.mysql.copy_sessions import Ends
from zbackup.features.copyback.mysql.fill import ranges
from zbackup.features.copyback.mysql.insert_rows import BATCH_ROWS, again, batches
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.features.copyback.mysql.missing_keys import LackingNumbers, is_same, lacking, select
from zbackup.model.errors import DatabaseError

EXAMPLES = 20
SHOWN = 40


@dataclass(slots=True)
class CopyTally:
    """The count of what was put back, and of what production did not take: `orphans` of those for want of a
    parent's row."""

    inserted: int = 0
    updated: int = 0
    refused: int = 0
    orphans: int = 0
    conflicts: list[str] = field(default_factory=list)

    def refuse(self, key: str, why: object) -> None:
        self.refused += 1
        if len(self.conflicts) < EXAMPLES:
            self.conflicts.append(f"{key}: {why}")


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of the clone's and, if production has that key, its own."""

    key: Row
    clone: Row
    there: Row | None


def difference(ends: Ends, job: TableJob, wish: CopyWish, remembered: LackingNumbers) -> Difference:
    """Compare, and change nothing. Where only numbers of keys are compared, those that production lacks are
    `remembered`."""
    if not wish.changed and load_data_lines.are_numbers(job.table.key):
        missing = 0
        for keys in lacking(ends, job, wish.where):
            remembered.add(keys)
            missing += len(keys)
            ends.progress.advance(missing, 0, "rows are missing")
        remembered.end()
        return Difference(missing=missing, changed=None, inserts=wish.missing)
    columns = job.table.stored
    missing = changed = seen = 0
    examples: list[RowChange] = []
    for pairs in _pairs(ends, job, wish):
        for pair in pairs:
            if pair.there is None:
                missing += 1
            elif wish.changed and pair.clone != pair.there:
                changed += 1
                if len(examples) < EXAMPLES:
                    examples.append(_example(job.table, columns, pair))
        seen += len(pairs)
        ends.progress.advance(seen, max(job.table.rows, seen), "rows")
    return Difference(
        missing=missing,
        changed=changed if wish.changed else None,
        inserts=wish.missing,
        examples=tuple(examples),
    )


def put_back(
    ends: Ends, job: TableJob, wish: CopyWish, found: Iterator[list[Row]] | None = None
) -> CopyTally:
    """Insert and update, in transactions of their own. What is right already is left alone, so that a run
    that was cut short is just started again. `found` are the keys that a comparison found to be lacking."""
    tally = CopyTally()
    columns = job.table.stored
    for pairs in _pairs(ends, job, wish, found):
        if wish.missing:
            insert_lacking(ends, job, pairs, tally)
        differing = [p for p in pairs if p.there is not None and p.clone != p.there] if wish.changed else []
        for start in range(0, len(differing), BATCH_ROWS // 10):
            some = differing[start : start + BATCH_ROWS // 10]
            ends.throttle.wait(_size([pair.clone for pair in some]))
            _update(ends, job, columns, some, tally)
        ends.progress.advance(tally.inserted + tally.updated, 0, "rows put back")
    return tally


def _pairs(
    ends: Ends, job: TableJob, wish: CopyWish, found: Iterator[list[Row]] | None = None
) -> Iterator[list[Pair]]:
    """The clone's rows beside production's, in portions; ranges that are equal are left out."""
    table = job.table
    if not wish.changed:
        for keys in found or lacking(ends, job, wish.where):
            for start in range(0, len(keys), BATCH_ROWS // 2):
                yield from pairs_of(ends, job, keys[start : start + BATCH_ROWS // 2], new=not found)
        return
    for after, to in ranges(ends.clone, table):
        ends.throttle.wait()
        span = statements.between(table.key, after, to)
        if not wish.where and is_same(ends, job, span, table.stored):
            continue
        wanted = span + (f" AND ({wish.where}\n)".encode() if wish.where else b"")
        # One after the other: nobody knows how long rows are.
        rows = ends.clone.stream(select(table.name, table.stored, wanted, table.key))
        for batch in batches(rows):
            yield _beside(ends, job, batch)


def pairs_of(ends: Ends, job: TableJob, keys: Sequence[Row], *, new: bool = False) -> Iterator[list[Pair]]:
    """Yield the clone's rows of these keys beside production's, in portions. `new`: production had none of
    these keys when it was asked just now."""
    table = job.table
    key, some = _key_of(table), statements.one_of(table.key, keys)
    for batch in batches(ends.clone.stream(select(table.name, table.stored, some, table.key))):
        if new and load_data_lines.are_numbers(table.key):
            # Equal numbers are equal in bytes.
            yield [Pair(key(row), row, None) for row in batch]
        else:
            yield _beside(ends, job, batch)


def insert_lacking(ends: Ends, job: TableJob, pairs: Sequence[Pair], tally: CopyTally) -> None:
    """Insert the rows of pairs that production has no row of."""
    for rows in batches(pair.clone for pair in pairs if pair.there is None):
        ends.throttle.wait(_size(rows))
        _insert(ends, job, rows, tally)


def _size(rows: Sequence[Row]) -> int:
    return sum(len(value) for row in rows for value in row if value)


def _beside(ends: Ends, job: TableJob, rows: Sequence[Row], *, locked: bool = False) -> list[Pair]:
    """Each of the clone's rows with production's of the same key, as the server compares keys."""
    table = job.table
    key = _key_of(table)
    some = statements.one_of(table.key, [key(row) for row in rows])
    end = b" FOR UPDATE" if locked else b""
    there = {key(r): r for r in ends.production.read(select(job.work, table.stored, some, end=end))}
    pairs = [Pair(key(row), row, there.pop(key(row), None)) for row in rows]
    if not there:
        return pairs

    def equal(pair: Pair) -> Row | None:
        """The row whose key is another in bytes, and the same in its collation: only the server knows."""
        one = select(job.work, table.stored, statements.is_row(table.key, pair.key), end=end)
        return next(iter(ends.production.read(one)), None)

    return [p if p.there is not None else Pair(p.key, p.clone, equal(p)) for p in pairs]


def _key_of(table: ServerTable) -> Callable[[Row], Row]:
    places = [table.stored.index(column) for column in table.key]
    return lambda row: tuple(row[place] for place in places)


def _insert(ends: Ends, job: TableJob, rows: list[Row], tally: CopyTally) -> None:
    """All at once; where production takes not all of them, one by one."""
    try:
        again(lambda: ends.production.write(statements.insert(job.work, job.table.stored, rows)))
        tally.inserted += len(rows)
        return
    except StatementFailed as failure:
        if failure.code not in NOT_TAKEN:
            raise
    left = rows
    while left:
        refused = [(row, why) for row in left if (why := _insert_row(ends, job, row, tally))]
        orphans = [row for row, why in refused if why.code in NO_PARENT]
        # A row's parent may be another row of these.
        later = orphans if len(refused) < len(left) else []
        for row, why in refused:
            if not later or why.code not in NO_PARENT:
                tally.refuse(_shown_key(job.table, _key_of(job.table)(row)), why)
        tally.orphans += 0 if later else len(orphans)
        left = later


def _insert_row(ends: Ends, job: TableJob, row: Row, tally: CopyTally) -> StatementFailed | None:
    """Insert a row. Return why production does not take it, None if it is there."""
    try:
        again(partial(ends.production.write, statements.insert(job.work, job.table.stored, [row])))
    except StatementFailed as failure:
        if failure.code not in NOT_TAKEN:
            raise
        key = _key_of(job.table)(row)
        own = statements.is_row(job.table.key, key)
        # Somebody else may have inserted it meanwhile.
        return None if ends.production.read(select(job.work, job.table.key, own)) else failure
    tally.inserted += 1
    return None


def _update(
    ends: Ends, job: TableJob, columns: Sequence[Column], pairs: Sequence[Pair], tally: CopyTally
) -> None:
    """Update rows in one transaction, with production's locked: what they are then is what counts."""

    def once() -> int:
        ends.production.write(b"START TRANSACTION")
        try:
            done = 0
            for pair in _beside(ends, job, [p.clone for p in pairs], locked=True):
                if pair.there is not None and pair.there != pair.clone:
                    done += _update_row(ends, job, columns, pair, tally)
            ends.production.write(b"COMMIT")
            return done
        except ConnectionLost:
            raise
        except DatabaseError:
            ends.production.write(b"ROLLBACK")
            raise

    before = tally.refused, len(tally.conflicts)

    def fresh() -> int:
        tally.refused = before[0]
        del tally.conflicts[before[1] :]
        return once()

    with ended_if_silent(ends.production):
        tally.updated += again(fresh)


def _update_row(ends: Ends, job: TableJob, columns: Sequence[Column], pair: Pair, tally: CopyTally) -> int:
    # All columns: one that is left out may be set by the server (ON UPDATE CURRENT_TIMESTAMP).
    values = list(zip(columns, pair.clone, strict=True))
    try:
        ends.production.write(statements.update(job.work, job.table.key, pair.key, values))
    except StatementFailed as failure:
        if failure.code not in NOT_TAKEN:
            raise
        tally.refuse(_shown_key(job.table, pair.key), failure)
        return 0
    return 1


def _example(table: ServerTable, columns: Sequence[Column], pair: Pair) -> RowChange:
    values = zip(columns, pair.clone, pair.there or (), strict=True)
    return RowChange(
        key=_shown_key(table, pair.key),
        values=tuple((c.name, _shown(c, old), _shown(c, new)) for c, new, old in values if new != old),
    )


def _shown_key(table: ServerTable, key: Row) -> str:
    return ", ".join(f"{c.name}={_shown(c, value)}" for c, value in zip(table.key, key, strict=True))


def _shown(column: Column, value: bytes | None) -> str:
    """A value for people."""
    if value is None:
        return "NULL"
    if column.kind == "bytes":
        text = "0x" + value[: SHOWN // 2].hex()
    else:
        text = value[: SHOWN * 4].decode(errors="backslashreplace")
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
