"""Entries of an oplog as they are stored (BSON), one behind another, out of pieces of any size.

They may be anybody's: each is bounded before it is decoded, and they have to be in an oplog's order.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from zbackup.model.errors import VerificationFailed
from zbackup.model.oplog_position import OplogPosition

LARGEST: Final = (16 << 20) + (16 << 10)
"""The largest document that mongod makes for itself (BSONObjMaxInternalSize in its sources)."""
_SMALLEST: Final = 5
_AWARE: Final = CodecOptions[dict[str, Any]](tz_aware=True, tzinfo=UTC)
_RAW: Final = CodecOptions[RawBSONDocument](document_class=RawBSONDocument, tz_aware=True, tzinfo=UTC)


class StoredEntry:
    """An entry. What stands in it is read when it is asked for; that raises VerificationFailed for what is no
    entry of an oplog."""

    __slots__ = ("_known", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._known: tuple[OplogPosition, datetime] | None = None

    @property
    def position(self) -> OplogPosition:
        return self._read()[0]

    @property
    def wall(self) -> datetime:
        """When it was written, by the clock of the primary that wrote it."""
        return self._read()[1]

    def _read(self) -> tuple[OplogPosition, datetime]:
        if self._known is None:
            self._known = _position_and_time(self.data)
        return self._known


def stored_entry(data: bytes) -> StoredEntry:
    """The entry in one document, which was read. Raise VerificationFailed."""
    entry = StoredEntry(data)
    _ = entry.position
    return entry


def _position_and_time(data: bytes) -> tuple[OplogPosition, datetime]:
    try:
        entry = RawBSONDocument(data, _RAW)
        # The one by which a set is begun has no term.
        time, term, wall = entry["ts"], entry.get("t", -1), entry["wall"]
        if not isinstance(time, Timestamp) or not isinstance(term, int) or not isinstance(wall, datetime):
            raise TypeError("its position and time are of other types")
        if entry["op"] not in ("i", "u", "d", "c", "n"):
            raise ValueError("it does nothing that is known")
        return OplogPosition(time.time, time.inc, int(term)), wall
    except (BSONError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as strange:
        raise VerificationFailed(f"what was archived is no entry of an oplog: {_short(strange)}") from strange


def documents(chunks: Iterable[bytes], *, cut: bool = False) -> Iterator[bytes]:
    """The single documents: each begins with its length, four bytes, little-endian (BSON).

    `cut`: the last one may be there in part, and then does not count. Raise VerificationFailed.
    """
    room = bytearray()
    for chunk in chunks:
        room += chunk
        at = 0
        while at + 4 <= len(room):
            length = int.from_bytes(room[at : at + 4], "little")
            if not _SMALLEST <= length <= LARGEST:
                raise VerificationFailed(f"what was archived is no oplog: an entry would have {length} bytes")
            if at + length > len(room):
                break
            yield bytes(room[at : at + length])
            at += length
        del room[:at]
    if room and not cut:
        raise VerificationFailed(f"what was archived ends within an entry, behind {len(room)} bytes of it")


def in_order(entries: Iterable[StoredEntry], behind: OplogPosition | None = None) -> Iterator[StoredEntry]:
    """The same entries. Raise VerificationFailed at one that cannot follow the one before it."""
    for entry in entries:
        if behind and (
            entry.position.cluster_time <= behind.cluster_time
            or (entry.position.term < behind.term and behind.term >= 0)
        ):
            raise VerificationFailed(
                f"what was archived is no oplog: {entry.position} stands behind {behind}"
            )
        behind = entry.position
        yield entry


def decoded(data: bytes) -> dict[str, Any]:
    """All that stands in an entry. Raise VerificationFailed when that is nothing Python can have."""
    try:
        return dict(bson.decode(data, _AWARE))
    except (BSONError, ValueError, OverflowError, RecursionError) as strange:
        raise VerificationFailed(f"an entry of the oplog cannot be read: {_short(strange)}") from strange


def _short(strange: Exception) -> str:
    return " ".join(str(strange).split())[:200] or type(strange).__name__
