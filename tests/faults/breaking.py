"""A runner of commands that breaks the nth one, and jobs run with it.

zbackup knows nothing of it: a job gets its commands' runner from outside, and the starts of servers and
guardians are wrapped for the time of a test.
"""

import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest

from zbackup.model.errors import CommandFailed, ZbackupError
from zbackup.proc.detached import launch
from zbackup.proc.guardian import start_guardian
from zbackup.proc.pipeline import transfer
from zbackup.proc.run import run
from zbackup.zfs.stream_content import read_content

Started = TypeVar("Started")

Way = Literal[
    "fails", "fails late", "interrupted before", "interrupted after", "killed before", "killed after"
]

WAYS: tuple[Way, ...] = (
    "fails",
    "fails late",
    "interrupted before",
    "interrupted after",
    "killed before",
    "killed after",
)
"""The command fails without or with effect; we get SIGINT or SIGKILL before or after it takes effect."""

AT_QUESTIONS: tuple[Way, ...] = ("fails", "interrupted before")
"""The ways in which a mere question can break; the others are those of the change before or behind it."""

_DOORS: dict[str, Callable[..., Any]] = {
    "zbackup.engines.mysql.clone.clone_server.launch": launch,
    "zbackup.engines.mysql.lock.applier.start_guardian": start_guardian,
    "zbackup.destinations.zfs_destination.transfer": transfer,
}
_READERS: dict[str, Callable[..., Any]] = {
    "zbackup.destinations.zfs_destination.read_content": read_content,
    "zbackup.jobs.ship.verify_at.read_content": read_content,
}


class Injected(CommandFailed):
    """The failure that was injected."""


class Fault:
    """A Runner whose `nth` change breaks in this way, or with `questions` its nth command of any kind."""

    def __init__(self, nth: int, way: Way, *, questions: bool = False) -> None:
        self.nth, self.way, self.questions = nth, way, questions
        self.count = 0
        self.broke: tuple[str, ...] = ()

    def __call__(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        return self._pass(tuple(argv), mutates, lambda: run(argv, mutates=mutates, timeout=timeout))

    @contextmanager
    def at_all_doors(self) -> Iterator[None]:
        """Streams, and the starts of servers and guardians, are commands too."""
        with pytest.MonkeyPatch.context() as patch:
            for name, door in (_DOORS | _READERS).items():
                patch.setattr(name, self._wrapped(door, name))
            yield

    def _wrapped(self, start: Callable[..., Started], name: str) -> Callable[..., Started]:
        def wrapper(*given: Any, **more: Any) -> Started:
            return self._pass((name,), name in _DOORS, lambda: start(*given, **more))

        return wrapper

    def _pass(self, argv: tuple[str, ...], mutates: bool, act: Callable[[], Started]) -> Started:
        if not (mutates or self.questions):
            return act()
        self.count += 1
        if self.count != self.nth:
            return act()
        self.broke = argv
        if self.way in ("fails late", "interrupted after", "killed after"):
            act()
        if self.way.startswith("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.way.startswith("interrupted"):
            signal.raise_signal(signal.SIGINT)
        raise Injected(argv, 255, "injected")


FIRED, WENT_WRONG = 3, 4


def fired(fault: Fault, job: Callable[[], object], note: Path) -> bool:
    """Run the job in a process of its own, as it always has; whether the fault fired.

    Any other end than success or the fault's is the test's failure. `note` is a file for the reason.
    """
    child = os.fork()
    if child == 0:
        status = WENT_WRONG
        try:
            status = _run(fault, job, note)
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if os.WIFSIGNALED(ended):
        assert os.WTERMSIG(ended) == signal.SIGKILL
        return True
    status = os.waitstatus_to_exitcode(ended)
    assert status in (0, FIRED), note.read_text()
    return status == FIRED


def _run(fault: Fault, job: Callable[[], object], note: Path) -> int:
    try:
        with fault.at_all_doors():
            job()
    except (ZbackupError, KeyboardInterrupt):
        if not fault.broke:
            note.write_text(traceback.format_exc())
            return WENT_WRONG
    except BaseException:
        note.write_text(traceback.format_exc())
        raise
    # A failure that a job can live with need not end it.
    return FIRED if fault.broke else 0
