"""Bytes out of a log archive, wherever it lies: each proven by its hash before it is given."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from zbackup.model.archive import TAIL, Chunk, LogFileId, tail_hash
from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Meter, Pace

LOOKS: Final = 3
"""Listings that a file is read by while its chunks are folded into others."""


class Gone(VerificationFailed):
    """Something that was listed is not there any more."""


def listed_again(
    listed: Callable[[int], Iterator[tuple[Chunk, bytes]]], begin: int, end: int
) -> Iterator[tuple[Chunk, bytes]]:
    """The chunks that hold these bytes: of those `listed` from an offset on, and again where one is gone.

    Whoever archives has put it into a larger one, perhaps. Raise Gone where that is not so.
    """
    at = begin
    lost: Gone | None = None
    for _ in range(LOOKS):
        try:
            for found in listed(at):
                yield found
                at = found[0].end
            break
        except Gone as gone:
            lost = gone
    if lost and at < end:
        raise lost


def proven(file: LogFileId, begin: int, end: int, chunks: Iterable[tuple[Chunk, bytes]]) -> Iterator[bytes]:
    """The bytes between two offsets out of the chunks that hold them, each proven by its hash.

    That each chunk was appended to those before it, the hash of what the file ended with then tells: it is
    compared where enough of them was read. Of an oplog that is told by its entries to whoever reads them.
    Raise VerificationFailed when one is not what was appended, or they are not all there.
    """
    at, before, since = begin, b"", -1
    for chunk, data in chunks:
        if len(data) != chunk.size or hashlib.sha256(data).hexdigest() != chunk.sha256:
            raise VerificationFailed(
                f"{file}: the bytes from {chunk.begin} to {chunk.end} are not what was archived"
            )
        if chunk.begin > at:
            raise VerificationFailed(f"{file} has a hole from {at} to {chunk.begin}")
        if 0 <= since <= chunk.begin <= since + len(before):
            before = before[: chunk.begin - since] + data
        else:
            before, since = data, chunk.begin
        known = file.begin is None and (since == 0 or len(before) >= TAIL)
        if known and tail_hash(before) != chunk.tail:
            raise VerificationFailed(
                f"{file}: the bytes up to {chunk.begin} are not those that were continued there, but another "
                "log's"
            )
        since += max(0, len(before) - TAIL)
        before = before[-TAIL:]
        if chunk.end > at and at < end:
            yield data[at - chunk.begin : end - chunk.begin]
            at = min(chunk.end, end)
    if at < end:
        raise VerificationFailed(f"{file} ends at {at}, before {end}")


def paced(pieces: Iterable[bytes], meter: Meter) -> Iterator[bytes]:
    """The same, as fast as the meter wants it. Raise Stopped when it says so."""
    pace = Pace(meter)
    for piece in pieces:
        pace.passed(len(piece))
        yield piece
