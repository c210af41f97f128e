"""Holds a mongod still for the moment of the snapshot.

fsyncLock belongs to the server, not to a session: it counts, and outlives whoever took it. So a process of
our own is logged in before it is taken and releases it should we die or hang (see watchdog); and we never
take it when it is there already, for then nobody could tell whose lock is released.

What it does: MongoDB manual, "fsync (database command)". It flushes everything, journal and a checkpoint,
before it returns, and no write gets in while it lasts: nothing has to be waited for before the snapshot.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from zbackup.config.lock import Lock
from zbackup.engines.marker_file import MarkerFile
from zbackup.engines.mongodb.lock.release import release
from zbackup.engines.mongodb.lock.watchdog_message import ASKING, LOCKED, WatchOrder
from zbackup.engines.mongodb.optime import OplogEntry
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import CommandRefused, Connection, NotAnswered, connect
from zbackup.engines.mongodb.server.server_facts import end_after_snapshot, end_under_lock, first_in_snapshot
from zbackup.engines.mongodb.server.status import (
    OplogEnd,
    durable_wall,
    is_locked,
    operations,
    oplog_end,
    oplog_first,
    stillness,
)
from zbackup.model.errors import CommandFailed, DatabaseError, LockNotTaken
from zbackup.model.event_log import log
from zbackup.model.record import LockKind
from zbackup.proc.guardian import Guardian, start_guardian


def marker_file(path: Path) -> MarkerFile[str]:
    """Return the file that is there while the server may be locked by us."""
    return MarkerFile(
        path, "still", str, "delete it when the server is not locked (db.currentOp().fsyncLock)"
    )


def heal(options: ConnectOptions, note: MarkerFile[str]) -> None:
    """Release the lock that a killed run left, if it is still there and is certainly ours.

    Raise DatabaseError, with what to do, when there is a lock whose owner cannot be told.
    """
    still = note.read()
    if still is None:
        return
    try:
        connection = connect(options)
    except DatabaseError as failure:
        log.warning("lock.not_inspected", note=str(note.path), reason=str(failure))
        return
    with connection:
        if is_locked(connection):
            _require_ours(connection, note, still)
            release(connection)
            log.warning("lock.released_after_killed_run")
    note.remove()


def _require_ours(connection: Connection, note: MarkerFile[str], still: str) -> None:
    if stillness(connection) != still:
        raise DatabaseError(
            f"{connection.where} is locked (fsyncLock), and {note.path} says that a killed zbackup may have "
            f"done that, but another program may have as well: if no other backup runs, db.fsyncUnlock(), "
            f"and delete the note"
        )


POLL_S = 0.2
WRITES = ("w", "W")


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that keeps the server's lock: whose it is, and for how long it has been open."""

    client: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.client}, open for {self.seconds:.1f} s"


def settle_long_operations(connection: Connection, limits: Lock) -> None:
    """Return when no writing transaction has been open for `long_query`. Raise LockNotTaken if one is."""
    deadline = time.monotonic() + limits.wait
    while found := long_transactions(connection, limits.long_query):
        listed = "; ".join(map(str, found))
        if limits.on_long_query == "abort":
            raise LockNotTaken(f"transactions that would make everybody wait for the lock are open: {listed}")
        if time.monotonic() > deadline:
            raise LockNotTaken(
                f"transactions did not end within {limits.wait:g} s, and everybody would wait for the lock "
                f"behind them: {listed}"
            )
        log.info("lock.waits_for_transactions", transactions=listed)
        time.sleep(POLL_S)


def long_transactions(connection: Connection, seconds: float) -> list[OpenTransaction]:
    """The transactions that have written and are open for at least `seconds`."""
    found = operations(connection, {"transaction": {"$exists": True}})["inprog"]
    open_now = [_open(operation) for operation in found if _keeps_lock(operation)]
    return [transaction for transaction in open_now if transaction.seconds >= seconds]


def _keeps_lock(operation: Mapping[str, Any]) -> bool:
    return operation.get("locks", {}).get("Global") in WRITES


