"""Occasions to tell people of an instance's health: what is new, once, and its end. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from zbackup.model.finding import Finding
from zbackup.model.operator_notes import Problem

Occasion = Literal["problem", "reminder", "recovery"]

_RANK = {"ok": 0, "advice": 0, "warning": 1, "critical": 2}


@dataclass(frozen=True, slots=True)
class Told:
    """The problems that were told last, and when."""

    problems: frozenset[Problem]
    at: datetime


def serious(findings: Iterable[Finding], severity: str) -> tuple[Finding, ...]:
    """The findings that are at least so bad, the worst first."""
    found = (f for f in findings if _RANK[f.severity] >= _RANK[severity])
    return tuple(sorted(found, key=lambda f: -_RANK[f.severity]))


def occasion(
    before: Told | None, found: Iterable[Finding], now: datetime, repeat: timedelta
) -> Occasion | None:
    """Why to tell of what is found now; None: nobody needs to hear of it.

    A subject that got better, or of which only the text changed, is no news.
    """
    problems = sorted(before.problems, key=lambda p: _RANK[p[0]]) if before else []
    known = {subject: _RANK[severity] for severity, subject in problems}
    there = tuple(found)
    if not there:
        return "recovery" if known else None
    if any(_RANK[f.severity] > known.get(f.subject, 0) for f in there):
        return "problem"
    return "reminder" if before and now - before.at >= repeat else None


def told(found: Iterable[Finding], now: datetime, before: Told | None, why: Occasion | None) -> Told | None:
    """What is remembered afterwards; None when there is nothing left to remember.

    What went is remembered until all has gone: a problem that comes and goes is told once.
    """
    there = frozenset((f.severity, f.subject) for f in found)
    if not there:
        return None
    problems = there | before.problems if before else there
    return Told(problems, now if why or before is None else before.at)
