"""Have a snapshot prepared before a lock is taken: the lock does not last as long as a program starts.

Starting `zfs` takes longer than all else under a lock: 0.2 s on a busy host with one CPU,
where what it asks the kernel for takes 0.02 s.
"""

import json
import os
import select
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from zbackup.model.errors import CommandFailed, NotInstalled
from zbackup.model.event_log import log
from zbackup.proc.run import ended, give_up
from zbackup.proc.start import FIXED_PATH, PIPE, Child, for_our_own, own_module, start

MODULE = "zbackup.zfs.stand_by"
READY = b"ready\n"
READY_LIMIT_S = 20.0

PACKAGED = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Directories of a distribution's `zfs`; one elsewhere while there is one here is somebody's own."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program that stands by (see zfs.stand_by), for one order."""

    process: Child[bytes]

    def snapshot(self, names: Sequence[str], properties: Mapping[str, str], *, timeout: float) -> bool:
        """Take them all, or none: False then. Raise CommandTimedOut; it may still take effect later."""
        order = json.dumps({"snapshots": list(names), "properties": dict(properties)}).encode() + b"\n"
        try:
            # Failures are told of under the name that people know it by.
            ended(self.process, ("zfs", "snapshot", "--", *names), timeout, order)
        except CommandFailed as failure:
            if type(failure) is not CommandFailed:
                raise
            log.info("snapshot.not_at_once", why=failure.stderr.strip() or f"ended: {failure.returncode}")
            return False
        return True


@contextmanager
def prepared() -> Iterator[Prepared | None]:
    """Have it stand by while the body runs; None where that cannot be, and `zfs snapshot` has to do it.

    Whoever has put a `zfs` of his own before the system's in PATH means that one to be asked. It is in a
    session of its own: a Ctrl-C for us must not end it half-way, and have `zfs snapshot` begin instead.
    """
    if not _is_the_systems(shutil.which("zfs")):
        yield None
        return
    try:
        argv, environment = own_module(MODULE), for_our_own()
        process = start(argv, environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, session=True)
    except NotInstalled as lacking:
        log.debug("snapshot.not_prepared", why=str(lacking))
        yield None
        return
    try:
        yield Prepared(process) if _is_ready(process) else None
    finally:
        give_up(process)  # of one that has ended, it closes the pipes


def _is_the_systems(zfs: str | None) -> bool:
    """Whether this is the system's, by whichever of its names: /sbin is often a link to /usr/sbin."""
    systems = shutil.which("zfs", path=PACKAGED) or shutil.which("zfs", path=FIXED_PATH)
    return bool(zfs and systems) and os.path.realpath(zfs or "") == os.path.realpath(systems or "")


def _is_ready(process: Child[bytes]) -> bool:
    """Whether it says that it is ready. Anything else it says, or does not say to the end, is not waited
    for."""
    said = b""
    if output := process.stdout:
        waiting = select.poll()
        waiting.register(output, select.POLLIN)
        if waiting.poll(READY_LIMIT_S * 1000):
            said = os.read(output.fileno(), len(READY))
    if said != READY:
        log.debug("snapshot.not_prepared", why="the library of ZFS cannot be used")
    return said == READY
