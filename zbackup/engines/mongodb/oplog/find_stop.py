"""Find where the replay of an oplog stops: the last entry that is applied, the first that is not."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.continuation import Continuation
from zbackup.engines.mongodb.oplog.oplog import Oplog
from zbackup.engines.mongodb.oplog.oplog_entry import wall_time
from zbackup.engines.mongodb.optime import timestamp
from zbackup.model.commit_times import TOLERANCE
from zbackup.model.errors import ClockDisputed, NotRecoverable
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.moment import utc_text
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.target import Stop, Time, WholeLog, time_of

# A primary with nothing to do writes an entry all the same, every 10 seconds (its parameter
# periodicNoopIntervalSecs); twice that may pass before one is missed.
SILENCE = timedelta(seconds=20)

# A snapshot without a lock may take as long (its command's time limit) after the clock was read for it.
TAKEN_WITHIN = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPoint:
    """`skipped` is None when the log ends before the target. `behind` entries behind it carry an earlier
    time all the same; `disputed`: so much earlier that the log can be read in two ways."""

    applied: oplog.Entry
    skipped: oplog.Entry | None
    behind: int = 0
    disputed: bool = False


def find_stop(
    log: Oplog,
    continued: Continuation,
    begin: Timestamp,
    stop: Stop,
    taken: datetime,
) -> StopPoint:
    """The stop point is before the first entry, in the order of the log, that was written at the target or
    later.

    `begin` is the checkpoint the base's tables are at. Wall-clock times may go back from one entry to the
    next; whatever stands behind the stop point stays out, so that what is applied is a prefix of the log.
    With a cluster time the entries' own timestamps count instead, and of the whole log all that is sure is
    applied. `taken` is when the log source's snapshot was: times well behind it are wrong and do not count.
    Raise NotRecoverable when the base is past the stop point; ClockDisputed when an entry behind it is
    earlier than the target by more than is ordinary, unless the clock is accepted.
    """
    if isinstance(stop, WholeLog):
        return StopPoint(applied=oplog.last(log, timestamp(continued.sure)), skipped=None)
    if isinstance(stop, Transaction):
        raise AssertionError(f"{stop} is no cluster time")
    wanted: dict[str, Any] = {"ts": {"$gt": begin, "$lte": timestamp(continued.sure)}}
    if isinstance(stop, ClusterTime):
        wanted["ts"]["$gte"] = Timestamp(stop.seconds, stop.increment)
        behind = begin >= wanted["ts"]["$gte"]
    else:
        wanted["wall"] = {"$gte": stop.at, "$lte": taken + TAKEN_WITHIN}
        behind = _written(log, begin, stop.at)
    if behind:
        raise NotRecoverable(
            f"the base already holds what was written up to {begin.time},{begin.inc}, which is not before "
            "the target: start from an older backup (--base)"
        )
    skipped = log.find(wanted)
    if skipped is None:
        return StopPoint(applied=oplog.last(log, timestamp(continued.sure)), skipped=None)
    if isinstance(stop, ClusterTime):
        return StopPoint(applied=oplog.before(log, skipped["ts"]), skipped=skipped)
    return _by_time(log, skipped, stop, continued.sure, taken)


def _by_time(log: Oplog, skipped: oplog.Entry, stop: Time, sure: OplogPosition, taken: datetime) -> StopPoint:
    """Stop before `skipped`, the first entry from the time on; raise ClockDisputed as find_stop() does."""
    applied = oplog.before(log, skipped["ts"])
    strange = oplog.last_behind(log, skipped, stop.at - TOLERANCE, timestamp(sure))
    if wall_time(applied) > taken + TAKEN_WITHIN:
        # Of the last one that is in nobody knows whether it is from before the target.
        strange = strange or applied
    if strange is not None and not stop.accept_clock:
        raise _disputed(stop.at, skipped, strange)
    count = oplog.count_behind(log, skipped, stop.at)
    return StopPoint(applied=applied, skipped=skipped, behind=count, disputed=strange is not None)


def _disputed(at: datetime, skipped: oplog.Entry, strange: oplog.Entry) -> ClockDisputed:
    one, other = (f"{entry['ts'].time},{entry['ts'].inc}" for entry in (skipped, strange))
    return ClockDisputed(
        f"the oplog can be read in two ways at {utc_text(at)}: the entry {one} says "
        f"{utc_text(wall_time(skipped))}, and {other} says {utc_text(wall_time(strange))}: a clock was "
        f"wrong; name the first entry to leave out with --to-timestamp, such as {one}, or take that with "
        "--accept-clock"
    )


def shortfall(point: StopPoint, stop: Stop) -> str:
    """Warn when the log ends well before the target: its server was down then, or had not caught up."""
    if isinstance(stop, WholeLog):
        return ""
    end = wall_time(point.applied)
    if point.skipped is not None or time_of(stop) - end <= SILENCE:
        return ""
    return (
        f"the log source's oplog ends at {utc_text(end)}: its server was down or lagged then, and what "
        "others of its replica set wrote after that and before the target is not in it"
    )


def drift(point: StopPoint, stop: Stop) -> str:
    """Warn when the cluster's clock was not the server's where the replay stops at a cluster time.

    One member whose clock was ahead takes the cluster time of all along, until time has caught up: a moment
    that is taken for a cluster time then means an earlier one.
    """
    if not isinstance(stop, ClusterTime):
        return ""
    entry = point.skipped or point.applied
    wall, cluster = wall_time(entry), datetime.fromtimestamp(entry["ts"].time, UTC)
    if abs(cluster - wall) <= SILENCE:
        return ""
    what = "the first entry that is left out" if point.skipped else "the last entry that is in"
    return (
        f"{what} was written at {utc_text(wall)} by the server's clock, and at {utc_text(cluster)} by the "
        "cluster's, which runs ahead when the clock of a member was: is it the moment that was meant?"
    )


def _written(log: Oplog, position: Timestamp, at: datetime) -> bool:
    """Whether the entry there, if the log still has it, was written at the target or later."""
    entry = oplog.at(log, position)
    return entry is not None and wall_time(entry) >= at
