"""The event in front of rows that says which table they are of, and what its columns are.

Sources: MySQL source documentation of Table_map_event (with its optional metadata) and of Rows_event; MariaDB
knowledge base, TABLE_MAP_EVENT and ROWS_EVENT_V1. The bodies given here are without header and checksum.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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

_SIGNEDNESS: Final = 1
_DEFAULT_CHARSET: Final = 2
_COLUMN_CHARSET: Final = 3
COLUMN_NAME: Final = 4
_SET_VALUES: Final = 5
_ENUM_VALUES: Final = 6

# Of each type what it is called where a table is defined. Old and new forms of one are the same here.
_KINDS: Final = {
    1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp", 8: "bigint",
    9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date", 15: "varchar", 16: "bit",
    17: "timestamp", 18: "datetime", 19: "time", 140: "blob", 141: "varchar", 242: "vector", 245: "json",
    246: "decimal", 247: "enum", 248: "set", 252: "blob", 253: "varchar", 254: "char", 255: "geometry",
}  # fmt: skip
_NUMERIC: Final = frozenset({1, 2, 3, 4, 5, 8, 9, 13, 246})
_LETTERS: Final = frozenset({"char", "varchar", "blob"})


class ColumnFacts(NamedTuple):
    """The facts of a column, as far as they are known: None where one is not.

    `kind` is its type's name; of text and bytes alike char, varchar or blob. `size` is what else belongs to
    the type: bytes, digits, bits. `values` are an ENUM's or SET's.
    """

    name: str | None = None
    kind: str | None = None
    size: tuple[int, ...] | None = None
    unsigned: bool | None = None
    character_set: str | None = None
    values: tuple[str, ...] | None = None
    nullable: bool | None = None


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

    def facts(self, charset: Callable[[int], str | None], *, mariadb: bool) -> tuple[ColumnFacts, ...]:
        """What it tells of each column; `charset` names that of a collation. Raise ValueError or LookupError
        where it makes no sense."""
        shapes = list(_shapes(self.types, self.metadata))
        kinds = [kind for kind, _ in shapes]
        names = self.column_names
        letters = _LETTERS | {"geometry"} if mariadb else _LETTERS
        charsets = self._charsets([at for at, kind in enumerate(kinds) if kind in letters])
        signs = self._signs()
        values = {
            kind: iter(_values(self.optional[key]))
            for kind, key in (("enum", _ENUM_VALUES), ("set", _SET_VALUES))
            if key in self.optional
        }
        return tuple(
            ColumnFacts(
                name=names[at] if at < len(names) else None,
                kind=kind,
                size=size,
                unsigned=signs.get(at),
                character_set=charset(charsets[at]) if at in charsets and kind in _LETTERS else None,
                values=next(values[kind]) if kind in values else None,
                nullable=bool(self.nullable[at // 8] >> at % 8 & 1),
            )
            for at, (kind, size) in enumerate(shapes)
        )

    def _signs(self) -> dict[int, bool]:
        """By its place, whether a number is unsigned."""
        bits = self.optional.get(_SIGNEDNESS, b"")
        numbers = [at for at, kind in enumerate(self.types) if kind in _NUMERIC]
        if len(bits) != (len(numbers) + 7) // 8:
            return {}
        return {at: bool(bits[n // 8] >> 7 - n % 8 & 1) for n, at in enumerate(numbers)}

    def _charsets(self, places: list[int]) -> dict[int, int]:
        """The collation of each of the places, which are those that have one; 63 is that of bytes."""
        if _COLUMN_CHARSET in self.optional:
            given = _numbers(self.optional[_COLUMN_CHARSET])
            return dict(zip(places, given, strict=True)) if len(given) == len(places) else {}
        if _DEFAULT_CHARSET not in self.optional:
            return {}
        most, *others = _numbers(self.optional[_DEFAULT_CHARSET])
        found = dict.fromkeys(places, most)
        for place, collation in zip(others[::2], others[1::2], strict=True):
            found[places[place]] = collation
        return found


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


def _shapes(types: bytes, metadata: tuple[bytes, ...]) -> Iterator[tuple[str | None, tuple[int, ...] | None]]:
    """Each column's kind and size. Behind a type that is not known nobody knows where the next one's metadata
    begins."""
    known = True
    for number_, meta in zip(types, metadata, strict=True):
        known = known and number_ in _KINDS and len(meta) == _METADATA.get(number_, 0)
        yield _shape(number_, meta) if known else (None, None)


def _shape(kind: int, meta: bytes) -> tuple[str, tuple[int, ...] | None]:
    if kind in (247, 248, 254):
        # The two highest bits of a long string's size are in the first byte, turned round (Field_string).
        first, size = meta
        if first & 0x30 != 0x30:
            return _KINDS[first | 0x30], (size | ((first & 0x30) ^ 0x30) << 4,)
        return _KINDS[first], (size,)
    if kind in (15, 253):
        return _KINDS[kind], (int.from_bytes(meta, "little"),)
    if kind == 16:
        return _KINDS[kind], (meta[0] + 8 * meta[1],)
    return _KINDS[kind], tuple(meta) if kind in (17, 18, 19, 246, 252) else None


def _numbers(body: bytes) -> list[int]:
    found, at = [], 0
    while at < len(body):
        value, at = number(body, at)
        found.append(value)
    return found


def _values(body: bytes) -> Iterator[tuple[str, ...] | None]:
    """Each column's values; None where their bytes may be other letters in another character set."""
    at = 0
    while at < len(body):
        count, at = number(body, at)
        values = []
        for _ in range(count):
            length, at = number(body, at)
            values.append(body[at : at + length])
            at += length
        yield plain_values([value.decode("ascii", "replace") for value in values])


def plain_values(values: list[str]) -> tuple[str, ...] | None:
    """The values, if they are the same bytes in every character set."""
    return tuple(values) if all(v.isascii() and v.isprintable() and "\\" not in v for v in values) else None
