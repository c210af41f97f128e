"""Gives a temporary server up when the pool has no room left.

A server need not fail then: for some files it waits, looking once a minute, for somebody to free space (MySQL
reference manual, "How MySQL Handles a Full Disk"). And a recovery that holds the last of a pool's room harms
production, which needs some to go on.
"""

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zbackup.proc.detached import Process

# ZFS refuses writes while it still shows some room: what a write may need at worst has to fit.
LEAST_FREE = 16 << 20
PATIENCE_S = 10.0
POLL_S = 1.0


@contextmanager
def killed_when_full(process: Process, directory: Path) -> Iterator[threading.Event]:
    """While the body runs, kill the server once the file system of `directory` was full for PATIENCE_S.

    The event says that this was done; whoever talks to the server only sees it gone.
    """
    done, full = threading.Event(), threading.Event()
    watching = threading.Thread(target=_watch, args=(process, directory, done, full), daemon=True)
    watching.start()
    try:
        yield full
    finally:
        done.set()
        watching.join()


def _watch(process: Process, directory: Path, done: threading.Event, full: threading.Event) -> None:
    since = time.monotonic()
    while not done.wait(POLL_S):
        now = time.monotonic()
        if shutil.disk_usage(directory).free >= LEAST_FREE:
            since = now
        elif now - since > PATIENCE_S:
            full.set()
            process.send(signal.SIGKILL)
            return
