"""Drills that failed, or did not come when they were promised. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from zbackup.model.command_line import command_line
from zbackup.model.finding import Finding, Severity
from zbackup.plan.due import CronSlots
from zbackup.plan.duration_text import length

GRACE = timedelta(minutes=2)

# A drill may have to wait for a restore, or for the next morning.
LATE_DRILL = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillFacts:
    """Drills of what is at a destination, "" for this host: how long ago one passed (None: never), how often
    one was promised (None: nobody said), and why the last one failed, "" if it did not.

    `waiting` is how long there has been a backup to try. `most` is how long ago one may have passed, where
    they are on no interval.
    """

    destination: str
    passed: timedelta | None
    every: timedelta | None
    failed: str = ""
    waiting: timedelta = timedelta()
    most: timedelta | None = None

    @property
    def job(self) -> str:
        return f"drill:{self.destination}" if self.destination else "drill"

    @property
    def age(self) -> timedelta:
        """The time since one passed, or since one should have at the earliest."""
        return self.waiting if self.passed is None else self.passed

    @property
    def late(self) -> bool:
        if self.every is None:
            return False
        most = LATE_DRILL * self.every if self.most is None else self.most
        return self.age > most + GRACE


def most_between(slots: CronSlots, last: datetime) -> timedelta:
    """How long after the last drill the next must have passed: when the wait from its slot on is half of
    that for it, or for the one after it."""
    first = slots.after(last)
    wait = max(first - last, slots.after(last, 2) - first)
    return first - last + (LATE_DRILL - 1) * wait


NO_DRILL = Finding(
    severity="advice",
    subject="drills",
    text="no backup of this instance was ever restored to prove it",
    why="what was never restored is not known to be a backup",
    fix="zbackup verify --drill",
)


def described_drill(drill: DrillFacts) -> str:
    """One that passed."""
    where = f"at {drill.destination}" if drill.destination else "of this host's backups"
    age = "has not passed yet" if drill.passed is None else f"passed {length(drill.passed)} ago"
    return f"the last {where} {age}"


def of_drills(drills: Sequence[DrillFacts]) -> list[Finding]:
    """One that failed, whoever made it; and one that did not come when it was promised."""
    found = []
    for drill in drills:
        where = f"at {drill.destination}" if drill.destination else "of this host's backups"
        at = ("--at", drill.destination, "--read", "none") if drill.destination else ()
        if drill.failed:
            severity: Severity = "critical"
            text = f"the last drill {where} failed: {drill.failed}"
        elif drill.late and drill.every is not None:
            severity = "warning"
            last = (
                "none has passed yet" if drill.passed is None else f"the last passed {length(drill.age)} ago"
            )
            text = f"drills {where} are to be every {length(drill.every)}, and {last}"
        else:
            continue
        key = "failed" if drill.failed else "late"
        why = "what was never restored is not known to be a backup"
        fix = command_line("zbackup", "verify", *at, "--drill")
        found.append(Finding(severity=severity, subject=drill.job, text=text, why=why, fix=fix, key=key))
    return found
