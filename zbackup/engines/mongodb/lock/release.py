"""Release an fsyncLock of ours, and see that it is gone."""

import time

from zbackup.engines.mongodb.server.connection import CommandRefused, Connection
from zbackup.engines.mongodb.server.status import is_locked, operations

# How long the server is watched for a lock that was asked for and is still to come.
COMING_S = 5.0
POLL_S = 0.1
# fsyncUnlock waits for an fsyncLock that is itself waiting, and releases it the moment it is granted.
UNLOCK_LIMIT_S = 600.0


def release(connection: Connection, limit_s: float = UNLOCK_LIMIT_S) -> int:
    """Unlock once. Returns how many locks are left (of others); 0 as well when there was none.

    Raise DatabaseError when the server cannot be asked: at once when it has ended, and its lock with it.
    """
    connection.await_server(limit_s)
    try:
        return int(connection.command({"fsyncUnlock": 1}, limit_s=limit_s)["lockCount"])
    except CommandRefused as refused:
        if "not locked" not in str(refused):
            raise
        return 0


def release_when_it_comes(connection: Connection) -> None:
    """Unlock once, also a lock that was asked for but is not yet granted, or has not even reached the server.

    Whoever asked for it is dead or gave up, and the server grants it all the same.
    """
    deadline = time.monotonic() + COMING_S
    while time.monotonic() < deadline:
        if is_locked(connection) or _is_waiting(connection):
            release(connection)
            return
        time.sleep(POLL_S)


def _is_waiting(connection: Connection) -> bool:
    """Whether somebody's fsyncLock waits to be granted: the server lists the thread that will hold
    it."""
    return bool(operations(connection, {"desc": "fsyncLockWorker"})["inprog"])
