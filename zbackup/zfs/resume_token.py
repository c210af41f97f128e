"""Tell what a receive_resume_token says, and an nvlist of numbers made longer by some.

Facts are of OpenZFS 2.x: get_receive_resume_stats_impl() in module/zfs/dsl_dataset.c (a token is `1-`, a
checksum, a length and the deflated nvlist, all in hexadecimal), and module/nvpair/nvpair.c (native encoding).
"""

import struct
import sys
import zlib
from dataclasses import dataclass

from zbackup.model.errors import NotResumable

MOST = 1 << 16
"""Bytes of the longest nvlist of a token that is read."""

_HEAD = struct.Struct("=BB2xiI")  # encoding, whether the machine was a little-endian one, version, flags
_PAIR = struct.Struct("=ihhii")  # length, length of the name with its NUL, reserved, elements, type
_NUMBER = 8  # DATA_TYPE_UINT64
_END = bytes(4)


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The last block that was received: a stream is continued with exactly that.

    `guid` is of the snapshot, `offset` in bytes, and `passed` how many bytes of streams had come by then.
    """

    guid: int
    object: int
    offset: int
    passed: int


def resume_point(token: str) -> ResumePoint:
    """Raise NotResumable when the token is none, or not of this kind of machine."""
    try:
        version, _, length, packed = token.split("-")
        inflated = zlib.decompressobj()
        found = numbers(inflated.decompress(bytes.fromhex(packed), MOST))
        if version != "1" or int(length, 16) > MOST:
            raise ValueError(version)
        return ResumePoint(found["toguid"], found["object"], found["offset"], found["bytes"])
    except (ValueError, KeyError, struct.error, zlib.error) as strange:
        raise NotResumable("what ZFS says of the stream that was cut off cannot be read here") from strange


def numbers(packed: bytes) -> dict[str, int]:
    """The numbers in an nvlist of native encoding. Raise ValueError or struct.error for anything else."""
    _require_native(packed)
    found: dict[str, int] = {}
    at = _HEAD.size
    while size := struct.unpack_from("=i", packed, at)[0]:
        _, named, _, _, kind = _PAIR.unpack_from(packed, at)
        if size < _PAIR.size:
            raise ValueError(f"a pair of {size} bytes")
        if kind == _NUMBER:
            name = packed[at + _PAIR.size : at + _PAIR.size + named - 1].decode()
            found[name] = struct.unpack_from("=Q", packed, at + size - 8)[0]
        at += size
    return found


def with_numbers(packed: bytes, more: dict[str, int]) -> bytes:
    """The nvlist (b"" for an empty one) with these numbers, which it must not have yet, at its end.

    Raise ValueError or struct.error when it is not of native encoding.
    """
    packed = packed or _HEAD.pack(0, sys.byteorder == "little", 0, 1) + _END
    _require_native(packed)
    if not packed.endswith(_END):
        raise ValueError("an nvlist without an end")
    return packed[: -len(_END)] + b"".join(_pair(name, value) for name, value in more.items()) + _END


def _pair(name: str, value: int) -> bytes:
    text = name.encode() + b"\0"
    head = _PAIR.size + len(text)
    room = (head + 7) // 8 * 8
    begin = _PAIR.pack(room + 8, len(text), 0, 1, _NUMBER)
    return (begin + text).ljust(room, b"\0") + struct.pack("=Q", value)


def _require_native(packed: bytes) -> None:
    encoding, little, *_ = _HEAD.unpack_from(packed)
    if encoding != 0 or bool(little) != (sys.byteorder == "little"):
        raise ValueError("an nvlist of another kind")
