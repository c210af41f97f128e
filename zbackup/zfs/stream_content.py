"""Tell what is in a stream of `zfs send`, without how it is written: the same for every copy of a snapshot.

Two hosts' streams of one snapshot differ in names, in checksums over those, and in how holes are told. What
is compared here is objects and their data.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import IO

from zbackup.model.command_line import command_line
from zbackup.model.drr_begin import RECORD
from zbackup.model.errors import KeyNotLoaded, VerificationFailed
from zbackup.proc.pipeline import Command, Meter, Pace, reading
from zbackup.zfs.stream_records import END, byte_order, read_record


@dataclass(frozen=True, slots=True)
class Content:
    """`size` is how many bytes of data were read; `sha256` (hexadecimal) is of them and of where they belong.

    `whole`: the stream was read to its end.
    """

    size: int
    sha256: str
    whole: bool


class _Enough(Exception):
    """Enough was read: as much as was asked for."""

    def __init__(self, found: Content) -> None:
        super().__init__()
        self.found = found


def opens(sender: Command) -> bool:
    """Whether the key that is loaded opens the encrypted snapshot that `sender` sends, not raw."""
    try:
        read_content(sender, 1, Meter())
    except KeyNotLoaded:
        return False
    return True


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
        raise VerificationFailed(f"the stream of {command_line(*sender.argv)} ends in the middle")
    return found


def content(source: IO[bytes], most: int, pace: Pace) -> Content | None:
    """The content as read_content tells it; None when the stream ends before its end."""
    order = ""
    size, digest = 0, hashlib.sha256()
    while not most or size < most:
        if len(header := source.read(RECORD)) < RECORD:
            return None
        order = order or byte_order(header)
        record = read_record(order, header)
        if record.kind == END:
            return Content(size, digest.hexdigest(), whole=True)
        if len(data := source.read(record.payload)) < record.payload:
            return None
        pace.passed(RECORD + record.payload)
        if record.where:
            digest.update(struct.pack(f"<{1 + len(record.where)}Q", record.kind, *record.where) + data)
            size += len(data)
    return Content(size, digest.hexdigest(), whole=False)
