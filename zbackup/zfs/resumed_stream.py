"""Out of a whole send stream, what `zfs send -t` would send to go on where a receiver was cut off.

Where a stream is stored, nothing is there that could send the rest: it is made of the bytes that are there.
The stream begins again, saying where it goes on, and all records from there on follow, with the sums that
this makes them have. A receiver proves each sum: what was not put together well is refused by zfs receive.

Facts are of OpenZFS 2.x: dmu_recv_stream() and resume_check() in module/zfs/dmu_recv.c, dump_record() in
module/zfs/dmu_send.c.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from zbackup.model.drr_begin import BEGIN, RECORD
from zbackup.model.errors import NotResumable, VerificationFailed
from zbackup.zfs.resume_token import ResumePoint, with_numbers
from zbackup.zfs.stream_records import (
    EMBEDDED,
    END,
    FREE,
    FREE_OBJECTS,
    OBJECT,
    OBJECT_RANGE,
    SPILL,
    WRITE,
    StreamRecord,
    byte_order,
    read_record,
)

SIZE = 32
"""Bytes of it in a record."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum itself, or the difference of two."""

    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0

    def __add__(self, other: "Sum") -> "Sum":
        return _masked(self.a + other.a, self.b + other.b, self.c + other.c, self.d + other.d)

    def __sub__(self, other: "Sum") -> "Sum":
        return _masked(self.a - other.a, self.b - other.b, self.c - other.c, self.d - other.d)

    def over(self, data: bytes | memoryview, order: str) -> "Sum":
        """The sum of what came before and of `data`, whole words in that order of bytes."""
        a, b, c, d = self.a, self.b, self.c, self.d
        for (word,) in struct.iter_unpack(f"{order}I", data):
            a += word
            b += a
            c += b
            d += c
        return _masked(a, b, c, d)

    def over_zeros(self, count: int) -> "Sum":
        """The sum of what came before and of `count` bytes of zeros."""
        n = count // 4
        pairs = n * (n + 1) // 2
        return _masked(
            self.a,
            self.b + n * self.a,
            self.c + n * self.b + pairs * self.a,
            self.d + n * self.c + pairs * self.b + pairs * (n + 2) // 3 * self.a,
        )

    def packed(self, order: str) -> bytes:
        return struct.pack(f"{order}4Q", self.a, self.b, self.c, self.d)


def unpacked(data: bytes, at: int, order: str) -> Sum:
    """The one that is written there."""
    return Sum(*struct.unpack_from(f"{order}4Q", data, at))


def _masked(a: int, b: int, c: int, d: int) -> Sum:
    return Sum(a & _MASK, b & _MASK, c & _MASK, d & _MASK)


Bytes = bytes | memoryview

RESUMING = 1 << (2 + 20)
"""In a stream's version: DMU_BACKUP_FEATURE_RESUMING."""
RAW = 1 << (2 + 24)
RANGE = 32
"""Objects in a block of them, which a raw stream has a record for."""

_VERSION = 16
_SUM = RECORD - SIZE
"""The offset of a record's sum, which is of all that is before it in the stream."""
_LAST_SUM = 8
"""The offset in the last record of the sum of all that is before the record."""

GUID_AT = {
    FREE_OBJECTS: 24,
    SPILL: 24,
    OBJECT_RANGE: 24,
    FREE: 32,
    EMBEDDED: 32,
    OBJECT: 40,
    WRITE: 40,
    END: 40,
}
"""The offset at which a record of the kind says which snapshot it is of."""


