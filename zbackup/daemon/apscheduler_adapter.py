"""Running calls at their time, each in a thread of a pool. The only user of APScheduler."""

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Literal, TypeVar

from apscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_SUBMITTED, JobExecutionEvent, JobSubmissionEvent
from apscheduler.executors.base import BaseExecutor
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.date import DateTrigger

Result = TypeVar("Result")


Pool = Literal["default", "long", "drill"]
"""Names of thread pools: `long` calls, which take hours, and drills keep no other waiting."""

DRILL_NICE = 10


class _Stepped(BaseScheduler):  # type: ignore[misc]
    """APScheduler without a thread of its own: the daemon's main loop says when to look at the clock."""

    def wakeup(self) -> None:
        """Nobody sleeps in here: step() is called by the thread that changes the jobs."""

    def shutdown(self, wait: bool = True) -> None:
        """Start nothing any more."""
        super().shutdown(wait)

    def step(self) -> float | None:
        """Start what is due, as the main loop of each of APScheduler's own schedulers does: its manual has
        schedulers run _process_jobs() in their own way (BaseScheduler.wakeup).

        Return the seconds until the next one, None if nothing is planned.
        """
        wait: float | None = self._process_jobs()
        return wait


def _step_back() -> None:
    """Lower the priority of a drill's thread, and of the servers and commands it starts: on Linux each thread
    has a niceness of its own, which what it starts inherits. A unit or a container may forbid it in its
    own way, and without it a drill is still better than none: after an error here the pool begins nothing any
    more."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), DRILL_NICE)


@dataclass(frozen=True, slots=True)
class SchedulerStep:
    """Names whose calls were begun, and seconds until the next one (None: nothing is planned)."""

    started: tuple[str, ...]
    wait: float | None


class Scheduler(Generic[Result]):
    """One-shot calls by name. Everything here is called from one thread; the calls run in others.

    `ended` is told, in the call's thread, what a call returned: from then on its name may be used again.
    A call must not raise. It runs once, however late; what comes after it is planned when its outcome is
    known, so no name ever runs twice at a time.
    """

    def __init__(
        self,
        workers: int,
        ended: Callable[[Result], None],
        executor: BaseExecutor | None = None,
        *,
        long_workers: int = 1,
    ) -> None:
        self._ended = ended
        self._scheduler = _Stepped(timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True})
        self._scheduler.add_executor(executor or ThreadPoolExecutor(workers))
        self._scheduler.add_executor(executor or ThreadPoolExecutor(long_workers), "long")
        self._scheduler.add_executor(executor or ThreadPoolExecutor(1, {"initializer": _step_back}), "drill")
        self._scheduler.add_listener(self._submitted, EVENT_JOB_SUBMITTED)
        # Not in the call itself: APScheduler would still count it as running, and skip its next turn.
        self._scheduler.add_listener(self._executed, EVENT_JOB_EXECUTED)
        self._started: list[str] = []
        self._scheduler.start()

    def at(self, name: str, when: datetime, call: Callable[[], Result], *, pool: Pool = "default") -> None:
        """Run `call` at that time in a thread of this pool; a time set for this name before is forgotten."""
        self._scheduler.add_job(call, DateTrigger(when), id=name, replace_existing=True, executor=pool)

    def forget(self, name: str) -> None:
        """It is not to run any more; a call that is running goes on."""
        try:
            self._scheduler.remove_job(name)
        except JobLookupError:
            return

    def step(self) -> SchedulerStep:
        """Start what is due."""
        self._started.clear()
        wait = self._scheduler.step()
        return SchedulerStep(tuple(self._started), wait)

    def stop(self, *, wait: bool) -> None:
        """Start nothing any more; `wait` for what is running."""
        self._scheduler.shutdown(wait=wait)

    def _executed(self, event: JobExecutionEvent) -> None:
        self._ended(event.retval)

    def _submitted(self, event: JobSubmissionEvent) -> None:
        self._started.append(event.job_id)
