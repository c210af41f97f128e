"""Archive a log for as long as nobody says stop: every few seconds, and after a failure ever more seldom."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from zbackup.jobs.archive.archive import Archiver, archive_lock, require_archiving
from zbackup.jobs.archive.clock_watch import ClockWatch
from zbackup.jobs.archive.state import ArchiveState, after_failure, after_round, read_state, write_state
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.errors import ZbackupError
from zbackup.model.event_log import log

LONGEST_WAIT_S = 60.0
"""Between two attempts while a destination is down; it is caught up with from where it was."""


@dataclass(slots=True)
class KeepUp:
    """Archives one instance's log at one destination until `stop` is set. `told` hears how it is."""

    ctx: Context
    destination: ShipDestination
    stop: threading.Event
    told: Callable[[ArchiveState], None]
    paused: Callable[[], bool] = lambda: False

    def run(self) -> None:
        """Until it is told to stop. Raises nothing but defects."""
        try:
            self._run()
        finally:
            self.ctx.follower.forget()

    def _run(self) -> None:
        state = read_state(self.ctx, self.destination.name)
        watch = ClockWatch()
        failures = 0
        while not self.stop.is_set():
            try:
                with archive_lock(self.ctx, self.destination), self.destination.adapter.connect() as session:
                    archiver = Archiver(self.ctx, self.destination, self.stop.is_set, watch=watch)
                    archiving = require_archiving(self.destination, session)
                    while not self.stop.is_set():
                        began = self.ctx.clock.monotonic()
                        more = False
                        if not self.paused():
                            done = archiver.round(archiving)
                            state = self._tell(after_round(state, self.destination, self._every, done))
                            failures = self._works_again(failures)
                            more = done.more
                        if not more:
                            self._wait_for_next(began)
            except (ZbackupError, OSError) as failure:
                if self.stop.is_set():
                    return
                failures += 1
                self._say(failure, failures)
                now = self.ctx.clock.now()
                state = self._tell(after_failure(state, self.destination, self._every, now, failure))
                self.stop.wait(min(self._every * 2 ** min(failures, 10), LONGEST_WAIT_S))

    def _wait_for_next(self, began: float) -> None:
        """From one look's beginning to the next's: the time of an append counts towards it."""
        took = self.ctx.clock.monotonic() - began
        self.stop.wait(max(0.0, self._every - took))

    @property
    def _every(self) -> float:
        return self.ctx.archive.every if self.ctx.archive else LONGEST_WAIT_S

    def _tell(self, state: ArchiveState) -> ArchiveState:
        write_state(self.ctx, state)
        self.told(state)
        return state

    def _works_again(self, failures: int) -> int:
        if failures:
            log.info("archive.works_again", destination=self.destination.name, failures=failures)
        return 0

    def _say(self, failure: Exception, failures: int) -> None:
        """Each first failure, and then ever more seldom: a destination may be down for a day."""
        if failures & (failures - 1) == 0:
            log.error(
                "archive.failed",
                destination=self.destination.name,
                error=type(failure).__name__,
                message=" ".join(str(failure).split()),
                failures=failures,
            )
