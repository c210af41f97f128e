"""What jobs decide without asking anybody."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import NOON
from zbackup.jobs.check import CheckReport, Finding
from zbackup.jobs.restore import exclusive_end
from zbackup.model.moment import Moment

UTC = ZoneInfo("UTC")
ODD = NOON + timedelta(microseconds=1)


def test_a_named_moment_is_itself_left_out() -> None:
    for at in (NOON, ODD):
        assert exclusive_end(Moment(at=at, text="", zone=UTC)) == at


@pytest.mark.parametrize("at", [NOON, ODD, NOON + timedelta(microseconds=999_999)])
def test_now_takes_in_the_whole_current_second(at: datetime) -> None:
    """A log that knows whole seconds only writes noon for all of them."""
    assert exclusive_end(Moment(at=at, text="now", zone=UTC, is_now=True)) == NOON + timedelta(seconds=1)


def finding(severity: str, status: int) -> Finding:
    return Finding(severity=severity, subject="x", text="y", exit_status=status)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ((), 0),
        ((("ok", 0), ("warning", 0)), 0),
        ((("warning", 5), ("error", 9), ("error", 7)), 9),
        ((("ok", 0), ("error", 7)), 7),
    ],
)
def test_a_check_ends_with_the_first_errors_status(
    findings: tuple[tuple[str, int], ...], status: int
) -> None:
    report = CheckReport(instance="shop", findings=tuple(finding(*f) for f in findings))
    assert report.exit_status == status
