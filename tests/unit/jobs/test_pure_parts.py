"""Decisions of jobs that ask nobody."""

from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import NOON, PLAIN
from zbackup.jobs.backup.complete_record import NON_TRANSACTIONAL, require_confirmed
from zbackup.jobs.watch.check import CheckReport, Finding
from zbackup.model.errors import VerificationFailed
from zbackup.model.moment import Moment
from zbackup.model.record import Record

UTC = ZoneInfo("UTC")
ODD = NOON + timedelta(microseconds=1)


def test_a_named_moment_is_itself_left_out() -> None:
    for at in (NOON, ODD):
        assert Moment(at=at, text="", zone=UTC).exclusive_end == at


@pytest.mark.parametrize("at", [NOON, ODD, NOON + timedelta(microseconds=999_999)])
def test_now_takes_in_the_whole_current_second(at: datetime) -> None:
    """A log that knows whole seconds only writes noon for all of them."""
    assert Moment(at=at, text="now", zone=UTC, is_now=True).exclusive_end == NOON + timedelta(seconds=1)


def finding(severity: str, status: int) -> Finding:
    return Finding(severity=severity, subject="x", text="y", exit_status=status)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ((), 0),
        ((("ok", 0), ("warning", 0)), 0),
        ((("warning", 5), ("critical", 9), ("critical", 7)), 9),
        ((("ok", 0), ("critical", 7)), 7),
        ((("critical", 0), ("critical", 7)), 7),
        ((("warning", 0), ("critical", 0)), 1),
    ],
)
def test_a_check_ends_with_the_first_critical_findings_status(
    findings: tuple[tuple[str, int], ...], status: int
) -> None:
    report = CheckReport(instance="shop", findings=tuple(finding(*f) for f in findings))
    assert report.exit_status == status


TORN = PLAIN.server | {NON_TRANSACTIONAL: "3"}


@pytest.mark.parametrize(
    "record",
    [
        PLAIN,
        replace(PLAIN, server=TORN, lock_held_ms=40),
        replace(PLAIN, server=TORN, lock_held_ms=0),
        replace(PLAIN, server=TORN, lock="none"),
    ],
)
def test_a_lock_that_lasted_or_was_not_needed_makes_a_leftover_good(record: Record) -> None:
    require_confirmed(record)


def test_tables_that_may_be_torn_make_a_leftover_bad() -> None:
    with pytest.raises(VerificationFailed, match=r"lock ftwrl lasted .* and tables .* \(3\)"):
        require_confirmed(replace(PLAIN, server=TORN))
