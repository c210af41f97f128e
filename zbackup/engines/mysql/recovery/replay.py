"""The replay that every flavour has in common: a range of log, its progress, its end."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zbackup.model.errors import ReplayFailed, VerificationFailed
from zbackup.model.log import LogPosition
from zbackup.model.progress import Progress
from zbackup.proc import secure_files

POLL_S = 0.2
FIRST_POLL_S = 0.01
FIRST_EVENT = 4
MOST_APPLIERS = 16

# An applier that has nothing more to read but has not reached the end will never reach it: the log and the
# end do not belong together. It is looked at this often before that is said.
IDLE_POLLS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """From `start` to `stop` in `files`, which are all the log's files from start.file to stop.file.

    `ends_file` says that no transaction follows the stop in its file. `torn` has by name where a file ends
    for a replay, if what is behind that was cut off within an event.
    """

    files: tuple[Path, ...]
    start: LogPosition
    stop: LogPosition
    ends_file: bool
    torn: Mapping[str, int] = field(default_factory=dict)

    def is_end(self, position: LogPosition | None) -> bool:
        """Whether an applier at `position` has applied exactly this range.

        With nothing left in the last file, MariaDB reports the start of the next one.
        """
        if position is None or position == self.stop:
            return position is not None
        next_file = (position.sequence, position.offset) == (self.stop.sequence + 1, FIRST_EVENT)
        return self.ends_file and next_file

    def size(self, file: Path) -> int:
        """Bytes of a file that there are to replay."""
        return self.torn.get(file.name, secure_files.size(file))

    @property
    def total(self) -> int:
        """Bytes of log between the two."""
        return self.done(self.stop)

    def done(self, position: LogPosition) -> int:
        """Bytes of log between start and `position`."""
        names = [f.name for f in self.files]
        if position.file not in names:
            return 0
        before = sum(secure_files.size(f) for f in self.files[: names.index(position.file)])
        return max(0, before + position.offset - self.start.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applier:
    """One look at a server's applier."""

    running: bool
    idle: bool
    position: LogPosition | None
    error: str


def _nobody(_: object) -> None:
    """Hears where a replay is that nobody watches."""


def follow(
    state: Callable[[], Applier],
    log: LogRange,
    progress: Progress,
    told: Callable[[object], None] = _nobody,
) -> None:
    """Wait until the applier stops at the end of the range, and prove that it is there.

    `told` hears where it is. Raise VerificationFailed when it fails, stops elsewhere, or runs out of log
    before the end.
    """
    idle, pause = 0, min(FIRST_POLL_S, POLL_S)
    while True:
        now = state()
        if now.error:
            raise ReplayFailed(f"replay failed: {now.error}")
        if now.position is not None:
            progress.advance(min(log.done(now.position), log.total), log.total)
        if not now.running:
            break
        told(now.position)
        idle = idle + 1 if now.idle else 0
        if idle > IDLE_POLLS:
            raise VerificationFailed(
                f"replay has read all of the log but not reached {log.stop}; it is at {now.position}"
            )
        # A small log takes less than a long one is looked at.
        time.sleep(pause)
        pause = min(2 * pause, POLL_S)
    if not log.is_end(now.position):
        raise VerificationFailed(f"replay stopped at {now.position}, not at {log.stop}")


def applier_threads(flavor: str) -> int:
    """How many parallel appliers are best here.

    MySQL's keep the order in which transactions were committed together and wait for each other, so more of
    them than CPUs keep the CPUs busy: 8 on 2 CPUs took two thirds of the time of 2. MariaDB's take turns in
    committing and roll back what was tried too early: there 8 on 2 CPUs took up to twice the CPU time of 2.
    """
    cpus = os.cpu_count() or 1
    return min(MOST_APPLIERS, cpus * 4) if flavor == "mysql" else min(MOST_APPLIERS // 2, cpus)
