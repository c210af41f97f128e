"""Find how far a backup's data reaches, by what was recorded with it: only a mongod can read the files.

Pure.
"""

from datetime import datetime, timedelta

from zbackup.model import bounds
from zbackup.model.errors import VerificationFailed
from zbackup.model.record import Record
from zbackup.model.recovery import Reach

# ZFS knows whole seconds of a snapshot's making.
CREATED_WITHIN = timedelta(seconds=1)

# A write that did not ask for the journal is there after the next commit of it: storage.journal's
# commitIntervalMs is 100 by default and at most 500. For want of an answer of the server's only.
JOURNAL_LAG = timedelta(milliseconds=500)


def reach(record: Record, created: datetime) -> Reach:
    """From the oplog's end as it was seen; `created` is the snapshot's own time.

    A primary takes no write that it has not seen, so that up to the lock all is inside. Without one that is
    so up to the newest entry that was in the journal on disk, by the server's word: for a target up to its
    time the stop point is before it. A secondary's oplog has its primary's times, and what was written there
    may not have reached it yet. Without an oplog nothing is known but the time. Raise VerificationFailed when
    the record cannot be understood.
    """
    wall = _recorded(record, "oplog_wall")
    if record.purpose == "log":
        # The server was not asked: `server` was known when an earlier backup was taken.
        earlier = _recorded(record, "oplog_after_wall") or wall or record.taken
        lag = timedelta() if record.stopped_for else JOURNAL_LAG
        complete = earlier if record.role == "replica" or record.log_ended else record.taken - lag
        return Reach(as_of=created + CREATED_WITHIN, complete_to=complete)
    locked = _locked(record)
    if wall is None:
        as_of = record.taken if locked else created + CREATED_WITHIN
        return Reach(as_of=as_of, complete_to=record.taken)
    if locked:
        return Reach(as_of=wall, complete_to=wall if record.role == "replica" else record.taken)
    as_of = _recorded(record, "oplog_after_wall") or created + CREATED_WITHIN
    complete = wall if record.role == "replica" else record.taken
    if record.lock == "fsync":
        return Reach(as_of=as_of, complete_to=complete)
    durable = _recorded(record, "oplog_durable_wall")
    return Reach(as_of=as_of, complete_to=durable or complete - JOURNAL_LAG)


def was_still(record: Record) -> bool:
    """Whether nobody wrote when the snapshot was taken, so that its oplog has no holes.

    A server that takes writes notes up to where its oplog has none, but not while it is locked: then what is
    behind that position is complete as well. A secondary's stops where it says.
    """
    return _locked(record) and record.role == "primary"


def _locked(record: Record) -> bool:
    """Whether the lock was there to the end.

    How long it was held is written down once it was seen to have lasted: a zfs command that hangs goes on
    when zbackup is killed, and the lock is gone before its snapshot is there.
    """
    return record.lock == "fsync" and record.lock_held_ms is not None


def _recorded(record: Record, name: str) -> datetime | None:
    try:
        return bounds.moment(record.server[name]) if name in record.server else None
    except ValueError as damaged:
        raise VerificationFailed(f"the recorded {name} cannot be understood: {damaged}") from damaged
