"""Rows into the table that production has: those whose key it lacks, and those that differ."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from zbackup.engines.mysql.copy import made_lines, statements
from zbackup.engines.mysql.copy.ends import Ends, on_both
from zbackup.engines.mysql.copy.fill import ranges
from zbackup.engines.mysql.copy.insert_rows import BATCH_ROWS, again, batches
from zbackup.engines.mysql.copy.job import TableJob
from zbackup.engines.mysql.copy.tables import Column, Table, quoted_name
from zbackup.engines.mysql.server.connection import ConnectionLost, Row, StatementFailed
from zbackup.model.copying import CopyWish, Difference, RowChange, TableName
from zbackup.model.errors import DatabaseError

EXAMPLES = 20
SHOWN = 40
NOT_TAKEN = (1062, 1216, 1451, 1452, 1557, 1586, 1761, 1762, 3819, 4025)
"""What production's other rows or rules have against a row: unique and foreign keys, CHECK constraints."""
NO_PARENT = (1216, 1452)


@dataclass(slots=True)
class Tally:
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


def difference(ends: Ends, job: TableJob, wish: CopyWish) -> Difference:
    """Compare, and change nothing."""
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


def put_back(ends: Ends, job: TableJob, wish: CopyWish) -> Tally:
    """Insert and update, in transactions of their own. What is right already is left alone, so that a run
    that was cut short is just started again."""
    tally = Tally()
    columns = job.table.stored
    for pairs in _pairs(ends, job, wish):
        lacking = [pair for pair in pairs if pair.there is None] if wish.missing else []
        for rows in batches(pair.clone for pair in lacking):
            ends.brake.wait()
            _insert(ends, job, rows, tally)
        differing = [p for p in pairs if p.there is not None and p.clone != p.there] if wish.changed else []
        for start in range(0, len(differing), BATCH_ROWS // 10):
            ends.brake.wait()
            _update(ends, job, columns, differing[start : start + BATCH_ROWS // 10], tally)
        ends.progress.advance(tally.inserted + tally.updated, 0, "rows put back")
    return tally


def _pairs(ends: Ends, job: TableJob, wish: CopyWish) -> Iterator[list[Pair]]:
    """The clone's rows beside production's, in portions; ranges that are equal are left out."""
    table, limit = job.table, f"({wish.where}\n)" if wish.where else ""
    for after, to in ranges(ends.clone, table):
        ends.brake.wait()
        span = statements.between(table.key, after, to)
        # To list numbers takes a server a fraction of what their hashes take.
        listed = not wish.changed and made_lines.are_numbers(table.key)
        if not (limit or listed) and _same(ends, job, span, table.stored if wish.changed else table.key):
            continue
        wanted = span + (b" AND " + limit.encode() if limit else b"")
        if not wish.changed:
            yield from _lacking(ends, job, span, wanted)
            continue
        # One after the other: nobody knows how long rows are.
        rows = ends.clone.stream(_select(table.name, table.stored, wanted, table.key))
        for batch in batches(rows):
            yield _beside(ends, job, batch)


def _same(ends: Ends, job: TableJob, span: bytes, columns: Sequence[Column]) -> bool:
    """Tell whether a range holds the same rows on both sides, as far as these columns go."""
    asked = [statements.digest(name, columns, span) for name in (job.table.name, job.work)]
    found = on_both(ends, *asked)
    return found[0] == found[1] and statements.is_whole(found[0][0])


def _select(
    name: TableName,
    columns: Sequence[Column],
    condition: bytes,
    key: Sequence[Column] = (),
    *,
    end: bytes = b"",
) -> bytes:
    query = f"SELECT {statements.selected(columns)} FROM {quoted_name(name)} WHERE ".encode()
    return query + condition + statements.order(key) + end


def _lacking(ends: Ends, job: TableJob, span: bytes, wanted: bytes) -> Iterator[list[Pair]]:
    """Only the rows whose key production lacks: keys are read first, and whole rows of those alone."""
    table = job.table
    there, here = _keys(ends, job, wanted, span)
    have, key = set(here), _key_of(table)
    keys = [each for each in there if each not in have]
    for start in range(0, len(keys), BATCH_ROWS // 2):
        some = statements.one_of(table.key, keys[start : start + BATCH_ROWS // 2])
        rows = ends.clone.stream(_select(table.name, table.stored, some, table.key))
        for batch in batches(rows):
            if made_lines.are_numbers(table.key):
                # Equal numbers are equal in bytes, and production has none of these.
                yield [Pair(key(row), row, None) for row in batch]
            else:
                yield _beside(ends, job, batch)


def _keys(ends: Ends, job: TableJob, wanted: bytes, span: bytes) -> tuple[list[Row], list[Row]]:
    """The keys that the clone has of what is wanted, and production of the range, or of these alone."""
    table = job.table
    if made_lines.are_numbers(table.key):
        in_clone = made_lines.numbers(table.name, table.key[0], wanted, ordered=True)
        in_production = made_lines.numbers(job.work, table.key[0], span)
        (found,), (other,) = on_both(ends, in_clone, in_production)
        keys, others = made_lines.split(found), made_lines.split(other)
        if found == other and keys is not None:
            return [], []
        if keys is not None and others is not None:
            return keys, others
    limit = f" LIMIT {made_lines.MOST_KEYS}".encode()
    there, here = on_both(
        ends,
        _select(table.name, table.key, wanted, table.key),
        _select(job.work, table.key, span, end=limit),
    )
    if len(here) == made_lines.MOST_KEYS:
        here = []
        for start in range(0, len(there), BATCH_ROWS // 2):
            some = statements.one_of(table.key, there[start : start + BATCH_ROWS // 2])
            here += ends.production.read(_select(job.work, table.key, some))
    return there, here


def _beside(ends: Ends, job: TableJob, rows: Sequence[Row], *, locked: bool = False) -> list[Pair]:
    """Each of the clone's rows with production's of the same key, as the server compares keys."""
    table = job.table
    key = _key_of(table)
    some = statements.one_of(table.key, [key(row) for row in rows])
    end = b" FOR UPDATE" if locked else b""
    there = {key(r): r for r in ends.production.read(_select(job.work, table.stored, some, end=end))}
    pairs = [Pair(key(row), row, there.pop(key(row), None)) for row in rows]
    if not there:
        return pairs

    def equal(pair: Pair) -> Row | None:
        """The row whose key is another in bytes, and the same in its collation: only the server knows."""
        one = _select(job.work, table.stored, statements.is_row(table.key, pair.key), end=end)
        return next(iter(ends.production.read(one)), None)

    return [p if p.there is not None else Pair(p.key, p.clone, equal(p)) for p in pairs]


def _key_of(table: Table) -> Callable[[Row], Row]:
    places = [table.stored.index(column) for column in table.key]
    return lambda row: tuple(row[place] for place in places)


def _insert(ends: Ends, job: TableJob, rows: list[Row], tally: Tally) -> None:
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


def _insert_row(ends: Ends, job: TableJob, row: Row, tally: Tally) -> StatementFailed | None:
    """Insert a row. Return why production does not take it, None if it is there."""
    try:
        again(partial(ends.production.write, statements.insert(job.work, job.table.stored, [row])))
    except StatementFailed as failure:
        if failure.code not in NOT_TAKEN:
            raise
        key = _key_of(job.table)(row)
        own = statements.is_row(job.table.key, key)
        # Somebody else may have inserted it meanwhile.
        return None if ends.production.read(_select(job.work, job.table.key, own)) else failure
    tally.inserted += 1
    return None


def _update(
    ends: Ends, job: TableJob, columns: Sequence[Column], pairs: Sequence[Pair], tally: Tally
) -> None:
    """In one transaction, with production's rows locked: what they are then is what counts."""

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

    tally.updated += again(fresh)


def _update_row(ends: Ends, job: TableJob, columns: Sequence[Column], pair: Pair, tally: Tally) -> int:
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


def _example(table: Table, columns: Sequence[Column], pair: Pair) -> RowChange:
    values = zip(columns, pair.clone, pair.there or (), strict=True)
    return RowChange(
        key=_shown_key(table, pair.key),
        values=tuple((c.name, _shown(c, old), _shown(c, new)) for c, new, old in values if new != old),
    )


def _shown_key(table: Table, key: Row) -> str:
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
