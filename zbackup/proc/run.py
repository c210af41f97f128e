"""The door to other programs: argument lists only, no shell, one error type."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from zbackup.model.errors import CommandFailed, CommandTimedOut
from zbackup.model.event_log import log
from zbackup.proc.start import PIPE, Child, TimedOut, start

# How long a killed program may take to be gone before it is left to itself. A program inside a long
# kernel call cannot be killed, and whoever waits for it would wait holding a database's lock.
REAP_S = 1.0

# Of a program that changes nothing. Whoever waits for its answer holds no lock: the database goes first.
READ_ONLY_NICENESS = 10


class Runner(Protocol):
    def __call__(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        """Run to the end and return stdout; `timeout` is in seconds.

        Raise CommandTimedOut when it does not end in time (it may still take effect later), CommandFailed
        on any other failure.
        """


def run(
    argv: Sequence[str],
    *,
    mutates: bool = True,
    timeout: float = 600,
    identity: tuple[int, int] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The Runner that really runs. `mutates` says whether the command changes anything.

    `identity` is a user and a group to run it as, and `environment` another than a tool's.
    """
    argv = tuple(argv)
    log.debug("command.started", argv=argv, mutates=mutates)
    process = start(argv, environment, stdout=PIPE, stderr=PIPE, identity=identity)
    # The first ssh opens the connection that streams will go through for hours: it is no question.
    if not mutates and argv[0] != "ssh":
        _yield_to_others(process)
    return ended(process, argv, timeout)


def ended(process: Child[bytes], argv: tuple[str, ...], timeout: float, order: bytes | None = None) -> str:
    """Wait for a program, give it its input, and return its stdout. Raise as Runner does."""
    try:
        stdout, stderr = map(_text, process.communicate(order, timeout=timeout))
    except TimedOut as late:
        give_up(process)
        raise CommandTimedOut(argv, -1, f"no answer within {timeout:g} s") from late
    except BaseException:
        give_up(process)
        raise
    log.debug("command.finished", argv=argv, returncode=process.returncode)
    if process.returncode != 0:
        raise CommandFailed(argv, process.returncode, stderr or stdout)
    return stdout


def _text(said: bytes) -> str:
    """Read bytes as file names are read: other people's are no reason to fail."""
    return said.decode("utf-8", "surrogateescape")


def _yield_to_others(process: Child[bytes]) -> None:
    """Another user's process (a setuid program) keeps its priority, and one that has ended needs none."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + READ_ONLY_NICENESS)


def give_up(process: Child[bytes]) -> None:
    """Kill it; it is left to itself when that takes long."""
    process.kill()
    with contextlib.suppress(TimedOut):
        process.communicate(timeout=REAP_S)


@dataclass(frozen=True)
class DryRun:
    """Lets questions through and withholds changes, so that a dry run needs no `if` anywhere else."""

    inner: Runner

    def __call__(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        if mutates:
            log.info("command.withheld", argv=tuple(argv))
            return ""
        return self.inner(argv, mutates=False, timeout=timeout)
