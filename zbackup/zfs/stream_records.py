"""The records that a stream of `zfs send` consists of: what each is of, and how many bytes follow it.

Source of the layout: include/sys/zfs_ioctl.h of OpenZFS 2.x (dmu_replay_record).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from zbackup.model.drr_begin import BEGIN, begin_record
from zbackup.model.errors import VerificationFailed

OBJECT, FREE_OBJECTS, WRITE, FREE, END, SPILL, EMBEDDED, OBJECT_RANGE = 1, 2, 3, 4, 5, 7, 8, 9
_PLAIN = frozenset({BEGIN, END, FREE_OBJECTS, FREE, OBJECT_RANGE})
"""Besides begin and end those that say what is free, and what a range of objects is encrypted with."""


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """`where` is what the data belongs to, and `payload` how many bytes follow.

    `position` is the object and the offset in it of what may be the last that a receiver knows to have
    written: in a stream they never decrease.
    """

    kind: int
    where: tuple[int, ...]
    payload: int
    position: tuple[int, int] | None = None


def read_record(order: str, header: bytes | memoryview) -> StreamRecord:
    """Its `where` is what counts of it: nothing of how a stream begins, ends, or tells of holes."""
    kind, length = struct.unpack_from(f"{order}II", header)
    if read := _READERS.get(kind):
        return read(order, header)
    if kind not in _PLAIN:
        raise VerificationFailed(f"a stream with a record of kind {kind}, which is not known here")
    return StreamRecord(kind, (), length if kind == BEGIN else 0)


def byte_order(header: bytes | memoryview) -> str:
    """The byte order that a stream's first record is in. Raise VerificationFailed when it is not one."""
    if begin := begin_record(header):
        return begin.order
    raise VerificationFailed("what came is no stream of zfs send")


def _object(order: str, header: bytes | memoryview) -> StreamRecord:
    """object, type, bonustype, blksz, bonuslen, three bytes on how it is stored, flags, raw_bonuslen"""
    number, kind, bonus, block, length, *_, raw = struct.unpack_from(f"{order}QIIII4BI", header, 8)
    return StreamRecord(OBJECT, (number, kind, bonus, block, length), raw or _rounded(length), (number, 0))


def _write(order: str, header: bytes | memoryview) -> StreamRecord:
    """object, type, padding, offset, logical_size, toguid, checksumtype, flags, compressiontype, ..."""
    number, kind, offset, size, _, compression = struct.unpack_from(f"{order}QI4xQQQ2xB", header, 8)
    (compressed,) = struct.unpack_from(f"{order}Q", header, 96)
    payload = compressed if compression else size
    return StreamRecord(WRITE, (number, kind, offset, size), payload, (number, offset))


def _spill(order: str, header: bytes | memoryview) -> StreamRecord:
    """object, length, toguid, flags, compressiontype, padding, compressed_size"""
    number, length, _, compressed = struct.unpack_from(f"{order}QQQ8xQ", header, 8)
    return StreamRecord(SPILL, (number, length), compressed or length)


def _embedded(order: str, header: bytes | memoryview) -> StreamRecord:
    """object, offset, length, toguid, compression, etype, padding, lsize, psize"""
    number, offset, length, _, size, packed = struct.unpack_from(f"{order}QQQQ8xII", header, 8)
    return StreamRecord(EMBEDDED, (number, offset, length, size), _rounded(packed), (number, offset))


def _rounded(count: int) -> int:
    return (count + 7) // 8 * 8


_READERS: dict[int, Callable[[str, bytes | memoryview], StreamRecord]] = {
    OBJECT: _object,
    WRITE: _write,
    SPILL: _spill,
    EMBEDDED: _embedded,
}
