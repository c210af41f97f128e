"""Tells when a temporary server has come to a standstill: it neither works nor reads nor writes for long.

A server that waits for something that will not come does not end, and who waits for it would do so for ever.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from zbackup.proc.detached import Process

STALL_S = 1800.0
"""The time limit, unless another is configured."""

# Idle servers do some housekeeping. One that works, however slow its disk, does more of one of the two.
BUSY_CPU = 0.05
BUSY_BYTES_S = 64 << 10

POLL_S = 1.0
TICKS_S = 100.0
"""Clock ticks of a second in /proc (proc(5); USER_HZ is the same on every machine that is supported)."""

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Effort:
    """The work of a process since its start: seconds of CPU, bytes moved by calls and to and from disks."""

    cpu: float
    bytes: int


def effort_of(process: Process, proc: Path = PROC) -> Effort | None:
    """None when that cannot be seen. On a kernel that counts no bytes there are none."""
    directory = proc / str(process.pid)
    try:
        fields = (directory / "stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return None
    try:
        counted = dict(line.split(": ") for line in (directory / "io").read_text().splitlines())
        # What is submitted asynchronously, as InnoDB's native AIO, moves no more than what reaches the disk.
        kinds = ("rchar", "wchar", "read_bytes", "write_bytes")
        return Effort(ticks / TICKS_S, sum(int(counted.get(kind, 0)) for kind in kinds))
    except FileNotFoundError:
        return Effort(ticks / TICKS_S, 0)
    except (OSError, KeyError, ValueError):
        return None


@dataclass(slots=True)
class Standstill:
    """Watches servers that work on one thing: as long as one of them does something, none stands still.

    `limit` is in seconds, 0 for none; `ended` says that they were ended for that.
    `reached` is how far it is, for whoever knows to say so: as long as that changes it does not stand still.
    """

    processes: tuple[Process, ...]
    limit: float
    measure: Callable[[Process], Effort | None] = effort_of
    clock: Callable[[], float] = time.monotonic
    reached: object = None
    ended: bool = False
    _since: float = field(default=0.0, init=False)
    _then: Effort | None = field(default=None, init=False)
    _was_at: object = field(default=None, init=False)

    def at(self, reached: object) -> None:
        """Say how far it is."""
        self.reached = reached

    def lasts(self) -> bool:
        """Whether it has done nothing for the limit. To be asked again and again."""
        now, efforts, reached = (
            self.clock(),
            [self.measure(process) for process in self.processes],
            self.reached,
        )
        seen = [effort for effort in efforts if effort is not None]
        if not self.limit or len(seen) < len(efforts):
            return False
        effort = Effort(sum(each.cpu for each in seen), sum(each.bytes for each in seen))
        if self._then is None or reached != self._was_at or self._worked(self._then, effort):
            self._since, self._then, self._was_at = now, effort, reached
            return False
        return now - self._since >= self.limit

    def _worked(self, then: Effort, now: Effort) -> bool:
        """Whether the process worked: what housekeeping takes within the limit is not work."""
        return (
            now.cpu - then.cpu > BUSY_CPU * self.limit or now.bytes - then.bytes > BUSY_BYTES_S * self.limit
        )

    @property
    def told(self) -> str:
        """For a message."""
        return (
            f"has done nothing for {self.limit:g} s (no CPU, no I/O, no progress in the log) and was ended; "
            f"if it needs longer, set recovery.stall"
        )


@contextmanager
def ended_when_still(limit: float, *processes: Process) -> Iterator[Standstill]:
    """While the body runs, kill the servers once they stand still. Whoever talks to them sees them gone.

    The body is to wait for the servers: while it does something itself for long, they have nothing to do.
    """
    still, done = Standstill(processes, limit), threading.Event()
    watching = threading.Thread(target=_watch, args=(still, done), daemon=True)
    watching.start()
    try:
        yield still
    finally:
        done.set()
        watching.join()


def _watch(still: Standstill, done: threading.Event) -> None:
    while not done.wait(POLL_S):
        if still.lasts():
            still.ended = True
            for process in still.processes:
                process.send(signal.SIGKILL)
            return
