"""Log lines for a reader who may stall: whoever logs never waits for him."""

import contextlib
import os
import queue
import threading
import time

from zbackup.model.event_log import log

MOST_LINES = 10_000
POLL_S = 0.02


class Sink:
    """Lines are written to a descriptor by a thread of its own; those that find no room are counted.

    A full pipe makes its writer wait, and a daemon that waits there would do so with a database's lock held.
    The descriptor is written to without Python's buffers: their lock, once held by a thread that waits, would
    keep the program from ending.
    """

    def __init__(self, descriptor: int, most: int = MOST_LINES) -> None:
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes] = queue.Queue(most)
        self._dropped = 0
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def put(self, line: str) -> None:
        try:
            self._lines.put_nowait(line.encode(errors="backslashreplace") + b"\n")
        except queue.Full:
            self._dropped += 1

    def flush(self, seconds: float) -> None:
        """Give what is still to be written so long, no more."""
        deadline = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            # A journal that went away or a full disk costs lines of the log, never the work they tell of.
            with contextlib.suppress(OSError):
                while line:
                    line = line[os.write(self._descriptor, line) :]
            self._lines.task_done()
            if dropped := self._dropped:
                self._dropped -= dropped
                log.warning("log.dropped", lines=dropped)
