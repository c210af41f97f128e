"""One at a time, across processes: file locks that end with their holder."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zbackup.model.errors import Taken

POLL_S = 0.2


@contextmanager
def exclusive(path: Path, what: str, *, wait: float = 60) -> Iterator[None]:
    """Hold the lock file at `path`, waiting up to `wait` seconds; `what` tells others who holds it.

    The kernel drops the lock when its holder ends, however it ends, so there are no stale ones.
    Raise Taken, naming the holder, when it is not free in time.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, path, wait)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{what} (pid {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another zbackup"
                raise Taken(
                    f"{path.stem} is being worked on by {holder}: try again when it is done"
                ) from None
            time.sleep(POLL_S)
