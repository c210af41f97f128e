"""Open the events that a server wrote compressed.

Sources: MySQL source documentation, "Transaction_payload_event" (a row of type, length and value, then the
compressed events, which have no checksums of their own); MariaDB source, log_event.cc, "Compressed record"
(a header byte, the length with its high byte first, then a zlib stream).
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import zstandard

from zbackup.engines.mysql.binlog.events import HEADER_SIZE, SHAPE, Buffer

CHUNK: Final = 1 << 20
LARGEST: Final = 1 << 30
"""No event is larger than max_allowed_packet can be (1 GiB) and its header."""

_SIZE_AT: Final = 9
"""The offset of an event's length in its header."""

_END, _COMPRESSION, _UNCOMPRESSED = 0, 2, 3
_ZSTD, _NONE = 0, 255
_WIDTHS: Final = {252: 2, 253: 3, 254: 8}

QUERY_COMPRESSED: Final = 165
COMPRESSED_TEXT: Final = bytes([QUERY_COMPRESSED])
ROWS_COMPRESSED: Final = {166: 23, 167: 24, 168: 25, 169: 30, 170: 31, 171: 32}
"""MariaDB's compressed row events, and the types that they have when they are not compressed."""


def hides_text(data: Buffer, begin: int, end: int) -> bool:
    """Whether a transaction of MariaDB has compressed statements: their headers begin with these bytes,
    the type and the server's id."""
    return data.find(COMPRESSED_TEXT + data[begin + 5 : begin + 9], begin, end) >= 0


def inner_events(body: bytes, most: int = LARGEST + HEADER_SIZE) -> Iterator[bytes]:
    """The events in a transaction payload event, given without header and checksum; each with its header.

    Of a larger one its first `most` bytes, as if it ended there. They are opened piece by piece, so that
    memory holds no more than one of them, and a piece. Raise ValueError when it cannot be opened.
    """
    compression, at = _payload_header(body)
    try:
        yield from _events(_pieces(compression, memoryview(body)[at:]), most)
    except zstandard.ZstdError as broken:
        raise ValueError(f"compressed events cannot be opened: {broken}") from broken


def uncompressed_size(body: bytes) -> int:
    """How many bytes of events a transaction payload event holds, given as for inner_events; LARGEST where it
    does not tell."""
    at = 0
    while True:
        field, at = _number(body, at)
        if field == _END:
            return LARGEST
        length, at = _number(body, at)
        if field == _UNCOMPRESSED:
            return _number(body, at)[0]
        at += length


def _payload_header(body: bytes) -> tuple[int, int]:
    """How it is compressed, and where the compressed bytes begin."""
    compression, at = _ZSTD, 0
    while True:
        field, at = _number(body, at)
        if field == _END:
            return compression, at
        length, at = _number(body, at)
        if field == _COMPRESSION:
            compression, _ = _number(body, at)
        at += length


def _number(body: bytes, at: int) -> tuple[int, int]:
    """A length-encoded number (net_store_length) and the offset behind it."""
    if at >= len(body):
        raise ValueError("a compressed transaction's header ends too early")
    first = body[at]
    if first < 251:
        return first, at + 1
    width = _WIDTHS.get(first, 0)
    end = at + 1 + width
    if not width or end > len(body):
        raise ValueError("a compressed transaction's header makes no sense")
    return int.from_bytes(body[at + 1 : end], "little"), end


def _pieces(compression: int, packed: memoryview) -> Iterator[bytes | memoryview]:
    if compression == _NONE:
        for at in range(0, len(packed), CHUNK):
            yield packed[at : at + CHUNK]
        return
    if compression != _ZSTD:
        raise ValueError(f"compressed in a way that is not known ({compression})")
    with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as opened:
        while piece := opened.read(CHUNK):
            yield piece


def _events(pieces: Iterable[bytes | memoryview], most: int) -> Iterator[bytes]:
    """Each byte is copied once or twice, however long an event is."""
    rest, begun, missing = b"", bytearray(), 0
    for piece in pieces:
        taken = min(missing, len(piece))
        begun += piece[: min(taken, most - len(begun))]
        missing -= taken
        if missing:
            continue
        if begun:
            yield _ended(bytes(begun))
            begun = bytearray()
        data, at = rest + piece[taken:], 0
        while (size := _event_size(data, at)) is not None:
            missing = max(0, at + size - len(data))
            if missing:
                begun += data[at : at + most]
                at = len(data)
                break
            yield data[at : at + size] if size <= most else _ended(data[at : at + most])
            at += size
        rest = data[at:]
    if rest or missing:
        raise ValueError("compressed events end within an event")


def _ended(event: bytes) -> bytes:
    """An event whose header says that it is as long as what is there of it."""
    return event[:_SIZE_AT] + len(event).to_bytes(4, "little") + event[_SIZE_AT + 4 :]


def _event_size(data: bytes, at: int) -> int | None:
    """The size of the event at `at`; None when its header is not there yet."""
    if at + HEADER_SIZE > len(data):
        return None
    size: int = SHAPE.unpack_from(data, at)[1]
    if not HEADER_SIZE <= size <= LARGEST + HEADER_SIZE:
        raise ValueError(f"an event of {size} bytes is inside a compressed transaction")
    return size


def record_size(record: bytes) -> int:
    """How many bytes a compressed record of MariaDB holds, by its beginning. Raise ValueError where
    damaged."""
    if not record or not record[0] & 0x80 or record[0] & 0x70:
        raise ValueError("a compressed event is compressed in a way that is not known")
    length = int.from_bytes(record[1 : 1 + (record[0] & 0x07)], "big")
    if length > LARGEST:
        raise ValueError(f"a compressed event says that it holds {length} bytes")
    return length


def uncompress(record: bytes, most: int = LARGEST) -> bytes:
    """What a compressed record of MariaDB holds, its first `most` bytes.

    Raise ValueError where damaged.
    """
    length = record_size(record)
    try:
        opened = zlib.decompressobj().decompress(record[1 + (record[0] & 0x07) :], min(length, most) or 1)
    except zlib.error as broken:
        raise ValueError(f"a compressed event cannot be opened: {broken}") from broken
    if len(opened) < min(length, most):
        raise ValueError("a compressed event ends too early")
    return opened