def _open(operation: Mapping[str, Any]) -> OpenTransaction:
    users = ", ".join(str(user.get("user")) for user in operation.get("effectiveUsers", []))
    where = str(operation.get("client") or operation.get("appName") or "a client")
    return OpenTransaction(
        client=f"{users or 'somebody'} at {where}",
        seconds=float(operation["transaction"].get("timeOpenMicros", 0)) / 1e6,
    )


WATCHDOG = "zbackup.engines.mongodb.lock.watchdog"

# Kept back from the ceiling, so that there is time to confirm the lock before the watchdog takes it away.
CONFIRM_S = 1.0
UNLOCKED_S = 600.0

# How much longer than for the lock itself its answer may take: see _take.
SLACK_S = 5.0


@dataclass(slots=True, kw_only=True)
class TakenLock:
    """See engines.base.DatabaseLock. `end` is None when the server keeps no oplog.

    `first`, its oldest entry, is known once it can be no older than that in the snapshot.
    """

    session: Connection
    kind: LockKind
    ceiling_s: float
    lock_wait_ms: int
    since: float
    end: OplogEnd | None
    held_ms: int = field(default=0)
    durable: datetime | None = field(default=None)
    after: OplogEnd | None = field(default=None)
    first: OplogEntry | None = field(default=None)

    @property
    def position(self) -> str:
        return str(self.end.at) if self.end else ""

    @property
    def gtid(self) -> str:
        return ""

    @property
    def facts(self) -> Mapping[str, str]:
        return (
            end_under_lock(self.end, self.durable)
            | end_after_snapshot(self.after)
            | first_in_snapshot(self.first)
        )

    def seconds_left(self) -> float:
        if self.kind == "none":
            return UNLOCKED_S
        return max(0.1, self.left() - min(CONFIRM_S, self.ceiling_s / 4))

    def confirm(self) -> None:
        if self.kind == "none":
            if self.end:
                self.after, self.first = oplog_end(self.session), oplog_first(self.session)
            return
        try:
            lasted = is_locked(self.session)
            now = oplog_end(self.session) if self.end else None
            first = oplog_first(self.session) if self.end else None
        except DatabaseError as lost:
            raise LockNotTaken(f"the lock cannot be confirmed: {lost}") from lost
        # The time is looked at last: up to now the watchdog has not released it.
        if not lasted or self.is_over:
            raise LockNotTaken(f"the lock did not last to the end (its ceiling is {self.ceiling_s:g} s)")
        if self.end and now and now.at != self.end.at:
            raise LockNotTaken(f"the oplog moved under the lock, from {self.end.at} to {now.at}")
        self.first = first

    @property
    def is_over(self) -> bool:
        """Whether the ceiling is reached; the watchdog reaches it a moment later."""
        return self.left() <= 0

    def left(self) -> float:
        """Seconds to the ceiling."""
        return self.ceiling_s - (time.monotonic() - self.since)


@contextmanager
def locked(
    options: ConnectOptions, limits: Lock, kind: LockKind, note: MarkerFile[str], *, oplog: bool
) -> Iterator[TakenLock]:
    """Take the lock, hold it while the body runs, release it, and see that it is gone.

    Raise LockNotTaken when it is not granted in time, or somebody else holds one.
    """
    with connect(options) as session:
        if kind == "none":
            yield _unlocked(session, oplog=oplog)
            return
        guardian = _guarded(options, limits, note)
        began = time.monotonic()
        asked, lock = False, None
        try:
            settle_long_operations(session, limits)
            note.write(stillness(session))
            _require_unlocked(session)
            guardian.tell(ASKING)
            asked = True
            wait_ms = _take(session, limits, limits.wait - (time.monotonic() - began))
            lock = TakenLock(
                session=session,
                kind=kind,
                ceiling_s=limits.hold,
                lock_wait_ms=wait_ms,
                since=time.monotonic(),
                end=None,
            )
            _begin(lock, guardian, note, oplog=oplog)
            yield lock
        except _NotOurs:
            _forget(guardian, note)
            raise
        except BaseException:
            if lock:
                _release(lock, guardian, note)
            elif asked:
                # It may have been granted, or still be: only the watchdog can wait for that.
                guardian.act()
            else:
                _forget(guardian, note)
            raise
        _release(lock, guardian, note)


