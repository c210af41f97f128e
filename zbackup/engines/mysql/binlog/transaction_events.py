"""All events of one transaction, with what was compressed opened: for those who read row images."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.compressed import (
    QUERY_COMPRESSED,
    ROWS_COMPRESSED,
    inner_events,
    uncompress,
)
from zbackup.engines.mysql.binlog.errors import BinlogDamaged
from zbackup.engines.mysql.binlog.events import HEADER_SIZE, SHAPE, TRANSACTION_PAYLOAD
from zbackup.engines.mysql.binlog.reader import opened
from zbackup.engines.mysql.binlog.table_map import number
from zbackup.model.log import LogPosition

_ROWS_POST_HEADER_V1: Final = 8
_UPDATES: Final = frozenset({24, 31})
_V2: Final = 30


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its type as if it had not been compressed, and its body without header and checksum."""

    kind: int
    body: bytes


def transaction_events(path: Path, start: LogPosition, end: LogPosition) -> Iterator[Event]:
    """The events between two offsets of a file that lie between transactions, each with a sound checksum.

    Raise BinlogDamaged when one is not, or cannot be opened.
    """
    with opened(path, end.offset) as scanner:
        for kind, body in scanner.events(start.offset, end.offset):
            try:
                yield from _opened(kind, body)
            except (ValueError, IndexError) as broken:
                raise BinlogDamaged(f"{path.name}: in the transaction at {start}: {broken}") from broken


def _opened(kind: int, body: bytes) -> Iterator[Event]:
    if kind == TRANSACTION_PAYLOAD:
        for inner in inner_events(body):
            yield Event(SHAPE.unpack_from(inner)[0], inner[HEADER_SIZE:])
    elif kind == QUERY_COMPRESSED:
        at = events.text_at(body)
        yield Event(events.QUERY, body[:at] + uncompress(body[at:]))
    elif kind in ROWS_COMPRESSED:
        plain = ROWS_COMPRESSED[kind]
        at = rows_at(plain, body)
        yield Event(plain, body[:at] + uncompress(body[at:]))
    else:
        yield Event(kind, body)


def rows_at(kind: int, body: bytes) -> int:
    """Where the rows begin in a rows event: behind the numbers of columns and which of them are
    there."""
    at = _ROWS_POST_HEADER_V1
    if kind >= _V2:
        at += int.from_bytes(body[at : at + 2], "little") or 2
    columns, at = number(body, at)
    return at + (columns + 7) // 8 * (2 if kind in _UPDATES else 1)


def rows_table(event: Event) -> int:
    """The number of the table that a rows event is of: see table_map.TableMap.number."""
    return int.from_bytes(event.body[:6], "little")
