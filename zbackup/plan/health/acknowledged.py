"""Findings in the light of an operator's notes: what is acknowledged calls nobody. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from zbackup.model.finding import Finding
from zbackup.model.moment import local_text
from zbackup.model.operator_notes import Acknowledgement, Pause, Problem

_RANK = {"ok": 0, "advice": 0, "warning": 1, "critical": 2}


def problems_of(findings: Sequence[Finding]) -> tuple[Problem, ...]:
    """The problems among the findings, each once."""
    found = (Problem(f.severity, f.subject, f.key) for f in findings if _RANK[f.severity])
    return tuple(dict.fromkeys(found))


def in_the_light_of(
    findings: Sequence[Finding], pause: Pause | None, known: Acknowledgement | None, zone: ZoneInfo
) -> tuple[Finding, ...]:
    """The findings, the acknowledged ones as advice; and one more that says that jobs are paused."""
    seen = [_known(finding, known, zone) if known else finding for finding in findings]
    return (*([_paused(pause, zone)] if pause else []), *seen)


def _known(finding: Finding, known: Acknowledgement, zone: ZoneInfo) -> Finding:
    same = (p for p in known.problems if (p.subject, p.key) == (finding.subject, finding.key))
    most = max((_RANK[p.severity] for p in same), default=0)
    if not 0 < _RANK[finding.severity] <= most:
        return finding
    said = f"acknowledged until {_text(known.until, zone)} ({known.reason})"
    text = f"{finding.text}; {said}"
    return replace(finding, severity="advice", text=text, acknowledged=finding.severity)


def _paused(pause: Pause, zone: ZoneInfo) -> Finding:
    reason = f": {pause.reason}" if pause.reason else ""
    return Finding(
        severity="warning",
        subject="paused",
        text=f"no scheduled job begins until {_text(pause.until, zone)}{reason}",
        why="meanwhile no backup is taken, shipped or deleted by the daemon",
        fix="zbackup resume",
    )


def _text(moment: datetime, zone: ZoneInfo) -> str:
    return local_text(moment.replace(microsecond=0), zone)
