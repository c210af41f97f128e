"""A ceiling on how long a statement of ours may wait inside the server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from zbackup.engines.mysql.connection import Connection, ConnectionLost, StatementFailed
from zbackup.model.errors import DatabaseError, LockNotTaken

log = structlog.get_logger()


@contextmanager
def limited(session: Connection, control: Connection, seconds: float, what: str) -> Iterator[None]:
    """Run the body's statements on `session`; after `seconds` end that session through `control`.

    `control` must be idle meanwhile, and is opened beforehand: a server that is stuck may take no new
    connections. Raise LockNotTaken, saying `what` was not done, when time was up or the server refused.
    """
    expired = threading.Event()

    def end() -> None:
        expired.set()
        try:
            control.execute(f"KILL {session.id}")
        except DatabaseError as failure:
            log.warning("session.not_killed", session=session.id, reason=str(failure))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (StatementFailed, ConnectionLost) as failure:
        late = f" within {seconds:.0f} s" if expired.is_set() else f": {failure}"
        raise LockNotTaken(f"{what}{late}") from failure
    finally:
        timer.cancel()
        timer.join()
    if expired.is_set():
        raise LockNotTaken(f"{what} within {seconds:.0f} s")
