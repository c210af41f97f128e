"""Hold a server still for the moment of the snapshot, for no longer than the ceiling.

Every lock ends with its session, and the session ends by itself: with wait_timeout set to the ceiling, the
server closes it once it has been silent that long. So the lock is gone in time whatever happens to zbackup:
killed (the server sees the closed socket at once), stopped, or cut off from the server.

What the locks do: MySQL reference manual, "FLUSH Statement" and "LOCK INSTANCE FOR BACKUP and UNLOCK INSTANCE
Statements"; MariaDB's manual, "BACKUP STAGE" and "Storage Snapshots and BACKUP STAGE Commands".
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from zbackup.config.lock import Lock
from zbackup.engines.mysql.lock.long_queries import blockers_of, settle_long_queries
from zbackup.engines.mysql.lock.wait_limit import NotInTime, limited
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import (
    Connection,
    ConnectionLost,
    StatementFailed,
    connect,
    whole_number,
)
from zbackup.engines.mysql.server.status import LogStatus, dialect, instant_log_status, log_status
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.event_log import log
from zbackup.model.record import LockKind

GONE_LIMIT_S = 5.0
POLL_S = 0.05

# Kept back from the ceiling, so that there is time to confirm the lock before the server takes it away.
CONFIRM_S = 1.0
UNLOCKED_S = 600.0

# No FLUSH TABLES before the lock, as is the custom: MySQL has those who use a table that is to be flushed
# wait until all have closed it, also when the FLUSH was given up. Two transactions, one waiting for a row of
# the other, and that one for the flush, stood still for innodb_lock_wait_timeout, 50 s (tried on 9.7). With
# innodb_flush_log_at_trx_commit = 0 the binlog can name commits that the redo log does not hold yet: once
# nothing is committed any more, ENGINE LOGS writes them (tried on MySQL 9.7 and MariaDB 11.8; without it up
# to 264 rows of a MySQL under load were missing after recovery).
TAKE: dict[LockKind, tuple[str, ...]] = {
    "ftwrl": ("FLUSH TABLES WITH READ LOCK",),
    "backup-stage": ("BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT"),
    "backup-lock": ("LOCK INSTANCE FOR BACKUP",),
    "none": (),
}
SETTLE = "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS"
RELEASE: dict[LockKind, str] = {
    "ftwrl": "UNLOCK TABLES",
    "backup-stage": "BACKUP STAGE END",
    "backup-lock": "UNLOCK INSTANCE",
}

STOPS_COMMITS: tuple[LockKind, ...] = ("ftwrl", "backup-stage")
"""The kinds under which the log stands still."""


@dataclass(slots=True, kw_only=True)
class TakenLock:
    """See engines.base.DatabaseLock."""

    session: Connection
    kind: LockKind
    ceiling_s: float
    lock_wait_ms: int
    since: float
    status: LogStatus
    held_ms: int = field(default=0)

    @property
    def position(self) -> str:
        return str(self.status.position or "")

    @property
    def gtid(self) -> str:
        return self.status.gtid

    @property
    def facts(self) -> Mapping[str, str]:
        return {}

    def seconds_left(self) -> float:
        if self.kind == "none":
            return UNLOCKED_S
        return max(0.1, self._left() - min(CONFIRM_S, self.ceiling_s / 4))

    def confirm(self) -> None:
        if self.kind == "none":
            return
        try:
            _end_when_silent(self.session, self._left())
            now = _status(self.session, self.kind)
        except (ConnectionLost, StatementFailed) as lost:
            raise LockNotTaken(
                f"the lock did not last to the end (its ceiling is {self.ceiling_s:g} s): {lost}"
            ) from lost
        if self.kind in STOPS_COMMITS and now != self.status and not self._only_noted(now):
            raise LockNotTaken(f"the log moved under the lock, from {self.status.position} to {now.position}")

    def _only_noted(self, now: LogStatus) -> bool:
        """Tell whether no transaction is new.

        MariaDB notes now and then up to where crash recovery has to read (Binlog_checkpoint_event), under any
        lock; each of its transactions has a GTID.
        """
        known = self.status
        return (
            dialect(self.session).flavor == "mariadb"
            and bool(now.gtid)
            and now.gtid == known.gtid
            and bool(now.position and known.position and now.position.file == known.position.file)
        )

    def _left(self) -> float:
        return self.ceiling_s - (time.monotonic() - self.since)


@contextmanager
def locked(options: ConnectOptions, limits: Lock, kind: LockKind) -> Iterator[TakenLock]:
    """Take the lock, hold it while the body runs, release it, and see that it is gone.

    Raise LockNotTaken when it is not granted within `limits.wait`.
    """
    with connect(options) as control:
        control.keep_for(limits.wait + limits.hold)
        began = time.monotonic()
        session = _granted(options, control, limits, kind)
        try:
            granted = time.monotonic()
            lock = TakenLock(
                session=session,
                kind=kind,
                ceiling_s=limits.hold,
                lock_wait_ms=round((granted - began) * 1000),
                since=granted,
                status=_settled(session, control, limits, kind, granted),
            )
            yield lock
            _release(session, kind)
            lock.held_ms = round((time.monotonic() - granted) * 1000)
        except BaseException:
            _give_up(session, control)
            raise
        _end(session, control)


def _granted(options: ConnectOptions, control: Connection, limits: Lock, kind: LockKind) -> Connection:
    """A session that has the lock.

    With ftwrl a transaction may wait for the lock, while the lock waits for a statement, and that statement
    for a row of the transaction's: no server sees this circle. So the lock gives way, and is asked for again;
    each time for twice as long, so that a slow server grants it too.
    """
    deadline = time.monotonic() + limits.wait
    patience_s = limits.give_way
    while True:
        within_s = max(1.0, deadline - time.monotonic())
        if kind == "ftwrl":
            settle_long_queries(control, limits, deadline)
            within_s = min(max(1.0, deadline - time.monotonic()), patience_s)
        session = connect(options)
        try:
            _take(session, control, limits, kind, within_s)
        except NotInTime as late:
            _end(session, control)
            if time.monotonic() + limits.give_way >= deadline:
                raise LockNotTaken(
                    f"the lock {kind} was not granted within {limits.wait:g} s{blockers_of(control)}"
                ) from late
            log.info("lock.gave_way", lock=kind, after_s=within_s)
            time.sleep(limits.give_way)
            patience_s *= 2
        except BaseException:
            _give_up(session, control)
            raise
        else:
            return session


def _end(session: Connection, control: Connection) -> None:
    session.close()
    _require_gone(control, session.id)


def _give_up(session: Connection, control: Connection) -> None:
    """End it, too; what is told is what failed before, an interrupt above all."""
    try:
        _end(session, control)
    except (DatabaseError, LockNotTaken) as failure:
        log.warning("lock.session_ended", session=session.id, reason=str(failure))


def _end_when_silent(session: Connection, seconds: float) -> None:
    """Let the server end the session, and its lock, when it has been silent for so long.

    It counts from the last statement: after each that took its time under the lock the ceiling is nearer.
    """
    session.execute("SET SESSION wait_timeout = %s", (max(1, math.floor(seconds)),))


def _take(session: Connection, control: Connection, limits: Lock, kind: LockKind, within_s: float) -> None:
    if kind == "none":
        return
    session.execute("SET SESSION lock_wait_timeout = %s", (math.floor(within_s),))
    _end_when_silent(session, limits.hold)
    # One statement may wait for several things in turn, each for lock_wait_timeout: hence the second limit.
    with limited(session, control, within_s, f"the lock {kind} was not granted"):
        for statement in TAKE[kind]:
            session.execute(statement)


def _settled(
    session: Connection, control: Connection, limits: Lock, kind: LockKind, granted: float
) -> LogStatus:
    try:
        if kind in STOPS_COMMITS:
            # wait_timeout ends silent sessions only: a disk that hangs in this would stretch the ceiling.
            with limited(session, control, limits.hold, "the log was not flushed under the lock"):
                session.execute(SETTLE)
            _end_when_silent(session, limits.hold - (time.monotonic() - granted))
        return _status(session, kind)
    except ConnectionLost as lost:
        raise LockNotTaken(f"the lock was lost at once: {lost}") from lost


def _status(session: Connection, kind: LockKind) -> LogStatus:
    if kind == "backup-lock":
        return instant_log_status(session)
    return log_status(session, dialect(session))


def _release(session: Connection, kind: LockKind) -> None:
    """Release the lock by a statement, so that others go on before the session is cleared away."""
    if kind == "none":
        return
    try:
        session.execute(RELEASE[kind])
    except DatabaseError as failure:
        log.warning("lock.not_released", lock=kind, reason=str(failure))


def _require_gone(control: Connection, number: int) -> None:
    """The session that held the lock must not be there any more: it is ended by force if it is.

    That the server cannot be asked is not an error here: then its own ceiling holds.
    """
    deadline = time.monotonic() + GONE_LIMIT_S
    try:
        while _is_there(control, number):
            if time.monotonic() > deadline:
                control.execute(f"KILL {number}")
                raise LockNotTaken(f"session {number}, which held the lock, did not end and was killed")
            time.sleep(POLL_S)
    except (ConnectionLost, StatementFailed) as failure:
        log.warning("lock.not_seen_gone", session=number, reason=str(failure))


def _is_there(control: Connection, number: int) -> bool:
    return any(whole_number(row, "Id") == number for row in control.rows("SHOW PROCESSLIST"))
