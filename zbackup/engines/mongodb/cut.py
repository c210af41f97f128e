"""Where an oplog is cut: the last entry that is applied, the first that is not."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from bson.timestamp import Timestamp

from zbackup.engines.mongodb import oplog
from zbackup.engines.mongodb.connection import Connection
from zbackup.engines.mongodb.continuation import Continuation
from zbackup.engines.mongodb.oplog_entry import wall_time
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import ClusterTime
from zbackup.model.moment import utc_text

# A primary with nothing to do writes an entry all the same, every 10 seconds (its parameter
# periodicNoopIntervalSecs); twice that may pass before one is missed.
SILENCE = timedelta(seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """`skipped` is None when the log ends before the target."""

    applied: oplog.Entry
    skipped: oplog.Entry | None


def find_cut(
    log: Connection,
    continued: Continuation,
    begin: Timestamp,
    target: datetime,
    exact: ClusterTime | None,
) -> Cut:
    """The cut is before the first entry, in the order of the log, that was written at the target or later.

    `begin` is the checkpoint the base's tables are at. Wall-clock times may go back from one entry to the
    next; whatever stands behind the cut stays out, so that what is applied is a prefix of the log. With
    `exact` the entries' own timestamps count instead. Raise NotRecoverable when the base is past the cut.
    """
    wanted = {"ts": {"$gt": begin, "$lte": continued.sure.ts}}
    if exact:
        wanted["ts"]["$gte"] = Timestamp(exact.seconds, exact.increment)
        behind = begin >= wanted["ts"]["$gte"]
    else:
        behind = _written(log, begin, target)
    if behind:
        raise NotRecoverable(
            f"the base already holds what was written up to {begin.time},{begin.inc}, which is not before "
            "the target: start from an older backup (--base)"
        )
    skipped = oplog.find_first(log, wanted if exact else {**wanted, "wall": {"$gte": target}})
    if skipped is None:
        return Cut(applied=oplog.last(log, continued.sure.ts), skipped=None)
    return Cut(applied=oplog.before(log, skipped["ts"]), skipped=skipped)


def shortfall(cut: Cut, target: datetime) -> str:
    """A warning when the log ends well before the target: its server was down then, or had not caught up."""
    end = wall_time(cut.applied)
    if cut.skipped is not None or target - end <= SILENCE:
        return ""
    return (
        f"the log source's oplog ends at {utc_text(end)}: its server was down or lagged then, and what "
        "others of its replica set wrote after that and before the target is not in it"
    )


def _written(log: Connection, place: Timestamp, target: datetime) -> bool:
    """Whether the entry there, if the log still has it, was written at the target or later."""
    entry = oplog.at(log, place)
    return entry is not None and wall_time(entry) >= target
