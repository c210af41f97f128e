"""The rows of one transaction as the log has them: what each was, and what it became. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.errors import damage_typed
from zbackup.engines.mysql.binlog.events import DELETES, INSERTS, UPDATES
from zbackup.engines.mysql.binlog.table_map import TableMap, number, read_table_map
from zbackup.engines.mysql.binlog.transaction_events import Event, rows_table
from zbackup.engines.mysql.production.tables import ServerTable
from zbackup.engines.mysql.sql.shown import LONGEST, shown
from zbackup.features.undo.mysql.values import Logged, Reader, Value, reader_of
from zbackup.features.undo.undoing import ImagesIncomplete
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName


class Unknown:
    """The mark in place of a value that the log does not hold (binlog_row_image other than FULL)."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()
Row = tuple[Value | Unknown, ...]
"""Values of a table's stored columns, in their order."""

_HEAD: Final = 8
_V2: Final = 30
_FRAME: Final = (b"BEGIN", b"COMMIT", b"SAVEPOINT ", b"XA START ", b"XA END ")
_SAID: Final = 100
_BY_TEXT: Final = frozenset({events.BEGIN_LOAD_QUERY, 18})
_NO_TABLE: Final = 0xFFFFFF


def never_whole(why: str) -> ImagesIncomplete:
    """Make the error for what the log does not hold, and no clone completes."""
    incomplete = ImagesIncomplete(why)
    incomplete.by_clone = False
    return incomplete


@dataclass(frozen=True, slots=True)
class Change:
    """One row, which was `before` (None: it was not there) and then `after` (None: it was gone)."""

    table: TableName
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class _Layout:
    """The readers of a table's rows: of each logged column, and its index among the stored ones."""

    name: TableName
    readers: tuple[Reader, ...]
    indexes: tuple[int | None, ...]
    stored: int


def touched_tables(found: Iterable[Event]) -> dict[TableName, TableMap]:
    """The tables whose rows the transaction changes.

    Raise Refused for one of which the log does not hold rows alone: it says why. BinlogDamaged where it makes
    no sense.
    """
    with damage_typed("the transaction"):
        return _touched(found)


def _touched(found: Iterable[Event]) -> dict[TableName, TableMap]:
    maps: dict[int, TableMap] = {}
    touched: dict[TableName, TableMap] = {}
    for event in found:
        if event.kind == events.TABLE_MAP:
            read = read_table_map(event.body)
            maps[read.number] = read
        elif event.kind == events.QUERY or event.kind in _BY_TEXT:
            _require_frame(event)
        elif event.kind in INSERTS | UPDATES | DELETES and rows_table(event) != _NO_TABLE:
            read = maps[rows_table(event)]
            name = TableName(read.schema, read.table)
            if (earlier := touched.setdefault(name, read)) and _shape(earlier) != _shape(read):
                raise Refused(f"{name} was altered within the transaction")
    if not touched:
        raise Refused("it changed no rows")
    return touched


def _shape(table: TableMap) -> tuple[object, ...]:
    return table.types, table.metadata


def _require_frame(event: Event) -> None:
    if event.kind in _BY_TEXT:
        raise Refused(
            "it is logged as a statement (LOAD DATA), and not by its rows: binlog_format was not ROW"
        )
    text = event.body[events.text_at(event.body) :]
    if not text.startswith(_FRAME):
        said = shown(text[:LONGEST].decode("utf-8", "replace"))[:_SAID]
        raise Refused(f"it is logged as a statement, and not by its rows: {said}")


def changes(found: Iterable[Event], tables: Mapping[TableName, ServerTable]) -> Iterator[Change]:
    """Each row that was changed, in the order of the log.

    Raise Refused for a table that was altered since, or has a column that the log does not tell exactly;
    ImagesIncomplete where the log holds parts of documents only, BinlogDamaged where it makes no sense.
    """
    with damage_typed("the transaction"):
        yield from _changes(found, tables)


def _changes(found: Iterable[Event], tables: Mapping[TableName, ServerTable]) -> Iterator[Change]:
    maps: dict[int, TableMap] = {}
    layouts: dict[int, _Layout] = {}
    for event in found:
        if event.kind == events.TABLE_MAP:
            read = read_table_map(event.body)
            maps[read.number] = read
            layouts.pop(read.number, None)
        elif event.kind in INSERTS | UPDATES | DELETES and rows_table(event) != _NO_TABLE:
            key = rows_table(event)
            if key not in layouts:
                layouts[key] = _layout(maps[key], tables)
            yield from _rows(event, layouts[key])


def _layout(read: TableMap, tables: Mapping[TableName, ServerTable]) -> _Layout:
    table = tables[TableName(read.schema, read.table)]
    try:
        return _Layout(
            name=table.name,
            readers=_readers(read, table),
            indexes=_indexes(table),
            stored=len(table.stored),
        )
    except Refused as refused:
        raise Refused(f"{table.name}: {refused}") from None


def _readers(read: TableMap, table: ServerTable) -> tuple[Reader, ...]:
    if len(read.types) != len(table.columns):
        raise Refused(
            f"it had {len(read.types)} columns, and has {len(table.columns)} now: it was altered since"
        )
    names = read.column_names
    if names and names != tuple(c.name for c in table.columns):
        raise Refused(f"its columns were {', '.join(names)}: it was altered since")
    pairs = zip(table.columns, read.types, read.metadata, strict=True)
    return tuple(reader_of(column, Logged(kind, metadata)) for column, kind, metadata in pairs)


def _indexes(table: ServerTable) -> tuple[int | None, ...]:
    counted = iter(range(len(table.columns)))
    return tuple(None if column.generated else next(counted) for column in table.columns)


def _rows(event: Event, layout: _Layout) -> Iterator[Change]:
    """Raise ValueError where the event makes no sense."""
    if event.kind == events.PARTIAL_UPDATE_ROWS:
        raise never_whole(f"the log holds parts of documents of {layout.name} (PARTIAL_JSON)")
    body, at = event.body, _HEAD
    if event.kind >= _V2:
        at += int.from_bytes(body[at : at + 2], "little") or 2
    columns, at = number(body, at)
    if columns != len(layout.readers):
        raise ValueError(f"rows of {layout.name} have {columns} columns")
    size = (columns + 7) // 8
    first = second = _present(body[at : at + size], columns)
    at += size
    updates = event.kind in UPDATES
    if updates:
        second = _present(body[at : at + size], columns)
        at += size
    while at < len(body):
        row, at = _row(body, at, layout, first)
        if updates:
            after, at = _row(body, at, layout, second)
            yield Change(layout.name, row, after)
        elif event.kind in INSERTS:
            yield Change(layout.name, None, row)
        else:
            yield Change(layout.name, row, None)


def _present(bitmap: bytes, columns: int) -> tuple[int, ...]:
    return tuple(n for n in range(columns) if bitmap[n // 8] >> n % 8 & 1)


def _row(body: bytes, at: int, layout: _Layout, present: Sequence[int]) -> tuple[Row, int]:
    nulls, at = body[at : at + (len(present) + 7) // 8], at + (len(present) + 7) // 8
    row: list[Value | Unknown] = [UNKNOWN] * layout.stored
    for bit, column in enumerate(present):
        value: Value = None
        if not nulls[bit // 8] >> bit % 8 & 1:
            value, at = layout.readers[column](body, at)
        index = layout.indexes[column]
        if index is not None:
            row[index] = value
    return tuple(row), at
