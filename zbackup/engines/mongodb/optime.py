"""Positions in an oplog as its server has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import Timestamp

from zbackup.model.errors import VerificationFailed
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import Record

OPLOG = ("local", "oplog.rs")


def timestamp(position: OplogPosition) -> Timestamp:
    """The timestamp as the oplog's entries have it."""
    return Timestamp(position.seconds, position.increment)


@dataclass(frozen=True, slots=True)
class OplogEntry:
    """An entry's position and its wall-clock time at the primary that wrote it, in whole milliseconds."""

    at: OplogPosition
    wall: datetime

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "OplogEntry":
        """Read an oplog entry. Entries have wall-clock times since MongoDB 4.2."""
        return cls(OplogPosition.of(entry), entry["wall"])


def recorded_optime(record: Record) -> OplogPosition | None:
    """Where the oplog ended by a backup's record; None when there was none.

    Raise VerificationFailed when the record cannot be understood.
    """
    try:
        return OplogPosition.parse(record.position) if record.position else None
    except ValueError as damaged:
        raise VerificationFailed(f"the recorded oplog position cannot be understood: {damaged}") from damaged
