"""MySQL's binary JSON, as it stands in row images. Pure.

Source: MySQL source documentation, the json_binary namespace: a type byte, then for objects and arrays
counts, sizes, entries of keys and values (small ones within), all relative to where the object begins.
"""

import json
import struct
from typing import Any, Final

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = 0, 1, 2, 3
_LITERAL, _STRING, _OPAQUE = 4, 12, 15
_LITERALS: Final = {0: None, 1: True, 2: False}
_NUMBERS: Final = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<d"}
_INLINE: Final = {_LITERAL, 5, 6}
_INLINE_LARGE: Final = _INLINE | {7, 8}
_DEEPEST: Final = 100
"""Documents are no deeper (MySQL reference manual, "The JSON Data Type")."""


class Untellable(ValueError):
    """A value whose type is not in its text: a date, a time, a DECIMAL or binary."""


class Untold(bytes):
    """The mark in place of the text of a document that holds such a value."""


UNTELLABLE: Final = Untold(b"\xff")


def json_text(data: bytes) -> bytes:
    """The text of a document, null for none (as after UPDATE IGNORE); UNTELLABLE where no text gives the
    document back. Raise ValueError if the bytes make no sense."""
    if not data:
        return b"null"
    try:
        found = _value(data[0], memoryview(data)[1:], 0)
    except Untellable:
        return UNTELLABLE
    except (IndexError, struct.error, KeyError, UnicodeDecodeError) as wrong:
        raise ValueError(f"unreadable JSON ({wrong})") from wrong
    return json.dumps(found, ensure_ascii=False).encode()


def _value(kind: int, data: memoryview, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is too deep")
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY):
        return _container(kind, data, depth)
    if kind == _LITERAL:
        return _LITERALS[data[0]]
    if kind in _NUMBERS:
        return struct.unpack_from(_NUMBERS[kind], data)[0]
    if kind == _STRING:
        length, at = _length(data)
        return str(data[at : at + length], "utf-8")
    if kind == _OPAQUE:
        raise Untellable
    raise ValueError(f"a value is of the type {kind}")


def _length(data: memoryview) -> tuple[int, int]:
    """A length of seven bits a byte, the lowest first, and the offset behind it."""
    length = at = 0
    while True:
        byte = data[at]
        length |= (byte & 0x7F) << 7 * at
        at += 1
        if not byte & 0x80:
            return length, at


def _container(kind: int, data: memoryview, depth: int) -> Any:
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    width = 4 if large else 2

    def number(at: int, size: int = width) -> int:
        if at + size > len(data):
            raise ValueError("it ends too early")
        return int.from_bytes(data[at : at + size], "little")

    count = number(0)
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    keys_at = 2 * width
    values_at = keys_at + (count * (width + 2) if is_object else 0)
    if values_at + count * (width + 1) > len(data):
        raise ValueError("it ends too early")
    values = []
    for at in range(values_at, values_at + count * (width + 1), width + 1):
        inner = data[at]
        inline = inner in (_INLINE_LARGE if large else _INLINE)
        rest = data[at + 1 : at + 1 + width] if inline else data[number(at + 1) :]
        values.append(_value(inner, rest, depth + 1))
    if not is_object:
        return values
    keys = []
    for at in range(keys_at, values_at, width + 2):
        begin = number(at)
        keys.append(str(data[begin : begin + number(at + width, 2)], "utf-8"))
    return dict(zip(keys, values, strict=True))
