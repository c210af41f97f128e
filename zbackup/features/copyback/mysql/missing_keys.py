"""Find the keys that the clone has and production's table lacks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zbackup.engines.mysql.production import statements
from zbackup.engines.mysql.production.tables import Column, quoted_name
from zbackup.engines.mysql.server.connection import Row
from zbackup.features.copyback.mysql import load_data_lines
from zbackup.features.copyback.mysql.copy_sessions import Ends, on_both
from zbackup.features.copyback.mysql.fill import ranges
from zbackup.features.copyback.mysql.insert_rows import BATCH_ROWS
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.model.table_name import TableName

MOST_REMEMBERED = 64 << 20
"""Bytes of keys, of all tables. Where there are more, they are looked for once more."""


@dataclass(slots=True)
class LackingNumbers:
    """Numbers that a comparison found to be lacking, each range's in a text, for the copy that follows it."""

    most: int = MOST_REMEMBERED
    texts: list[bytes] = field(default_factory=list)
    size: int = 0
    is_whole: bool = False

    def add(self, keys: Sequence[Row]) -> None:
        """Remember some, if they fit."""
        text = b"\n".join(row[0] or b"" for row in keys)
        self.size += len(text)
        if self.size <= self.most:
            self.texts.append(text)
        else:
            self.texts.clear()

    def end(self) -> None:
        """Note that these are all, unless some did not fit."""
        self.is_whole = self.size <= self.most

    def keys(self) -> Iterator[list[Row]]:
        """Yield the keys of each range."""
        for text in self.texts:
            yield [(number,) for number in text.split(b"\n")]


def lacking(ends: Ends, job: TableJob, where: str) -> Iterator[list[Row]]:
    """Yield the keys that production lacks, in their order, those of each range that has any.

    Keys are compared in bytes: where they are no numbers, production may have some of these, as other bytes
    that are equal in their collation.
    """
    limit = f" AND ({where}\n)".encode() if where else b""
    key = job.table.key
    for after, to in ranges(ends.clone, job.table):
        ends.throttle.wait()
        span = statements.between(key, after, to)
        if load_data_lines.are_numbers(key):
            # To list numbers takes a server a fraction of what their hashes take.
            found = _numbers(ends, job, span + limit, span)
        elif not limit and is_same(ends, job, span, key):
            continue
        else:
            found = _keys(ends, job, span + limit, span)
        if found:
            yield found


def is_same(ends: Ends, job: TableJob, span: bytes, columns: Sequence[Column]) -> bool:
    """Whether a range holds the same rows on both sides, as far as these columns go."""
    asked = [statements.digest(name, columns, span) for name in (job.table.name, job.work)]
    found = on_both(ends, *asked)
    return found[0] == found[1] and statements.is_whole(found[0][0])


def _numbers(ends: Ends, job: TableJob, wanted: bytes, span: bytes) -> list[Row]:
    column = job.table.key[0]
    in_clone = load_data_lines.numbers(job.table.name, column, wanted)
    (found,), (other,) = on_both(ends, in_clone, load_data_lines.numbers(job.work, column, span))
    there, here = load_data_lines.split(found), load_data_lines.split(other)
    if there is None or here is None:
        return _keys(ends, job, wanted, span)
    lacked = [] if found == other else set(there).difference(here)
    return [(number,) for number in sorted(lacked, key=_by_value)]


def _by_value(number: bytes) -> tuple[int, bytes]:
    """Numbers of other lengths, signs and fractions come in some order, too: it only spares the server."""
    return len(number), number


def _keys(ends: Ends, job: TableJob, wanted: bytes, span: bytes) -> list[Row]:
    """Read the keys that the clone has of what is wanted, and production of the range, or of these alone."""
    table = job.table
    limit = f" LIMIT {load_data_lines.MOST_KEYS}".encode()
    there, here = on_both(
        ends,
        select(table.name, table.key, wanted, table.key),
        select(job.work, table.key, span, end=limit),
    )
    if len(here) == load_data_lines.MOST_KEYS:
        here = []
        for start in range(0, len(there), BATCH_ROWS // 2):
            some = statements.one_of(table.key, there[start : start + BATCH_ROWS // 2])
            here += ends.production.read(select(job.work, table.key, some))
    have = set(here)
    return [each for each in there if each not in have]


def select(
    name: TableName,
    columns: Sequence[Column],
    condition: bytes,
    key: Sequence[Column] = (),
    *,
    end: bytes = b"",
) -> bytes:
    """Return the statement for these columns of what meets the condition, in the order of the `key`."""
    query = f"SELECT {statements.selected(columns)} FROM {quoted_name(name)} WHERE ".encode()
    return query + condition + statements.order(key) + end
