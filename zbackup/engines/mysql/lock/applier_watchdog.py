"""Starts a replica's applier again when the zbackup that stopped it dies. See applier and proc.guardian.

Run as `python -m zbackup.engines.mysql.lock.applier_watchdog` with its order on stdin. It connects at
once, so that it neither needs a free connection later nor finds out then that it cannot log in.
"""

import sys
import time
from functools import partial

from zbackup.engines.mysql.lock.restart_applier import start
from zbackup.engines.mysql.lock.watchdog_message import WatchOrder
from zbackup.engines.mysql.server.connection import Connection, connect
from zbackup.engines.mysql.server.status import dialect
from zbackup.engines.watchdog import RETRY_S, ignore_signals, insist, log_in
from zbackup.proc.guardian import abandoned


def main() -> int:
    """0 when the applier is in order, 1 when it could not be started; the next run then finds the note."""
    ignore_signals()
    order = WatchOrder.from_line(sys.stdin.readline())

    def connect_to_stay() -> Connection:
        connection = connect(order.connect)
        connection.keep_for(order.limit_s)
        return connection

    def start_all(connection: Connection) -> None:
        start(connection, dialect(connection), order.channels)
        # A STOP sent just before zbackup died may reach the server after our START.
        time.sleep(RETRY_S)
        start(connection, dialect(connection), order.channels)

    connection = log_in(connect_to_stay)
    if connection is None:
        return 1
    if not abandoned(order.limit_s):
        return 0
    return 0 if insist(start_all, connection, partial(connect, order.connect), order.note) else 1


if __name__ == "__main__":
    sys.exit(main())
