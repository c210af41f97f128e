"""Judge what lies at an address that hosts ship to, and put the worst first. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from zbackup.model.finding import Severity
from zbackup.model.fleet import FleetMember
from zbackup.plan.due import CLOCK_TOLERANCE
from zbackup.plan.duration_text import length

_ORDER: dict[Severity, int] = {"critical": 0, "warning": 1, "advice": 2, "ok": 3}
MOST_PROBLEMS = 5


def judged(members: Sequence[FleetMember], now: datetime, most: timedelta | None) -> tuple[FleetMember, ...]:
    """The members with what would be lost of each and a verdict, the worst first; `most` is how much may be.

    A time that is still to come proves nothing: whoever wrote it could write any, or his clock was wrong.
    """
    found = [_judged(each, now, most) for each in members]
    return tuple(sorted(found, key=_worst))


def _worst(one: FleetMember) -> tuple[int, float, str, str, str]:
    lost = float("-inf") if one.exposed is None else -one.exposed
    return (_ORDER[one.health], lost, one.address, one.path, one.instance)


def _judged(one: FleetMember, now: datetime, most: timedelta | None) -> FleetMember:
    problems = list(one.problems)
    severity: Severity = "warning" if problems else "ok"
    known = []
    for what, at in (("the newest backup", one.taken), ("the archived log", one.archived)):
        if at is None:
            continue
        if at > now + CLOCK_TOLERANCE:
            problems.append(f"{what} says that it is of {at:%Y-%m-%d %H:%M} UTC, which is still to come")
            severity = "warning"
        else:
            known.append(at)
    # Without a backup archived log leads nowhere.
    exposed = max(0.0, (now - max(known)).total_seconds()) if known and one.newest else None
    if one.drill_failed:
        problems.append(f"its last drill failed: {one.drill_failed}")
        severity = "critical"
    if exposed is None:
        problems.append("nothing can be restored" if one.newest == "" else "nobody can tell how old it is")
        severity = "critical"
    elif most is not None and timedelta(seconds=exposed) > most:
        problems.append(f"{length(timedelta(seconds=exposed))} would be lost, and {length(most)} is the most")
        severity = "critical"
    return replace(one, exposed=exposed, problems=tuple(problems[:MOST_PROBLEMS]), health=severity)
