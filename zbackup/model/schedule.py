"""Words for when a job of the daemon is to run, and how its runs ended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from zbackup.model.cron import Cron

JobKind = Literal["reconcile", "snapshot", "prune", "ship", "verify", "drill", "watch", "leases"]

Job = str
"""What the daemon does: a JobKind on an instance, or `prune:NAME`, `verify:NAME` and `drill:NAME` at a
destination."""


def job_at(kind: JobKind, destination: str) -> Job:
    """The job of this kind at a destination. No destination's name has a colon."""
    return f"{kind}:{destination}"


def parted(job: Job) -> tuple[str, str]:
    """The job's kind, and at which destination it is ("" for none)."""
    kind, _, destination = job.partition(":")
    return kind, destination


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so many seconds, counted from the epoch, so that all hosts and restarts agree on the slots."""

    seconds: float


Timing = Interval | Cron


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """After a failure: wait `first` seconds, then twice as long each time, never more than `most`."""

    first: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The time at which a job runs next, and the reason."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one run of a job. `error` is "" for success, else the failure's name; times in UTC.

    `evidence` is the time by which the job's next turn is counted: of a snapshot that of the snapshot.
    `more`: it let others have their turn, and is not done yet. `postponed`: it gave way, or the daemon's
    end cut it short, and it neither failed nor succeeded; `message` says to what.
    """

    instance: str
    job: Job
    started: datetime
    seconds: float
    evidence: datetime | None = None
    more: bool = False
    postponed: bool = False
    error: str = ""
    message: str = ""
    exit_status: int = 0
