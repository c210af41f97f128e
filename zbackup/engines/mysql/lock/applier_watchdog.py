"""Starts a replica's applier again when the zbackup that stopped it dies. See applier and proc.guardian.

Run as `python -m zbackup.engines.mysql.lock.applier_watchdog` with its order on stdin. It connects at
once, so that it neither needs a free connection later nor finds out then that it cannot log in.
"""

import signal
import sys
import time

from zbackup.engines.mysql.lock.restart_applier import MarkerFile, start
from zbackup.engines.mysql.lock.watchdog_message import WatchOrder
from zbackup.engines.mysql.server.connection import Connection, connect
from zbackup.engines.mysql.server.status import dialect
from zbackup.model.errors import DatabaseError
from zbackup.proc.guardian import abandoned, answer

RETRY_S = 1.0
TRY_FOR_S = 300.0


def main() -> int:
    """0 when the applier is in order, 1 when it could not be started; the next run then finds the note."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Whoever asks us to end asks zbackup too, and its end is what we wait for.
        signal.signal(ending, signal.SIG_IGN)
    order = WatchOrder.from_line(sys.stdin.readline())
    try:
        connection = connect(order.connect)
        connection.keep_for(order.limit_s)
    except DatabaseError as failure:
        answer(str(failure))
        return 1
    answer("ready")
    if not abandoned(order.limit_s):
        return 0
    return 0 if _start(order, connection) else 1


def _start(order: WatchOrder, connection: Connection) -> bool:
    """Insist: a server that is being restarted or is busy stopping answers later."""
    deadline = time.monotonic() + TRY_FOR_S
    while time.monotonic() < deadline:
        try:
            start(connection, dialect(connection), order.channels)
            # A STOP sent just before zbackup died may reach the server after our START.
            time.sleep(RETRY_S)
            start(connection, dialect(connection), order.channels)
        except DatabaseError:
            time.sleep(RETRY_S)
            connection = _reconnected(order, connection)
        else:
            MarkerFile(order.note).remove()
            return True
    return False


def _reconnected(order: WatchOrder, connection: Connection) -> Connection:
    connection.close()
    try:
        return connect(order.connect)
    except DatabaseError:
        return connection


if __name__ == "__main__":
    sys.exit(main())
