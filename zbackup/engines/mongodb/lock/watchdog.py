"""Releases the lock when the zbackup that took it dies or hangs. See lock and proc.guardian.

fsyncLock survives its client. Run as `python -m zbackup.engines.mongodb.lock.watchdog` with its order on
stdin. It logs in at once, before the lock: under one the server may let nobody log in.
"""

import signal
import sys
import time

from zbackup.engines.mongodb.lock.marker_file import MarkerFile
from zbackup.engines.mongodb.lock.release import release_when_it_comes
from zbackup.engines.mongodb.lock.watchdog_message import ASKING, LOCKED, WatchOrder
from zbackup.engines.mongodb.server.connection import Connection, connect
from zbackup.model.errors import DatabaseError
from zbackup.proc.guardian import answer, word

RETRY_S = 1.0
TRY_FOR_S = 300.0

# Longer than anybody waits before asking: one who was stopped meanwhile may still ask when he goes on.
UNASKED_S = 30 * 86_400.0


def main() -> int:
    """0 when the lock is in order, 1 when it could not be released; the next run then finds the note."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Whoever asks us to end asks zbackup too, and its end is what we wait for.
        signal.signal(ending, signal.SIG_IGN)
    order = WatchOrder.from_line(sys.stdin.readline())
    try:
        connection = connect(order.connect)
    except DatabaseError as failure:
        answer(str(failure))
        return 1
    answer("ready")
    if word(UNASKED_S) != ASKING:
        # Nothing was asked for: if there is a lock now, or one that is waited for, it is somebody else's.
        MarkerFile(order.note).remove()
        return 0
    said = word(order.wait_s)
    if said == LOCKED:
        said = word(order.hold_s)
    if said == "done":
        return 0
    return 0 if _release(order, connection) else 1


def _release(order: WatchOrder, connection: Connection) -> bool:
    """Insist: a server that is busy or cut off answers later."""
    deadline = time.monotonic() + TRY_FOR_S
    while time.monotonic() < deadline:
        try:
            release_when_it_comes(connection)
        except DatabaseError:
            time.sleep(RETRY_S)
            connection = _reconnected(order, connection)
        else:
            MarkerFile(order.note).remove()
            return True
    return False


def _reconnected(order: WatchOrder, connection: Connection) -> Connection:
    try:
        fresh = connect(order.connect)
    except DatabaseError:
        return connection
    connection.close()
    return fresh


if __name__ == "__main__":
    sys.exit(main())
