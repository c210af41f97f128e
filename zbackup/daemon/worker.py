"""One turn of one job: the boundary behind which a failure, whatever it is, stays."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

import structlog

from zbackup.clock import Clock
from zbackup.daemon.job_table import Ended, Key
from zbackup.jobs.context import Context
from zbackup.jobs.drills.scheduled_drill import DrillTurn
from zbackup.model.errors import Postponed, Stopped, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.progress import Silent
from zbackup.model.schedule import Job, Outcome

MOST_SAID = 10_000
"""Characters of a failure's message."""


class LogProgress(Silent):
    """The progress of the daemon's jobs: notes for the operator go to the log."""

    def note(self, text: str) -> None:
        log.warning("job.note", text=text)


@dataclass(frozen=True, slots=True)
class Worker:
    """`context` makes what a job on an instance works with; `begin` is called before each job and `do`
    does it.

    What still waits for a free thread when it is `stopping` is not begun any more.
    """

    clock: Clock
    context: Callable[[str], Context]
    begin: Callable[[Key], None]
    do: Callable[[Job, Context], Any]
    stopping: Callable[[], bool]

    def run(self, key: Key) -> Ended:
        """Do the job. Never raises."""
        instance, job = key
        if self.stopping():
            never = Outcome(instance=instance, job=job, started=self.clock.now(), seconds=0.0)
            return Ended(never, begun=False)
        with structlog.contextvars.bound_contextvars(job=job, instance=instance, run=uuid4().hex[:12]):
            return self._attempt(instance, job)

    def _attempt(self, instance: str, job: Job) -> Ended:
        started, began = self.clock.now(), self.clock.monotonic()
        report: Any = None
        failure: Exception | None = None
        gave_way = ""
        try:
            self.begin((instance, job))
            report = self.do(job, self.context(instance))
        except (Postponed, Stopped) as later:  # what was cut goes on at the next start: that pages nobody
            gave_way = str(later)
        except ZbackupError as named:
            failure = named
        except Exception as defect:  # the job boundary: other instances' jobs go on
            log.exception("job.defect", kind=type(defect).__name__)
            failure = defect
        outcome = Outcome(
            instance=instance,
            job=job,
            started=started,
            seconds=self.clock.monotonic() - began,
            evidence=evidence(report),
            more=getattr(report, "more", False),
            postponed=bool(gave_way),
            error=type(failure).__name__ if failure else "",
            message=_one_line(str(failure) if failure else gave_way),
            exit_status=getattr(failure, "exit_status", 1) if failure else 0,
        )
        _log(outcome)
        return Ended(outcome, report)


def _one_line(text: str) -> str:
    """Fit for an environment, where no variable may hold a NUL, nor more than 128 KiB (execve(2))."""
    return " ".join(text.replace("\0", " ").split())[:MOST_SAID]


def evidence(report: Any) -> datetime | None:
    """When a snapshot was taken, or a drill passed, by its record: what the next start will find
    in ZFS."""
    if isinstance(report, DrillTurn):
        return report.at
    backup = getattr(report, "backup", None)
    return backup.record.taken if backup else None


def _log(outcome: Outcome) -> None:
    facts = {"seconds": round(outcome.seconds, 3)}
    if outcome.postponed:
        log.info("job.postponed", why=outcome.message)
    elif outcome.error:
        log.error("job.failed", error=outcome.error, message=outcome.message, **facts)
    else:
        log.info("job.done", **facts)
