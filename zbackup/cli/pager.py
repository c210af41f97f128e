"""Long results on a terminal go through a pager, as git's do; never anywhere else.

A pager may let its user run programs, and zbackup may run as root by a rule of sudo that allows no others. So
less is told not to (LESSSECURE), and under sudo PAGER does not count: it is whatever the caller made it.
"""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from zbackup.cli.output import tell
from zbackup.model.errors import NotInstalled
from zbackup.model.progress import Progress
from zbackup.proc.start import PIPE, Child, for_pager, start

USUAL: Final = ("less",)
NONE: Final = ("cat",)


def chosen(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The pager's command line by PAGER; () for none. Pure."""
    if "SUDO_UID" in environment:
        return USUAL
    try:
        words = tuple(shlex.split(environment.get("PAGER", USUAL[0])))
    except ValueError:  # a quote that is not closed
        return USUAL
    return () if words == NONE else words


class Pager:
    """Begins with the first line that is printed, and takes over from the progress then: the terminal is the
    pager's until it ends. What is noted meanwhile is told behind it."""

    def __init__(self, progress: Progress, *, wanted: bool) -> None:
        self._progress = progress
        self._argv = chosen(os.environ) if wanted and sys.stdout.isatty() else ()
        self._child: Child[bytes] | None = None
        self._terminal = -1
        self._notes: list[str] = []

    def phase(self, name: str, detail: str = "") -> None:
        if self._child is None:
            self._progress.phase(name, detail)

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        if self._child is None:
            self._progress.advance(done, total, unit)

    def note(self, text: str) -> None:
        if self._child is None:
            self._progress.note(text)
        else:
            self._notes.append(text)

    def begin(self) -> None:
        """Start it, unless it runs, or there is none."""
        if self._child is not None or not self._argv:
            return
        self._progress.phase("")
        sys.stdout.flush()
        try:
            child = start(self._argv, for_pager(), stdin=PIPE, stdout=None, stderr=None)
        except NotInstalled:
            self._argv = ()
            return
        self._child, self._terminal = child, os.dup(sys.stdout.fileno())
        if child.stdin:
            os.dup2(child.stdin.fileno(), sys.stdout.fileno())
            child.stdin.close()

    def end(self, say: Callable[[str], None] = tell) -> None:
        """Wait until its user has seen enough."""
        child, self._child = self._child, None
        if child is None:
            return
        # Ctrl-C is the pager's, which may take it for something else.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with suppress(OSError):
                sys.stdout.flush()
            os.dup2(self._terminal, sys.stdout.fileno())
            os.close(self._terminal)
            child.wait()
        finally:
            signal.signal(signal.SIGINT, before)
        for note in self._notes:
            say(note)


@contextmanager
def paged(progress: Progress, *, wanted: bool) -> Iterator[Pager]:
    """A pager for what the body prints, whatever becomes of that."""
    pager = Pager(progress, wanted=wanted)
    try:
        yield pager
    finally:
        pager.end()
