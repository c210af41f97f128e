"""Findings in the light of what an operator has said."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from zbackup.model.finding import Finding, Severity, worst
from zbackup.model.operator_notes import Acknowledgement, OperatorNotes, Pause, Problem
from zbackup.plan.health.acknowledged import in_the_light_of, problems_of

UNTIL = datetime(2024, 5, 3, 7, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def finding(severity: Severity, subject: str) -> Finding:
    return Finding(severity=severity, subject=subject, text=f"{subject} is wrong")


FOUND = (finding("critical", "pool"), finding("warning", "clock"), finding("advice", "atime"))


def known(*problems: tuple[str, ...]) -> Acknowledgement:
    return Acknowledgement(
        until=UNTIL, reason="disk is ordered", problems=tuple(Problem(*each) for each in problems)
    )


def test_problems_are_those_that_call_somebody() -> None:
    assert problems_of((*FOUND, FOUND[0])) == (
        Problem("critical", "pool"),
        Problem("warning", "clock"),
    )


@pytest.mark.parametrize(
    ("problems", "left"),
    [
        ((), "critical"),
        ((("critical", "pool"),), "warning"),
        ((("critical", "pool"), ("warning", "clock")), "ok"),
        ((("warning", "pool"), ("warning", "clock")), "critical"),  # it got worse since
        ((("critical", "clock"), ("critical", "pool")), "ok"),  # it got better
        ((("critical", "something else"),), "critical"),
    ],
)
def test_what_is_acknowledged_calls_nobody_and_is_still_shown(
    problems: tuple[tuple[str, str], ...], left: str
) -> None:
    seen = in_the_light_of(FOUND, None, known(*problems), BERLIN)
    assert worst(seen) == left and [f.subject for f in seen] == [f.subject for f in FOUND]
    assert all("disk is ordered" in f.text for f in seen if f.severity == "advice" and f.subject != "atime")


def test_another_of_the_same_subject_is_not_acknowledged_with_it() -> None:
    near, far = (replace(finding("critical", "ship"), key=name) for name in ("near", "far"))
    seen = in_the_light_of((near, far), None, known(("critical", "ship", "near")), BERLIN)
    assert [(f.severity, f.acknowledged) for f in seen] == [("advice", "critical"), ("critical", None)]


def test_a_pause_is_a_warning() -> None:
    (paused, *rest) = in_the_light_of(FOUND, Pause(until=UNTIL, reason="moving"), None, BERLIN)
    assert tuple(rest) == FOUND and paused.severity == "warning"
    assert paused.text == "no scheduled job begins until 2024-05-03 09:00:00 CEST: moving"


def test_what_was_said_ends_by_itself() -> None:
    notes = OperatorNotes(paused={"a": Pause(until=UNTIL)}, acknowledged={"a": known()})
    before, after = UNTIL.replace(hour=6), UNTIL
    assert notes.pause_of("a", before) and notes.acknowledgement_of("a", before)
    assert not notes.pause_of("a", after) and not notes.acknowledgement_of("a", after)
    assert not notes.pause_of("b", before)
