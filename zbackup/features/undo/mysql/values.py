"""Decode the values of a row in a binary log. Pure.

A value comes out as the bytes that a session of zbackup.features.copyback.mysql reads (SETTINGS: time zone
+00:00), so that both can be compared, and be written by the same literals.

Sources: MySQL source documentation (Table_map_event, "Column types" and "Metadata"; Rows_event); MySQL
internals manual, "Date and Time Data Type Representation" and "DECIMAL Type"; MariaDB knowledge base, "Rows
Event".
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from zbackup.engines.mysql.production.tables import Column
from zbackup.features.undo.mysql.json_binary import json_text
from zbackup.model.errors import Refused

Value = bytes | None
Reader = Callable[[bytes, int], tuple[bytes, int]]
"""Reads the value at an offset, and says where the next one begins."""

_INTEGERS: Final = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_INTEGER_TYPES: Final = {1: "tinyint", 2: "smallint", 9: "mediumint", 3: "int", 8: "bigint"}
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes that take so many decimal digits (0 to 9)."""
_STRINGS: Final = ("char", "varchar", "binary", "varbinary")
_BLOBS: Final = frozenset(
    {"tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext", "vector"}
)
_FRACTION: Final = re.compile(r"\((\d)\)")
_MEMBER: Final = re.compile(r"'((?:[^']|'')*)'")
_WIDTH: Final = re.compile(r"\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Logged:
    """A column as a table map event describes it: its type's number and that type's own bytes."""

    kind: int
    metadata: bytes


def reader_of(column: Column, logged: Logged) -> Reader:
    """Return the reader of a column's values. Raise Refused for a type that the log's bytes do not tell
    exactly, or that is another than the column's, so that the table was altered."""
    kind, metadata = logged.kind, logged.metadata
    if kind == 254 and len(metadata) == 2:
        kind, width = _real_type(metadata)
        if kind in (247, 248):
            return _checked(column, ("enum", "set"), _fixed(width, _little))
        return _string(column, width)
    if kind in _INTEGERS:
        return _integer(column, kind)
    found = _MAKERS.get(kind)
    if found is None:
        raise Refused(f"its column {column.name} ({column.type}) cannot be read from the log")
    return found(column, metadata)


def _checked(column: Column, types: tuple[str, ...], reader: Reader) -> Reader:
    if column.data_type not in types:
        raise Refused(
            f"its column {column.name} is {column.type} now, and was {' or '.join(types)}: "
            "it was altered since"
        )
    return reader


def _real_type(metadata: bytes) -> tuple[int, int]:
    """The type and width of what is logged as a string of fixed length."""
    first, second = metadata
    if first & 0x30 != 0x30:
        return first | 0x30, second | (((first & 0x30) ^ 0x30) << 4)
    return first, second


def _fixed(width: int, meaning: Callable[[bytes], bytes]) -> Reader:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + width
        if end > len(data):
            raise ValueError("a row ends too early")
        return meaning(data[at:end]), end

    return read


def _counted(prefix: int, meaning: Callable[[bytes], bytes] = bytes) -> Reader:
    """A value with its length in front."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        begin = at + prefix
        end = begin + int.from_bytes(data[at:begin], "little")
        if end > len(data):
            raise ValueError("a row ends too early")
        return meaning(data[begin:end]), end

    return read


def _little(data: bytes) -> bytes:
    return b"%d" % int.from_bytes(data, "little")


def _integer(column: Column, kind: int) -> Reader:
    signed = "unsigned" not in column.type and "zerofill" not in column.type
    reader = _fixed(_INTEGERS[kind], lambda data: b"%d" % int.from_bytes(data, "little", signed=signed))
    return _checked(column, (_INTEGER_TYPES[kind],), reader)


def _string(column: Column, width: int) -> Reader:
    prefix = 1 if width < 256 else 2
    if column.data_type == "binary":
        length = _length(column)
        # What it is filled up with is not logged.
        return _counted(prefix, lambda data: data.ljust(length, b"\0"))
    if column.data_type == "inet6":
        return _counted(prefix, lambda data: _inet6(data.ljust(16, b"\0")))
    if column.data_type == "inet4":
        return _counted(prefix, lambda data: str(IPv4Address(data.ljust(4, b"\0"))).encode())
    if column.data_type == "uuid":
        return _counted(prefix, lambda data: _uuid(data.ljust(16, b"\0")))
    return _checked(column, _STRINGS, _counted(prefix))


def _inet6(data: bytes) -> bytes:
    """Write an address as the server does: the last 32 bits as an IPv4 one where that is what it holds."""
    address = IPv6Address(data)
    last = str(IPv4Address(data[12:])).encode()
    if address.ipv4_mapped is not None:
        return b"::ffff:" + last
    if not any(data[:12]) and any(data[12:14]):
        return b"::" + last
    return str(address).encode()


def _uuid(data: bytes) -> bytes:
    """MariaDB keeps those of versions 1 to 5 with the parts that change least in front (MDEV-29959)."""
    if not data[8] & 0x80:
        data = data[12:16] + data[10:12] + data[8:10] + data[6:8] + data[0:6]
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])).encode()


def _length(column: Column) -> int:
    found = _WIDTH.search(column.type)
    return int(found[1]) if found else 1


def _varchar(column: Column, metadata: bytes) -> Reader:
    prefix = 1 if int.from_bytes(metadata, "little") < 256 else 2
    # MariaDB's VECTOR is logged as one, too.
    return _checked(column, (*_STRINGS, "vector"), _counted(prefix))


def _float(column: Column, _: bytes) -> Reader:
    return _checked(column, ("float",), _fixed(4, lambda data: repr(*struct.unpack("<f", data)).encode()))


def _double(column: Column, _: bytes) -> Reader:
    return _checked(column, ("double",), _fixed(8, lambda data: repr(*struct.unpack("<d", data)).encode()))


def _decimal(column: Column, metadata: bytes) -> Reader:
    precision, scale = metadata
    whole = precision - scale
    sizes = (_DIGIT_BYTES[whole % 9], whole // 9 * 4, scale // 9 * 4, _DIGIT_BYTES[scale % 9])

    def meaning(data: bytes) -> bytes:
        return decimal_text(data, whole, scale)

    return _checked(column, ("decimal",), _fixed(sum(sizes), meaning))


def decimal_text(data: bytes, whole: int, scale: int) -> bytes:
    """The packed decimal number with those numbers of digits before and behind the point."""
    negative = not data[0] & 0x80
    packed = bytes((data[0] ^ 0x80, *data[1:]))
    if negative:
        packed = bytes(byte ^ 0xFF for byte in packed)
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    digits, at = "", 0
    for count in groups:
        size = _DIGIT_BYTES[count]
        if count:
            digits += str(int.from_bytes(packed[at : at + size], "big")).zfill(count)
        at += size
    before, behind = digits[:whole].lstrip("0") or "0", digits[whole:]
    text = f"{before}.{behind}" if scale else before
    return ("-" * negative + text).encode()


def _year(column: Column, _: bytes) -> Reader:
    return _checked(column, ("year",), _fixed(1, lambda data: b"%04d" % (1900 + data[0] if data[0] else 0)))


def _date(column: Column, _: bytes) -> Reader:
    def meaning(data: bytes) -> bytes:
        packed = int.from_bytes(data, "little")
        return b"%04d-%02d-%02d" % (packed >> 9, packed >> 5 & 15, packed & 31)

    return _checked(column, ("date",), _fixed(3, meaning))


def _old(types: tuple[str, ...], width: int, meaning: Callable[[int], bytes]) -> Callable[..., Reader]:
    """Types of times as servers before MySQL 5.6 had them, which have no fractions."""

    def make(column: Column, _: bytes) -> Reader:
        if _FRACTION.search(column.type):
            raise Refused(
                f"its column {column.name} ({column.type}) is of an old format that the log does not tell "
                "whole (mysql56_temporal_format)"
            )
        return _checked(column, types, _fixed(width, lambda data: meaning(int.from_bytes(data, "little"))))

    return make


def _old_datetime(packed: int) -> bytes:
    date, time = divmod(packed, 1_000_000)
    return b"%04d-%02d-%02d %02d:%02d:%02d" % (
        *(date // 10_000, date // 100 % 100, date % 100),
        *(time // 10_000, time // 100 % 100, time % 100),
    )


def _old_time(packed: int) -> bytes:
    packed = packed - (1 << 24) if packed >> 23 else packed
    sign, packed = (b"-", -packed) if packed < 0 else (b"", packed)
    return sign + b"%02d:%02d:%02d" % (packed // 10_000, packed // 100 % 100, packed % 100)


def _timestamp(column: Column, metadata: bytes) -> Reader:
    digits = metadata[0]

    def meaning(data: bytes) -> bytes:
        return _moment(int.from_bytes(data[:4], "big")) + _fraction(data[4:], digits)

    return _checked(column, ("timestamp",), _fixed(4 + (digits + 1) // 2, meaning))


def _moment(seconds: int) -> bytes:
    """A time in UTC; by hand, as 0 stands for no time."""
    if not seconds:
        return b"0000-00-00 00:00:00"
    days, rest = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    return b"%04d-%02d-%02d %02d:%02d:%02d" % (year, month, day, rest // 3600, rest // 60 % 60, rest % 60)


def _civil(days: int) -> tuple[int, int, int]:
    """The date that many days after 1970-01-01."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day


def _fraction(data: bytes, digits: int) -> bytes:
    if not digits:
        return b""
    return b"." + _digits(int.from_bytes(data, "big"), digits)


def _digits(packed: int, digits: int) -> bytes:
    """Fractions of a second are kept in hundredths, ten thousandths or millionths."""
    return b"%0*d" % (digits, packed // 10 if digits % 2 else packed)


def _datetime(column: Column, metadata: bytes) -> Reader:
    digits = metadata[0]

    def meaning(data: bytes) -> bytes:
        packed = int.from_bytes(data[:5], "big") - (1 << 39)
        months, time = packed >> 22, packed & 0x1FFFF
        return b"%04d-%02d-%02d %02d:%02d:%02d" % (
            *(months // 13, months % 13, packed >> 17 & 31),
            *(time >> 12, time >> 6 & 63, time & 63),
        ) + _fraction(data[5:], digits)

    return _checked(column, ("datetime",), _fixed(5 + (digits + 1) // 2, meaning))


def _time(column: Column, metadata: bytes) -> Reader:
    digits = metadata[0]
    size = (digits + 1) // 2

    def meaning(data: bytes) -> bytes:
        return time_text(int.from_bytes(data, "big") - (0x800000 << 8 * size), size, digits)

    return _checked(column, ("time",), _fixed(3 + size, meaning))


def time_text(packed: int, size: int, digits: int) -> bytes:
    """A span of time of which the fraction takes `size` bytes; a negative one is packed as a whole."""
    sign, packed = (b"-", -packed) if packed < 0 else (b"", packed)
    time, fraction = packed >> 8 * size, packed & ((1 << 8 * size) - 1)
    text = sign + b"%02d:%02d:%02d" % (time >> 12 & 0x3FF, time >> 6 & 63, time & 63)
    return text + (b"." + _digits(fraction, digits) if digits else b"")


def _bit(column: Column, metadata: bytes) -> Reader:
    bits, whole = metadata
    return _checked(column, ("bit",), _fixed(whole + bool(bits), bytes))


def _blob(column: Column, metadata: bytes) -> Reader:
    if column.data_type in _BLOBS:
        return _counted(metadata[0])
    # MariaDB's JSON is text.
    return _checked(column, ("json", "longtext"), _counted(metadata[0]))


def _json(column: Column, metadata: bytes) -> Reader:
    return _checked(column, ("json",), _counted(metadata[0], json_text))


def _geometry(column: Column, metadata: bytes) -> Reader:
    if column.kind != "bytes" or column.data_type in ("bit", "binary", "varbinary"):
        raise Refused(f"its column {column.name} is {column.type} now, and was a geometry")
    return _counted(metadata[0])


_MAKERS: Final[dict[int, Callable[[Column, bytes], Reader]]] = {
    4: _float,
    5: _double,
    7: _old(("timestamp",), 4, _moment),
    10: _date,
    11: _old(("time",), 3, _old_time),
    12: _old(("datetime",), 8, _old_datetime),
    13: _year,
    14: _date,
    15: _varchar,
    16: _bit,
    17: _timestamp,
    18: _datetime,
    19: _time,
    242: _blob,
    245: _json,
    246: _decimal,
    252: _blob,
    253: _varchar,
    255: _geometry,
}


def members(column: Column) -> tuple[str, ...]:
    """The words of an ENUM or SET, in their order."""
    return tuple(found.replace("''", "'") for found in _MEMBER.findall(column.type))
