"""Hold a server still for the moment of the snapshot, for no longer than the ceiling.

Every lock ends with its session, and three see that this ends in time:

- the server: with wait_timeout set to the ceiling, it closes the session once that has been silent for so
  long. So the lock is gone whatever happens to zbackup: killed (the server sees the closed socket at once),
  stopped, or cut off from the server.
- a second session of ours, `control`, for statements of the first that wait: it ends the first by KILL.
- a watchdog, a process of its own with its own session (lock_watchdog), should zbackup die meanwhile: MySQL
  does not see that the client of a statement that waits is gone.

The session that has the lock says nothing that waits for anything a KILL does not free. A commit that waits
for a semi-sync replica or for space on a full disk keeps mutexes of the log, and a statement that wants one
of those cannot be killed: tried on MySQL 9.7, LOCK INSTANCE FOR BACKUP stayed for as long as the commit
waited, after KILL and after SIGKILL of the client. So whatever is asked under the lock is asked by `control`,
which holds nothing.

What the locks do: MySQL reference manual, "FLUSH Statement" and "LOCK INSTANCE FOR BACKUP and UNLOCK INSTANCE
Statements"; MariaDB's manual, "BACKUP STAGE" and "Storage Snapshots and BACKUP STAGE Commands".
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from zbackup.config.lock import Lock
from zbackup.engines.mysql.lock.long_queries import blockers_of, settle_long_queries, who_holds_up
from zbackup.engines.mysql.lock.wait_limit import NotInTime, limited
from zbackup.engines.mysql.lock.watchdog_message import EndWithin, LockOrder
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import (
    Connection,
    ConnectionLost,
    NotAnswered,
    StatementFailed,
    connect,
    whole_number,
)
from zbackup.engines.mysql.server.status import LogStatus, dialect, log_status
from zbackup.model.errors import CommandFailed, DatabaseError, LockNotTaken
from zbackup.model.event_log import log
from zbackup.model.record import LockKind
from zbackup.proc.guardian import Guardian, start_guardian

WATCHDOG = "zbackup.engines.mysql.lock.lock_watchdog"

ASKING_S = 10.0
"""Seconds for an answer that the lock does not depend on, such as the process list."""
LATER_S = 1.0
"""How much longer than we ourselves the watchdog waits."""
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
"""Asked by `control` as well: no lock keeps it out (tried on MySQL 9.7, MariaDB 10.11 and 11.8)."""
RELEASE: dict[LockKind, str] = {
    "ftwrl": "UNLOCK TABLES",
    "backup-stage": "BACKUP STAGE END",
    "backup-lock": "UNLOCK INSTANCE",
}

STOPS_COMMITS: tuple[LockKind, ...] = ("ftwrl", "backup-stage")
"""The kinds under which the log stands still."""


@dataclass(slots=True, kw_only=True)
class TakenLock:
    """See engines.base.DatabaseLock. `session` has the lock, and `control` asks what is asked under it."""

    session: Connection
    control: Connection
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
        left = self._left()
        try:
            with limited(self.session, self.control, max(0.1, left), "the lock was not confirmed"):
                _end_when_silent(self.session, left)
        except LockNotTaken as lost:
            raise LockNotTaken(
                f"the lock did not last to the end (its ceiling is {self.ceiling_s:g} s): {lost}"
            ) from lost
        if self.kind not in STOPS_COMMITS:
            return
        now = _status(self.control, self._left())
        if now != self.status and not self._only_noted(now):
            raise LockNotTaken(f"the log moved under the lock, from {self.status.position} to {now.position}")

    def _only_noted(self, now: LogStatus) -> bool:
        """Whether no transaction is new.

        MariaDB notes now and then up to where crash recovery has to read (Binlog_checkpoint_event), under any
        lock; each of its transactions has a GTID.
        """
        known = self.status
        return (
            dialect(self.control).flavor == "mariadb"
            and bool(now.gtid)
            and now.gtid == known.gtid
            and bool(now.position and known.position and now.position.file == known.position.file)
        )

    def _left(self) -> float:
        return self.ceiling_s - (time.monotonic() - self.since)


@contextmanager
def watched(options: ConnectOptions, kind: LockKind) -> Iterator[Guardian | None]:
    """Have a watchdog while the body runs, logged in before it begins; None where nothing is locked.

    A program takes its time to start: this is entered before anybody waits for us. Raise LockNotTaken when it
    is not up.
    """
    if kind == "none":
        yield None
        return
    try:
        guardian = start_guardian(WATCHDOG, LockOrder(connect=options).to_line())
        guardian.ready()
    except CommandFailed as failure:
        raise LockNotTaken(
            f"nothing was locked, because the lock's watchdog did not start: {failure}"
        ) from failure
    try:
        yield guardian
    except BaseException:
        guardian.act()
        raise
    guardian.done()


@contextmanager
def locked(
    options: ConnectOptions, limits: Lock, kind: LockKind, watchdog: Guardian | None
) -> Iterator[TakenLock]:
    """Take the lock, hold it while the body runs, release it, and see that it is gone.

    `watchdog` is what `watched` gave. Raise LockNotTaken when it is not granted within `limits.wait`.
    """
    with connect(replace(options, limit_s=ASKING_S)) as control:
        if watchdog is None:
            yield (unlocked := _unlocked(control))
            unlocked.held_ms = round((time.monotonic() - unlocked.since) * 1000)
            return
        control.keep_for(limits.wait + limits.hold)
        began = time.monotonic()
        session = _granted(options, control, limits, kind, watchdog)
        try:
            granted = time.monotonic()
            watchdog.tell(EndWithin(session.id, limits.hold).to_word())
            lock = TakenLock(
                session=session,
                control=control,
                kind=kind,
                ceiling_s=limits.hold,
                lock_wait_ms=round((granted - began) * 1000),
                since=granted,
                status=_settled(control, limits, kind, granted),
            )
            yield lock
            _release(session, control, kind, limits.hold - (time.monotonic() - granted))
            lock.held_ms = round((time.monotonic() - granted) * 1000)
        except NotAnswered as silent:
            _give_up(session, control)
            raise LockNotTaken(f"under the lock {kind} {silent}{who_holds_up(options)}") from silent
        except BaseException:
            _give_up(session, control)
            raise
        _end(session, control)


def _unlocked(control: Connection) -> TakenLock:
    return TakenLock(
        session=control,
        control=control,
        kind="none",
        ceiling_s=0,
        lock_wait_ms=0,
        since=time.monotonic(),
        status=log_status(control, dialect(control)),
    )


def _granted(
    options: ConnectOptions, control: Connection, limits: Lock, kind: LockKind, watchdog: Guardian
) -> Connection:
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
            watchdog.tell(EndWithin(session.id, within_s + LATER_S).to_word())
            if not watchdog.alive:
                raise LockNotTaken(
                    "nothing was locked, because the lock's watchdog has exited: was it killed?"
                )
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
    """End it, too; what is told is what failed before, an interrupt above all.

    By KILL at once: where it waits for its lock, the server does not see that its client has gone.
    """
    try:
        session.close()
        with suppress(StatementFailed):
            control.execute(f"KILL {session.id}")
        _require_gone(control, session.id)
    except (DatabaseError, LockNotTaken) as failure:
        log.warning("lock.session_ended", session=session.id, reason=str(failure))


def _end_when_silent(session: Connection, seconds: float) -> None:
    """Let the server end the session, and its lock, when it has been silent for so long.

    It counts from the last statement: after each that took its time under the lock the ceiling is nearer.
    """
    session.execute("SET SESSION wait_timeout = %s", (max(1, math.floor(seconds)),))


def _take(session: Connection, control: Connection, limits: Lock, kind: LockKind, within_s: float) -> None:
    # One statement may wait for several things in turn, each for lock_wait_timeout: hence the second limit.
    with limited(session, control, within_s, f"the lock {kind} was not granted"):
        session.execute("SET SESSION lock_wait_timeout = %s", (math.floor(within_s),))
        _end_when_silent(session, limits.hold)
        for statement in TAKE[kind]:
            session.execute(statement)


def _settled(control: Connection, limits: Lock, kind: LockKind, granted: float) -> LogStatus:
    """Where the log ends, with all of it on disk where that stands still."""
    if kind in STOPS_COMMITS:
        with control.within(_positive(limits.hold - (time.monotonic() - granted))):
            control.execute(SETTLE)
    return _status(control, limits.hold - (time.monotonic() - granted))


def _status(control: Connection, left_s: float) -> LogStatus:
    with control.within(_positive(left_s)):
        return log_status(control, dialect(control))


def _positive(seconds: float) -> float:
    """What is left of a ceiling, as a time limit."""
    return max(0.1, seconds)


def _release(session: Connection, control: Connection, kind: LockKind, left_s: float) -> None:
    """Release the lock by a statement, so that others go on before the session is cleared away."""
    try:
        with limited(session, control, max(CONFIRM_S, left_s), "the lock was not released by its statement"):
            session.execute(RELEASE[kind])
    except (DatabaseError, LockNotTaken) as failure:
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
