"""Wake the daemon's main thread: at signals, and when jobs have ended."""

import os
import select
import signal
from collections.abc import Iterable
from types import FrameType


class Waker:
    """A pipe to oneself. Signals arrive as bytes in it, so nothing is ever done inside a handler."""

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in signals:
            signal.signal(number, _noted)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def ring(self) -> None:
        """From any thread: there is something to do."""
        try:
            os.write(self._write, b"\0")
        except BlockingIOError:
            return  # it rings already

    def wait(self, seconds: float) -> set[signal.Signals]:
        """Sleep until it rings, at most so long; the signals that arrived."""
        if not select.select([self._read], [], [], seconds)[0]:
            return set()
        known = {int(s): s for s in signal.Signals}
        return {known[byte] for byte in os.read(self._read, 4096) if byte in known}


def _noted(_: int, __: FrameType | None) -> None:
    """The wakeup file descriptor has it."""
