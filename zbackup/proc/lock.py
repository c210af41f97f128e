"""One at a time, across processes: file locks that end with their holder."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zbackup.model.errors import Refused, Taken
from zbackup.proc import secure_files
from zbackup.proc.run_directory import owner_in, prepare, said

POLL_S = 0.2
SHARED = 0o664

# Who waits longer than a moment wants to know for whom.
SAY_AFTER_S = 1.0

BUSY = "{name} is being worked on by {holder}: try again when it is done"
_OURS = " (pid {})"


def _tell_nobody(_: str) -> None:
    return


@contextmanager
def exclusive(
    path: Path,
    what: str,
    *,
    wait: float = 60,
    waiting: Callable[[str], None] = _tell_nobody,
    taken: str = BUSY,
) -> Iterator[None]:
    """Hold the lock file at `path`, waiting up to `wait` seconds; `what` tells others who holds it.

    `waiting` is told, once, who holds it while we wait, unless that is this very process: that one job of the
    daemon's waits for another is nobody's concern. `taken` is what Taken says, with {name} and {holder}.
    The kernel drops the lock when its holder ends, however it ends, so there are no stale ones.
    Raise Taken, naming the holder, when it is not free in time; Refused when the file cannot be used.
    """
    descriptor = _open(path)
    try:
        _acquire(descriptor, path, wait, waiting, taken)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, (what + _OURS.format(os.getpid())).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """The group may use it too: root and the daemon's own user take the same locks.

    It lies in the daemon's directory: root must not be led to a file that it would then write to.
    """
    try:
        prepare(path.parent)
        descriptor = secure_files.open_shared(path, os.O_RDWR, SHARED)
    except OSError as failure:
        who = f"user id {os.geteuid()}"
        raise Refused(f"{who} cannot use the lock file {path}: {failure.strerror}") from failure
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, SHARED)
    return descriptor


def _acquire(descriptor: int, path: Path, wait: float, waiting: Callable[[str], None], taken: str) -> None:
    began = time.monotonic()
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            waited = time.monotonic() - began
            if waited >= wait:
                raise Taken(taken.format(name=path.stem, holder=said(descriptor))) from None
            who = said(descriptor)
            if waited >= SAY_AFTER_S and not told and not who.endswith(_OURS.format(os.getpid())):
                waiting(f"waiting for {who}, which works on {path.stem}")
                told = True
            time.sleep(POLL_S)


def lock_owner(path: Path) -> str:
    """Who holds the lock file at `path` now, as exclusive() was told; "" for nobody."""
    return owner_in(path)
