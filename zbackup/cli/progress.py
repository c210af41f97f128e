"""Show how far a job is: bars on a terminal, elsewhere the notes, and a line every few seconds of long
work.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zbackup.cli.options import Options
from zbackup.cli.output import tell
from zbackup.cli.tables import length, size
from zbackup.model import progress as model


class Notes(model.Silent):
    """Only what the operator should see, a line each on stderr."""

    def note(self, text: str) -> None:
        tell(text)


EVERY_S = 5.0
"""Seconds between two lines of long work where there is no terminal."""


class Lines(Notes):
    """The notes, and how far the running phase is, in a line every few seconds: for pipes, logs and cron.

    Work that is over before the first line is due says nothing. A thread speaks: phases may be long.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._name = ""
        self._amount = ""
        self._since = clock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def phase(self, name: str, detail: str = "") -> None:
        self._name, self._amount = (f"{name} ({detail})" if detail else name), ""
        self._since = self._clock()
        if self._thread is None:
            self._thread = threading.Thread(target=self._speak, name="progress", daemon=True)
            self._thread.start()

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        said = f"{size(done)} of {size(total)}" if unit == "B" else f"{done} of {total} {unit}"
        self._amount = f", {said}" + (f" ({done / total:.0%})" if total else "")

    def line(self) -> str:
        """How far it is now."""
        return f"{self._name}{self._amount}, for {length(self._clock() - self._since)}"

    def close(self) -> None:
        """Say nothing any more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _speak(self) -> None:
        while not self._over.wait(EVERY_S):
            if self._name:
                tell(self.line())


@contextmanager
def shown(options: Options) -> Iterator[model.Progress]:
    """Progress as this command line wants it; the terminal is left clean however the body ends."""
    if options.quiet:
        yield model.Silent()
    elif not sys.stderr.isatty():
        lines = Lines()
        try:
            yield lines
        finally:
            lines.close()
    else:
        # Only who sees bars waits until rich is read.
        from rich.console import Console

        from zbackup.cli.bars import Bars

        bars = Bars(Console(stderr=True))
        try:
            yield bars
        finally:
            bars.close()
