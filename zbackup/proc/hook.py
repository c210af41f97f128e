"""Programs of the operator's that are told what happened."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from zbackup.model.errors import CommandFailed, CommandTimedOut, NotInstalled

REAP_S = 1.0
MOST_SAID = 4096

KEPT = ("PATH", "HOME", "LANG")
"""All that a program gets of our own environment: there may be secrets in the rest of it."""


def run_hook(argv: Sequence[str], facts: Mapping[str, str], timeout: float) -> None:
    """Run it to its end, with `facts` and KEPT as its environment; what takes longer is ended, children too.

    Raise CommandFailed, with the last it said, when it fails; CommandTimedOut or NotInstalled.
    """
    argv = tuple(argv)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={name: os.environ[name] for name in KEPT if name in os.environ} | dict(facts),
            start_new_session=True,
        )
    except (OSError, ValueError) as unstartable:  # ValueError: a NUL where the kernel takes none
        raise NotInstalled(argv, -1, str(unstartable)) from unstartable
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as late:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=REAP_S)
        raise CommandTimedOut(argv, -1, f"no end within {timeout:g} s") from late
    if process.returncode != 0:
        raise CommandFailed(argv, process.returncode, said[-MOST_SAID:].decode(errors="replace"))
