"""A limit on how long a statement of ours may wait inside the server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zbackup.engines.mysql.server.connection import Connection, ConnectionLost, StatementFailed
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.event_log import log

LOCK_WAIT_TIMEOUT = 1205
KILL_LIMIT_S = 5.0
"""Seconds for the server to answer a KILL. It reads the KILL later, too: a server that is stopped, say."""


class NotInTime(LockNotTaken):
    """A statement of ours waited for as long as it may."""


@contextmanager
def limited(session: Connection, control: Connection, seconds: float, what: str) -> Iterator[None]:
    """Run the body's statements on `session`; after `seconds` end that session through `control`.

    `control` must be idle meanwhile, and is opened beforehand: a server that is stuck may take no new
    connections. The body ends then whatever the server does. Raise LockNotTaken, saying `what` was not done,
    when the server refused; NotInTime when time was up, also by the server's own limit on waiting
    (lock_wait_timeout).
    """
    expired = threading.Event()

    def end() -> None:
        expired.set()
        try:
            with control.within(KILL_LIMIT_S):
                control.execute(f"KILL {session.id}")
        except DatabaseError as failure:
            log.warning("session.not_killed", session=session.id, reason=str(failure))
        session.abort()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (StatementFailed, ConnectionLost) as failure:
        late = isinstance(failure, StatementFailed) and failure.code == LOCK_WAIT_TIMEOUT
        if late or expired.is_set():
            raise NotInTime(f"{what} within {seconds:.0f} s") from failure
        raise LockNotTaken(f"{what}: {failure}") from failure
    finally:
        timer.cancel()
        timer.join()
    if expired.is_set():
        raise NotInTime(f"{what} within {seconds:.0f} s")
