"""Places in an oplog."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import Timestamp

from zbackup.model import bounds
from zbackup.model.errors import VerificationFailed
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import Record

OPLOG = ("local", "oplog.rs")

_TEXT = re.compile(r"([0-9]{1,10}),([0-9]{1,10})@(-?[0-9]{1,19})")


@dataclass(frozen=True, slots=True, order=True)
class OpTime:
    """The position of one oplog entry: its cluster time, and the term of the primary that wrote it.

    Two entries with the same time but other terms are different ones: the history split there.
    """

    seconds: int
    increment: int
    term: int

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "OpTime":
        """The optime of an oplog entry, or of what replSetGetStatus calls an optime."""
        return cls(entry["ts"].time, entry["ts"].inc, int(entry.get("t", -1)))

    @classmethod
    def of_position(cls, position: OplogPosition) -> "OpTime":
        """The same position, as archives have it."""
        return cls(position.seconds, position.increment, position.term)

    @classmethod
    def parse(cls, text: str) -> "OpTime":
        """Read back what str() wrote. Raise ValueError."""
        found = _TEXT.fullmatch(text)
        if not found:
            raise ValueError(f"{bounds.shown(text)} is not SECONDS,INCREMENT@TERM")
        seconds, increment, term = map(int, found.groups())
        if max(seconds, increment) >= 2**32:
            raise ValueError(f"{text!r} is no timestamp of 64 bits")
        return cls(seconds, increment, term)

    def __str__(self) -> str:
        return f"{self.seconds},{self.increment}@{self.term}"

    @property
    def ts(self) -> Timestamp:
        """The timestamp as the oplog's entries have it."""
        return Timestamp(self.seconds, self.increment)


@dataclass(frozen=True, slots=True)
class OplogEntry:
    """An entry's position and its wall-clock time at the primary that wrote it, in whole milliseconds."""

    at: OpTime
    wall: datetime

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "OplogEntry":
        """Read an oplog entry. Entries have wall-clock times since MongoDB 4.2."""
        return cls(OpTime.of(entry), entry["wall"])


def recorded_optime(record: Record) -> OpTime | None:
    """Where the oplog ended by a backup's record; None when there was none.

    Raise VerificationFailed when the record cannot be understood.
    """
    try:
        return OpTime.parse(record.position) if record.position else None
    except ValueError as damaged:
        raise VerificationFailed(f"the recorded oplog position cannot be understood: {damaged}") from damaged
