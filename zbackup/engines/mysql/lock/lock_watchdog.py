"""Ends the session that has a lock, or asks for one, when the zbackup that opened it dies or hangs.

The server ends a session by itself when that is silent for its wait_timeout, but not one whose statement
waits: MySQL does not look whether the client of such a one is still there. Run as
`python -m zbackup.engines.mysql.lock.lock_watchdog` with its order on stdin. It logs in before the lock is
asked for: a server that is stuck may take no new connections. See lock and proc.guardian.
"""

import sys
from contextlib import suppress

from zbackup.engines.mysql.lock.watchdog_message import EndWithin, LockOrder
from zbackup.engines.mysql.server.connection import Connection, connect
from zbackup.engines.watchdog import ignore_signals, log_in
from zbackup.model.errors import DatabaseError
from zbackup.proc.guardian import word

# Longer than anybody waits before asking: one who was stopped meanwhile may still ask when he goes on.
UNASKED_S = 30 * 86_400.0


def main() -> int:
    """0 when nothing is left to be done, 1 without a login."""
    ignore_signals()
    order = LockOrder.from_line(sys.stdin.readline())

    def connect_to_stay() -> Connection:
        connection = connect(order.connect)
        connection.keep_for(UNASKED_S)
        return connection

    connection = log_in(connect_to_stay)
    if connection is None:
        return 1
    asked: EndWithin | None = None
    while (said := word(asked.seconds if asked else UNASKED_S)) != "done":
        if said:
            asked = EndWithin.from_word(said)
        elif asked:
            _end(connection, asked.session)
            asked = None
        else:
            break
    return 0


def _end(connection: Connection, session: int) -> None:
    """A session that is gone is fine. It is ended over the first connection alone: where that is lost, the
    server has ended and its sessions with it, or the network is cut and the server's own limits hold; over a
    new one the number could be another client's."""
    with suppress(DatabaseError):
        connection.execute(f"KILL {session}")


if __name__ == "__main__":
    sys.exit(main())
