"""Occasions to tell people of an instance's health: what is new, once, and its end. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from zbackup.model.finding import Finding
from zbackup.model.operator_notes import Problem

Occasion = Literal["problem", "reminder", "acknowledged", "better", "recovery"]
"""Something new; the same after a while; all of it is acknowledged; only what this channel is not told of is
left; all is ok."""

FORGET = timedelta(minutes=30)
"""A problem that was absent for so long is news when it comes again."""

_RANK = {"ok": 0, "advice": 0, "warning": 1, "critical": 2}


@dataclass(frozen=True, slots=True)
class ChannelKnowledge:
    """The knowledge of a channel: the problems with when each was there last, and when it was told last.

    `acknowledged`: the last that was told is that all of them are acknowledged.
    """

    problems: Mapping[Problem, datetime]
    at: datetime
    acknowledged: bool = False


def serious(findings: Iterable[Finding], severity: str) -> tuple[Finding, ...]:
    """The findings that are at least so bad, the worst first."""
    found = (f for f in findings if _RANK[f.severity] >= _RANK[severity])
    return tuple(sorted(found, key=lambda f: -_RANK[f.severity]))


def left(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """All that is not ok, with what is acknowledged, the worst first."""
    found = (f for f in findings if _real_rank(f))
    return tuple(sorted(found, key=lambda f: (-_RANK[f.severity], -_real_rank(f))))


def occasion(
    before: ChannelKnowledge | None,
    findings: Iterable[Finding],
    severity: str,
    now: datetime,
    repeat: timedelta,
) -> Occasion | None:
    """Return why to tell a channel that hears of what is at least this severe; None: it need not hear of it.

    A problem that got better, or of which only the text changed, is not told again.
    """
    everything = tuple(findings)
    there = serious(everything, severity)
    if not there:
        return _end(before, everything, severity) if before else None
    known: dict[tuple[str, str], int] = {}
    for problem in before.problems if before else ():
        name = (problem.subject, problem.key)
        known[name] = max(known.get(name, 0), _RANK[problem.severity])
    if any(_RANK[f.severity] > known.get((f.subject, f.key), 0) for f in there):
        return "problem"
    return "reminder" if before and now - before.at >= repeat else None


def _end(before: ChannelKnowledge, findings: tuple[Finding, ...], severity: str) -> Occasion | None:
    """Nothing that is so bad calls anybody. That is no recovery while something is left."""
    rest = left(findings)
    if any(f.acknowledged and _real_rank(f) >= _RANK[severity] for f in rest):
        return None if before.acknowledged else "acknowledged"
    return "better" if rest else "recovery"


def told(
    findings: Iterable[Finding],
    severity: str,
    now: datetime,
    before: ChannelKnowledge | None,
    why: Occasion | None,
) -> ChannelKnowledge | None:
    """Return what a channel knows afterwards; None when there is nothing left to remember.

    What went is remembered for a while beside others: a problem that comes and goes is told once.
    """
    if why in ("better", "recovery"):
        return None
    there = {Problem(f.severity, f.subject, f.key): now for f in serious(findings, severity)}
    if not there:
        if why == "acknowledged":
            return ChannelKnowledge({}, now, acknowledged=True)
        return before
    recent = {p: at for p, at in before.problems.items() if now - at < FORGET} if before else {}
    return ChannelKnowledge(recent | there, now if why or before is None else before.at)


def _real_rank(finding: Finding) -> int:
    return _RANK[finding.acknowledged or finding.severity]
