"""Releases the lock when the zbackup that took it dies or hangs. See lock and proc.guardian.

fsyncLock survives its client. Run as `python -m zbackup.engines.mongodb.lock.watchdog` with its order on
stdin. It logs in at once, before the lock: under one the server may let nobody log in.
"""

import sys
from functools import partial

from zbackup.engines.mongodb.lock.release import release_when_it_comes
from zbackup.engines.mongodb.lock.watchdog_message import ASKING, LOCKED, WatchOrder
from zbackup.engines.mongodb.server.connection import connect
from zbackup.engines.watchdog import ignore_signals, insist, log_in
from zbackup.proc import secure_files
from zbackup.proc.guardian import word

# Longer than anybody waits before asking: one who was stopped meanwhile may still ask when he goes on.
UNASKED_S = 30 * 86_400.0


def main() -> int:
    """0 when the lock is in order, 1 when it could not be released; the next run then finds the note."""
    ignore_signals()
    order = WatchOrder.from_line(sys.stdin.readline())

    log_in_again = partial(connect, order.connect)
    connection = log_in(log_in_again)
    if connection is None:
        return 1
    if word(UNASKED_S) != ASKING:
        # Nothing was asked for: if there is a lock now, or one that is waited for, it is somebody else's.
        secure_files.unlink(order.note)
        return 0
    said = word(order.wait_s)
    if said == LOCKED:
        said = word(order.hold_s)
    if said == "done":
        return 0
    return 0 if insist(release_when_it_comes, connection, log_in_again, order.note) else 1


if __name__ == "__main__":
    sys.exit(main())
