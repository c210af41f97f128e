"""Programs that take over this process' input and output: what sshd started us for."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from zbackup.proc import start

_CHUNK = 1 << 20


def forget_environment() -> None:
    """Drop whatever the other side may have put there; programs are found where they belong."""
    os.environ.clear()
    os.environ.update({"PATH": start.FIXED_PATH, "LC_ALL": "C"})


def become(argv: Sequence[str]) -> NoReturn:
    """Be this program from now on. Raise NotInstalled when it cannot be started."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and that would be inherited
    start.become(argv)


def read_head(size: int) -> bytes:
    """The first bytes of our input, fewer only when there are no more."""
    found = b""
    while len(found) < size and (more := os.read(sys.stdin.fileno(), size - len(found))):
        found += more
    return found


def feed(argv: Sequence[str], head: bytes) -> int:
    """Run a program with `head` and then the rest of our input, and return its exit status.

    Should we be killed, it finds its input ended. Raise NotInstalled when it cannot be started.
    """
    process = start.start(argv, stdin=start.PIPE, stdout=None, stderr=None)
    if process.stdin is None:
        raise AssertionError("it was started with a pipe")
    try:
        with contextlib.suppress(BrokenPipeError):  # it ended before its input did, and says why
            process.stdin.write(head)
            process.stdin.flush()
            while os.splice(sys.stdin.fileno(), process.stdin.fileno(), _CHUNK):
                pass
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        status = process.wait()
    return status if status >= 0 else 128 - status
