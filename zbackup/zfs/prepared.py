"""Have a snapshot prepared before a lock is taken: the lock does not last as long as a program starts.

Starting `zfs` takes longer than all else under a lock: 0.2 s on a busy host with one CPU,
where what it asks the kernel for takes 0.02 s.
"""

import json
import select
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from zbackup.model.errors import CommandFailed, NotInstalled
from zbackup.proc.run import ended, give_up
from zbackup.proc.start import FIXED_PATH, PIPE, Child, for_our_own, own_module, start

log = structlog.get_logger()

MODULE = "zbackup.zfs.stand_by"
READY_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program that stands by (see zfs.stand_by), for one order."""

    argv: tuple[str, ...]
    process: Child[bytes]

    def snapshot(self, names: Sequence[str], properties: Mapping[str, str], *, timeout: float) -> bool:
        """Take them all, or none: False then. Raise CommandTimedOut; it may still take effect later."""
        order = json.dumps({"snapshots": list(names), "properties": dict(properties)}).encode()
        try:
            ended(self.process, self.argv, timeout, order)
        except CommandFailed as failure:
            if type(failure) is not CommandFailed:
                raise
            log.info("snapshot.not_at_once", why=failure.stderr.strip())
            return False
        return True


@contextmanager
def prepared() -> Iterator[Prepared | None]:
    """Have it stand by while the body runs; None where that cannot be, and `zfs snapshot` has to do it.

    Whoever has put a `zfs` of his own before the system's in PATH means that one to be asked.
    """
    zfs = shutil.which("zfs")
    if not zfs or zfs != shutil.which("zfs", path=FIXED_PATH):
        yield None
        return
    try:
        argv = own_module(MODULE)
        process = start(argv, for_our_own(), stdin=PIPE, stdout=PIPE, stderr=PIPE)
    except NotInstalled as lacking:
        log.debug("snapshot.not_prepared", why=str(lacking))
        yield None
        return
    try:
        yield Prepared(argv, process) if _is_ready(process) else None
    finally:
        give_up(process)  # of one that has ended, it lets go of the pipes


def _is_ready(process: Child[bytes]) -> bool:
    said = b""
    output = process.stdout
    if output and select.select([output], [], [], READY_LIMIT_S)[0]:
        said = output.readline()
    if said != b"ready\n":
        log.debug("snapshot.not_prepared", why="the library of ZFS cannot be used")
    return said == b"ready\n"
