"""The checksum in a send stream: Fletcher's of the fourth order, over words of 32 bits, modulo 2**64.

It is linear, so that of a stream whose beginning is another one can be told without reading what follows: the
two sums' difference goes through the same words as if they were zero. Source: module/zcommon/zfs_fletcher.c.
"""

import struct
from dataclasses import dataclass

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
