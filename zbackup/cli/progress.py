"""Show how far a job is: bars on a terminal, elsewhere the notes, and a line every few seconds of long
work.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from zbackup.cli.options import Options
from zbackup.cli.output import tell
from zbackup.cli.tables import length, size
from zbackup.model import progress as model
from zbackup.model.printable import printable


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
        """Tell how far it is now."""
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


class Bars:
    """The running phase with its time; with bytes, rate and what remains once the amount is known."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: Progress | None = None
        self._task: TaskID | None = None
        self._name = ""
        self._measured = ""

    def phase(self, name: str, detail: str = "") -> None:
        if not name:
            self.close()
            return
        self._name = printable(f"{name} ({detail})" if detail else name)
        self._show((TextColumn("{task.description}", markup=False), TimeElapsedColumn()), total=None)
        self._measured = ""

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        if self._measured != unit:
            amount = (DownloadColumn(binary_units=True), TransferSpeedColumn()) if unit == "B" else (
                TextColumn(f"{{task.completed}}/{{task.total}} {unit}", markup=False),
            )  # fmt: skip
            columns = (
                TextColumn("{task.description}", markup=False), BarColumn(), *amount, TimeRemainingColumn(),
            )  # fmt: skip
            self._show(columns, total=total)
            self._measured = unit
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, completed=done, total=total)

    def note(self, text: str) -> None:
        self._console.print(f"zbackup: {printable(text)}", markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._shown is not None:
            self._shown.stop()
            self._shown = None

    def _show(self, columns: tuple[object, ...], *, total: int | None) -> None:
        self.close()
        self._shown = Progress(SpinnerColumn(), *columns, console=self._console, transient=True)  # type: ignore[arg-type]
        self._task = self._shown.add_task(self._name, total=total)
        self._shown.start()


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
        bars = Bars(Console(stderr=True))
        try:
            yield bars
        finally:
            bars.close()
