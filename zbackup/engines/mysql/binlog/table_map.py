"""The event in front of rows that says which table they are of, and what its columns are.

Sources: MySQL source documentation of Table_map_event (with its optional metadata) and of Rows_event; MariaDB
knowledge base, TABLE_MAP_EVENT and ROWS_EVENT_V1. The bodies given here are without header and checksum.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_WIDTHS: Final = {252: 2, 253: 3, 254: 8}
ID_SIZE: Final = 6
POST_HEADER: Final = 8
"""The table's number and flags, which stand in front of its name."""

# Bytes of metadata that each column type has; those that are not named have none.
_METADATA: Final = {
    4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 140: 1, 141: 2, 242: 1, 245: 1, 246: 2, 247: 2, 248: 2,
    249: 1, 250: 1, 251: 1, 252: 1, 253: 2, 254: 2, 255: 1,
}  # fmt: skip
_TYPED_ARRAY: Final = 20

COLUMN_NAME: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMap:
    """The contents of a table map event. `types` are the columns' type numbers, `metadata` each column's own
    bytes.

    `optional` are the fields that the server was told to add (binlog_row_metadata), by their numbers, as they
    stand there: see column_names.
    """

    number: int
    schema: str
    table: str
    types: bytes
    metadata: tuple[bytes, ...]
    nullable: bytes
    optional: dict[int, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """schema.table"""
        return f"{self.schema}.{self.table}"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns' names, () where the server did not log them (binlog_row_metadata=MINIMAL)."""
        names, at, text = [], 0, self.optional.get(COLUMN_NAME, b"")
        while at < len(text):
            length, at = number(text, at)
            names.append(text[at : at + length].decode("utf-8", "replace"))
            at += length
        return tuple(names)


def read_table_map(body: bytes) -> TableMap:
    """Read the event. Raise ValueError if it makes no sense."""
    try:
        schema, at = read_name(body, POST_HEADER)
        table, at = read_name(body, at)
        columns, at = number(body, at)
        types = body[at : at + columns]
        length, at = number(body, at + columns)
        metadata = tuple(_metadata(types, body[at : at + length]))
        at += length
        nulls = (columns + 7) // 8
        if len(body) < at + nulls or len(types) < columns:
            raise ValueError("it ends too early")
        return TableMap(
            number=int.from_bytes(body[:ID_SIZE], "little"),
            schema=schema,
            table=table,
            types=types,
            metadata=metadata,
            nullable=body[at : at + nulls],
            optional=dict(_optional(body, at + nulls)),
        )
    except (IndexError, ValueError) as wrong:
        raise ValueError(f"unreadable table map event ({wrong})") from wrong


def read_name(body: bytes, at: int) -> tuple[str, int]:
    """A name with its length in front and a zero behind, and the offset behind that."""
    length = body[at]
    end = at + 1 + length
    if len(body) <= end:
        raise ValueError("a name ends too early")
    return body[at + 1 : end].decode("utf-8", "replace"), end + 1


def number(body: bytes, at: int) -> tuple[int, int]:
    """A packed number, and the offset behind it."""
    first = body[at]
    if first < 251:
        return first, at + 1
    width = _WIDTHS.get(first, 0)
    end = at + 1 + width
    if not width or end > len(body):
        raise ValueError("a number ends too early")
    return int.from_bytes(body[at + 1 : end], "little"), end


def _metadata(types: bytes, block: bytes) -> Iterator[bytes]:
    """Each column's part of the block; a typed array has its elements' type in front of theirs."""
    at = 0
    for kind in types:
        length = _METADATA.get(kind, 0)
        if kind == _TYPED_ARRAY:
            length = 1 + _METADATA.get(block[at], 0)
        yield block[at : at + length]
        at += length


def _optional(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + 1 < len(body):
        kind = body[at]
        length, at = number(body, at + 1)
        yield kind, body[at : at + length]
        at += length
