"""The bytes of a file that its server may cut short while it is read: in pieces, with nothing mapped.

What is mapped and cut off meanwhile ends the process that touches it (SIGBUS).
"""

import os
from typing import IO, Final, overload

from zbackup.model.errors import VerificationFailed

PIECE: Final = 1 << 18


class Pieces:
    """A file's first `size` bytes; slices are copies, as of bytes. A piece is read once and remembered.

    Reading raises VerificationFailed where the file is shorter by now.
    """

    def __init__(self, file: IO[bytes], name: str, size: int) -> None:
        self._file, self._name, self._size = file.fileno(), name, size
        self._begin, self._piece = 0, b""

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, wanted: int) -> int: ...
    @overload
    def __getitem__(self, wanted: slice) -> bytes: ...
    def __getitem__(self, wanted: int | slice) -> int | bytes:
        if isinstance(wanted, slice):
            begin, end, _ = wanted.indices(self._size)
            return self._bytes(begin, end)
        return self._bytes(wanted, wanted + 1)[0]

    def _bytes(self, begin: int, end: int) -> bytes:
        if begin >= end:
            return b""
        if not self._begin <= begin <= end <= self._begin + len(self._piece):
            if end - begin > PIECE:
                return self._read(begin, end)
            self._piece = self._read(begin, min(begin + PIECE, self._size))
            self._begin = begin
        return self._piece[begin - self._begin : end - self._begin]

    def _read(self, begin: int, end: int) -> bytes:
        found = bytearray()
        while len(found) < end - begin:
            piece = os.pread(self._file, end - begin - len(found), begin + len(found))
            if not piece:
                raise VerificationFailed(f"{self._name} was cut off while it was read: it is read again")
            found += piece
        return bytes(found)