class StreamPieces:
    """Bytes that come in pieces, each of which is overwritten when the next one is asked for."""

    def __init__(self, pieces: Iterator[memoryview]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def take(self, count: int) -> bytes:
        """Exactly `count` bytes, copied. Raise VerificationFailed when there are fewer."""
        return b"".join(bytes(some) for some in self.passing(count))

    def passing(self, count: int) -> Iterator[memoryview]:
        """The same, as they lie in the pieces."""
        while count:
            if not self._piece:
                self._piece = next(self._pieces, memoryview(b""))
                if not self._piece:
                    raise VerificationFailed("the stream ends in the middle")
            some, self._piece = self._piece[:count], self._piece[count:]
            count -= len(some)
            yield some

    def skip(self, count: int) -> None:
        for _ in self.passing(count):
            pass


def beginning(source: StreamPieces) -> bytes:
    """The first record of a stream, with what belongs to it."""
    header = source.take(RECORD)
    return header + source.take(read_record(byte_order(header), header).payload)


def first_placed(window: bytes, order: str, guid: int) -> tuple[int, tuple[int, int]] | None:
    """Find in the middle of a stream where a record begins, and the first position that one there has.

    None when nothing in the window is proven to be such a record. All carry the snapshot's guid, which
    nothing that is in the snapshot can have known, and a record's sum and the next one's prove each other.
    """
    mark = struct.pack(f"{order}Q", guid)
    found = window.find(mark)
    while found >= 0:
        for at in (found - 40, found - 32, found - 24):
            record = _record_at(window, at, order, mark)
            if record and _is_proven(window, at, record, order):
                return _placed(window, at, record, order)
        found = window.find(mark, found + 1)
    return None


def _record_at(window: bytes, at: int, order: str, mark: bytes) -> StreamRecord | None:
    if at < 0 or at + RECORD > len(window):
        return None
    (kind,) = struct.unpack_from(f"{order}I", window, at)
    if kind not in GUID_AT or not window.startswith(mark, at + GUID_AT[kind]):
        return None
    return read_record(order, window[at : at + RECORD])


def _is_proven(window: bytes, at: int, record: StreamRecord, order: str) -> bool:
    """Prove a record by the next one, which has to begin behind it."""
    following = at + RECORD + record.payload
    if following + RECORD > len(window) or record.payload % 4:
        return False
    between = memoryview(window)[at + _SUM : following + _SUM]
    summed = unpacked(window, at + _SUM, order).over(between, order)
    return summed == unpacked(window, following + _SUM, order)


def _placed(window: bytes, at: int, record: StreamRecord, order: str) -> tuple[int, tuple[int, int]] | None:
    begin = at
    while record.position is None:
        at += RECORD + record.payload
        if at + RECORD > len(window):
            return None
        record = read_record(order, window[at : at + RECORD])
    return begin, record.position


def needed_from(begin: bytes, point: ResumePoint) -> tuple[int, int]:
    """Return the object and the offset from which on the stream is needed to resume."""
    return (_range_of(point.object), 0) if _is_raw(begin) else (point.object, point.offset)


def resumed(begin: bytes, point: ResumePoint, source: StreamPieces) -> Iterator[Bytes]:
    """The rest of the stream that begins with `begin`, of what comes from one of its records on.

    Raise NotResumable, before the first bytes, when what it is to continue is not there.
    """
    order = byte_order(begin)
    ranged, header, record = _wanted(begin, point, source)
    head = _head(begin, point, order)
    yield head
    now = Sum().over(head, order)
    if ranged:
        now = now.over(ranged[:_SUM], order)
        yield ranged[:_SUM] + now.packed(order)
        now = now.over(now.packed(order), order)
    was, now = unpacked(header, _SUM, order), now.over(header[:_SUM], order)
    while True:
        yield header[:_SUM] + now.packed(order)
        if record.kind == END:
            return
        yield from source.passing(record.payload)
        changed = now.over(now.packed(order), order) - was.over(was.packed(order), order)
        changed = changed.over_zeros(record.payload)
        header = source.take(RECORD)
        record = read_record(order, header)
        if record.kind == END:
            before = unpacked(header, _LAST_SUM, order) + changed
            header = header[:_LAST_SUM] + before.packed(order) + header[_LAST_SUM + SIZE :]
            now = before.over(header[:_SUM], order)
        else:
            was = unpacked(header, _SUM, order)
            now = was + changed.over_zeros(_SUM)


def _wanted(begin: bytes, point: ResumePoint, source: StreamPieces) -> tuple[bytes, bytes, StreamRecord]:
    """The record to continue with, and before it, of a raw stream, that with how its object is encrypted."""
    order, wanted, ranged = byte_order(begin), (point.object, point.offset), b""
    while True:
        header = source.take(RECORD)
        record = read_record(order, header)
        if record.kind == OBJECT_RANGE:
            ranged = header
        if record.position == wanted:
            break
        if record.kind == END or (record.position and record.position > wanted):
            raise NotResumable(f"object {point.object} has no block at {point.offset} in the stream")
        source.skip(record.payload)
    if _is_raw(begin) and _first_of(ranged, order) != _range_of(point.object):
        raise NotResumable(f"how object {point.object} is encrypted is not in the stream where it should be")
    return ranged, header, record


def _first_of(ranged: bytes, order: str) -> int | None:
    """The first object that a record of a range is of."""
    return int(struct.unpack_from(f"{order}Q", ranged, 8)[0]) if ranged else None


def _range_of(number: int) -> int:
    return number - number % RANGE


def _is_raw(begin: bytes) -> bool:
    return bool(struct.unpack_from(f"{byte_order(begin)}Q", begin, _VERSION)[0] & RAW)


def _head(begin: bytes, point: ResumePoint, order: str) -> bytes:
    """The first record, which says where it goes on."""
    more = {"resume_object": point.object, "resume_offset": point.offset}
    try:
        payload = with_numbers(begin[RECORD:], more)
    except (ValueError, struct.error) as strange:
        raise NotResumable("the stream is of another kind of machine") from strange
    (version,) = struct.unpack_from(f"{order}Q", begin, _VERSION)
    return (
        struct.pack(f"{order}II", BEGIN, len(payload))
        + begin[8:_VERSION]
        + struct.pack(f"{order}Q", version | RESUMING)
        + begin[_VERSION + 8 : RECORD]
        + payload
    )