def _unlocked(session: Connection, *, oplog: bool) -> TakenLock:
    return TakenLock(
        session=session,
        kind="none",
        ceiling_s=0,
        lock_wait_ms=0,
        since=0.0,
        end=oplog_end(session) if oplog else None,
        durable=durable_wall(session) if oplog else None,
    )


class _NotOurs(LockNotTaken):
    """The server is not locked by us, and will not be: there is nothing to release."""


def _begin(lock: TakenLock, guardian: Guardian, note: MarkerFile[str], *, oplog: bool) -> None:
    """Let the ceiling count, and see where the oplog stands now."""
    guardian.tell(LOCKED)
    if not guardian.alive:
        raise LockNotTaken("the watchdog of the lock has ended: was it killed?")
    note.write(stillness(lock.session))
    lock.end = oplog_end(lock.session) if oplog else None


def _guarded(options: ConnectOptions, limits: Lock, note: MarkerFile[str]) -> Guardian:
    order = WatchOrder(connect=options, note=note.path, wait_s=limits.wait + SLACK_S, hold_s=limits.hold)
    try:
        guardian = start_guardian(WATCHDOG, order.to_line())
        guardian.ready()
    except CommandFailed as failure:
        raise LockNotTaken(f"no watchdog for the lock: {failure}") from failure
    return guardian


def _require_unlocked(session: Connection) -> None:
    if not is_locked(session):
        return
    waiting = operations(session, {"waitingForLock": True})["inprog"]
    longest = max((float(o.get("microsecs_running", 0)) / 1e6 for o in waiting), default=0.0)
    behind = f"; {len(waiting)} operations wait behind it, the longest for {longest:.0f} s" if waiting else ""
    raise _NotOurs(
        f"{session.where} is locked by somebody else's fsyncLock{behind}: let that backup end, or "
        f"db.fsyncUnlock() if nothing runs that needs it"
    )


def _take(session: Connection, limits: Lock, left_s: float) -> int:
    """Take the lock; for how many milliseconds it was waited for. Only _NotOurs says that it is not there.

    fsyncLockAcquisitionTimeoutMillis came with 7.0.2, 6.0.11 and 5.0.22; older servers do not mind it.

    There the wait is limited on our side only: the lock may still be granted then, and is released at once.
    """
    left_s = max(1.0, left_s)
    order = {
        "fsync": 1,
        "lock": True,
        "fsyncLockAcquisitionTimeoutMillis": math.floor(left_s * 1000),
        "comment": "zbackup snapshot",
    }
    late = f"the lock fsync was not granted within {limits.wait:g} s"
    began = time.monotonic()
    try:
        count = int(session.command(order, limit_s=left_s + 1)["lockCount"])
    except CommandRefused as failure:
        raise _NotOurs(f"{late}: {failure}") from failure
    except NotAnswered as failure:
        raise LockNotTaken(f"{late}: {failure}") from failure
    except DatabaseError as failure:
        raise LockNotTaken(
            f"the server at {session.where} went away while it was to be locked: {failure}"
        ) from failure
    if count != 1:
        release(session)
        raise _NotOurs(
            f"{session.where} was locked by somebody else's fsyncLock at the same time ({count - 1} more): "
            f"let that backup end"
        )
    return round((time.monotonic() - began) * 1000)


def _forget(guardian: Guardian, note: MarkerFile[str]) -> None:
    guardian.done()
    note.remove()


def _release(lock: TakenLock, guardian: Guardian, note: MarkerFile[str]) -> None:
    """Unlock, and see that nothing is left of it. When we cannot, the watchdog does.

    Past the ceiling it has done so already or is about to, and a second unlock could be of another's lock.
    """
    over = lock.is_over
    lock.held_ms = round((time.monotonic() - lock.since) * 1000)
    if over and guardian.act():
        return
    try:
        # Where it is not answered, the watchdog is there until the ceiling, and in no hurry.
        left = release(lock.session, max(SLACK_S, lock.left()))
    except DatabaseError as failure:
        log.warning("lock.not_released", reason=str(failure))
        guardian.act()
        return
    lock.held_ms = round((time.monotonic() - lock.since) * 1000)
    _forget(guardian, note)
    if left:
        log.warning("lock.others_left", count=left)
