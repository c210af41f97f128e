"""Programs of the operator's that are told what happened."""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from zbackup.model.errors import CommandFailed, CommandTimedOut
from zbackup.proc.start import PIPE, WITH_STDOUT, TimedOut, for_hook, start

REAP_S = 1.0
MOST_SAID = 4096


def run_hook(argv: Sequence[str], facts: Mapping[str, str], timeout: float) -> None:
    """Run it to its end, with `facts` and little else as its environment; late, it is ended, children too.

    Raise CommandFailed, with the last it said, when it fails; CommandTimedOut or NotInstalled.
    """
    argv = tuple(argv)
    process = start(argv, for_hook(facts), stdout=PIPE, stderr=WITH_STDOUT, session=True)
    try:
        said, _ = process.communicate(timeout=timeout)
    except TimedOut as late:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimedOut):
            process.communicate(timeout=REAP_S)
        raise CommandTimedOut(argv, -1, f"no end within {timeout:g} s") from late
    if process.returncode != 0:
        raise CommandFailed(argv, process.returncode, said[-MOST_SAID:].decode(errors="replace"))
