"""Transaction groups: what tells that a snapshot under way can no longer take anything in.

OpenZFS gathers writes in the one open transaction group; a `zfs snapshot` is carried out when that group is
written to disk, and its command waits for it. But from the moment the next group is open (module/zfs/txg.c,
txg_quiesce), no new write can get into the older one, and so into the snapshot: nobody has to stand still
until the disks are done. Which group it was is known when the command has ended: the snapshot's createtxg.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

KSTAT = Path("/proc/spl/kstat/zfs")
POLL_S = 0.001


def open_group(pool: str, kstat: Path = KSTAT) -> int | None:
    """Number of the pool's open transaction group, or None when ZFS does not tell (zfs_txg_history = 0)."""
    try:
        lines = (kstat / pool / "txgs").read_text().splitlines()
    except OSError:
        return None
    # A group gets its row when it is opened, behind those of the older ones.
    rows = (line.split(maxsplit=1)[0] for line in lines if line)
    return max((int(number) for number in rows if number.isdigit()), default=None)


@dataclass(slots=True)
class Taking:
    """A `zfs snapshot` that is under way. `cut` is the group that was open when it was seen to be closed."""

    pool: str
    kstat: Path
    before: int | None
    command: Future[None]
    cut: int | None = field(default=None)

    def wait_closed(self) -> None:
        """Return when nothing written from now on gets into the snapshot, which `proven` has to confirm.

        Raise what the command raises, should it end first.
        """
        while self.before is not None and not self.command.done():
            now = open_group(self.pool, self.kstat)
            if now is not None and now > self.before:
                self.cut = now
                return
            time.sleep(POLL_S)
        self.wait_taken()

    def wait_taken(self) -> None:
        """Return when the snapshot is there. Raise what the command raises."""
        self.command.result()

    def proven(self, createtxg: int) -> bool:
        """Whether the snapshot was closed indeed when wait_closed returned.

        Not if the group that was closed then was one of before the command got as far as to ask for it.
        """
        return self.cut is None or createtxg < self.cut


@contextmanager
def taking(pool: str, command: Callable[[], None], kstat: Path = KSTAT) -> Iterator[Taking]:
    """The command runs while the body does, and has ended afterwards, however the body ends."""
    with ThreadPoolExecutor(1, thread_name_prefix="zfs-snapshot") as thread:
        before = open_group(pool, kstat)
        yield Taking(pool, kstat, before, thread.submit(command))
