"""What is in a stream of `zfs send`, without how it is written: the same for every copy of a snapshot.

Two hosts' streams of one snapshot differ in names, in checksums over those, and in how holes are told. What
is compared here is objects and their data. Source of the layout: include/sys/zfs_ioctl.h of OpenZFS 2.x.
"""

import hashlib
import shlex
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Command, Meter, Pace, reading

RECORD = 312
"""Bytes of a record, behind some of which a payload comes."""
MAGIC = 0x2F5BACBAC

_BEGIN, _OBJECT, _WRITE, _END, _SPILL, _EMBEDDED = 0, 1, 3, 5, 7, 8
_PLAIN = frozenset({_BEGIN, _END, 2, 4, 9})
"""Besides begin and end those that say what is free, and what a range of objects is encrypted with."""


@dataclass(frozen=True, slots=True)
class Content:
    """`size` is how many bytes of data were read; `sha256` (hexadecimal) is of them and of where they belong.

    `whole`: the stream was read to its end.
    """

    size: int
    sha256: str
    whole: bool


class _Enough(Exception):
    """As much was read as was asked for."""

    def __init__(self, found: Content) -> None:
        super().__init__()
        self.found = found


def read_content(sender: Command, most: int, meter: Meter) -> Content:
    """What is in the full stream that `sender` writes, or in what has the first `most` bytes of its data
    (0: all of it). No faster than the meter wants it.

    Raise the sender's failure, VerificationFailed when what it wrote is not such a stream, and Stopped when
    the meter says so.
    """
    try:
        with reading(sender) as source:
            found = content(source, most, Pace(meter))
            if found and not found.whole:
                raise _Enough(found)
    except _Enough as enough:
        return enough.found
    if found is None:
        raise VerificationFailed(f"the stream of {shlex.join(sender.argv)} ends in the middle")
    return found


@dataclass(frozen=True, slots=True)
class _Record:
    """`where` is what the data belongs to, and `payload` how many bytes follow."""

    where: tuple[int, ...]
    payload: int


def content(source: IO[bytes], most: int, pace: Pace) -> Content | None:
    """As read_content; None when the stream ends before its end."""
    order = ""
    size, digest = 0, hashlib.sha256()
    while not most or size < most:
        if len(header := source.read(RECORD)) < RECORD:
            return None
        order = order or _order(header)
        kind, record = _record(order, header)
        if kind == _END:
            return Content(size, digest.hexdigest(), whole=True)
        if len(data := source.read(record.payload)) < record.payload:
            return None
        pace.passed(RECORD + record.payload)
        if record.where:
            digest.update(struct.pack(f"<{1 + len(record.where)}Q", kind, *record.where) + data)
            size += len(data)
    return Content(size, digest.hexdigest(), whole=False)


def _record(order: str, header: bytes) -> tuple[int, _Record]:
    """Its kind, and what is in it that counts: nothing of how a stream begins, ends, or tells of holes."""
    kind, length = struct.unpack_from(f"{order}II", header)
    if read := _READERS.get(kind):
        return kind, read(order, header)
    if kind not in _PLAIN:
        raise VerificationFailed(f"a stream with a record of kind {kind}, which is not known here")
    return kind, _Record((), length if kind == _BEGIN else 0)


def _order(header: bytes) -> str:
    for order in "<>":
        kind, _, magic = struct.unpack_from(f"{order}IIQ", header)
        if (kind, magic) == (_BEGIN, MAGIC):
            return order
    raise VerificationFailed("what came is no stream of zfs send")


def _object(order: str, header: bytes) -> _Record:
    """object, type, bonustype, blksz, bonuslen, three bytes on how it is stored, flags, raw_bonuslen"""
    number, kind, bonus, block, length, *_, raw = struct.unpack_from(f"{order}QIIII4BI", header, 8)
    return _Record((number, kind, bonus, block, length), raw or _rounded(length))


def _write(order: str, header: bytes) -> _Record:
    """object, type, padding, offset, logical_size, toguid, checksumtype, flags, compressiontype, ..."""
    number, kind, offset, size, _, compression = struct.unpack_from(f"{order}QI4xQQQ2xB", header, 8)
    (compressed,) = struct.unpack_from(f"{order}Q", header, 96)
    return _Record((number, kind, offset, size), compressed if compression else size)


def _spill(order: str, header: bytes) -> _Record:
    """object, length, toguid, flags, compressiontype, padding, compressed_size"""
    number, length, _, compressed = struct.unpack_from(f"{order}QQQ8xQ", header, 8)
    return _Record((number, length), compressed or length)


def _embedded(order: str, header: bytes) -> _Record:
    """object, offset, length, toguid, compression, etype, padding, lsize, psize"""
    number, offset, length, _, size, packed = struct.unpack_from(f"{order}QQQQ8xII", header, 8)
    return _Record((number, offset, length, size), _rounded(packed))


def _rounded(count: int) -> int:
    return (count + 7) // 8 * 8


_READERS: dict[int, Callable[[str, bytes], _Record]] = {
    _OBJECT: _object,
    _WRITE: _write,
    _SPILL: _spill,
    _EMBEDDED: _embedded,
}
