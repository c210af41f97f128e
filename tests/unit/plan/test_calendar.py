"""Calendar periods: every moment is in exactly one, whatever clocks and calendars do."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.retention import Span
from zbackup.plan.calendar import back, begins, label, period

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("Europe/Berlin", "UTC", "Australia/Lord_Howe", "America/St_Johns", "America/Havana", "Asia/Tehran")
moments = st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
zones = st.sampled_from(ZONES).map(ZoneInfo)
steps = st.builds(
    Span,
    st.sampled_from([1, 2, 3, 5, 7, 12, 15]),
    st.sampled_from(["minute", "hour", "day", "week", "month", "year"]),
)


def wall(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold)


@given(steps, moments, zones)
def test_a_period_begins_no_later_than_any_moment_in_it(step: Span, moment: datetime, zone: ZoneInfo) -> None:
    assert begins(step, moment.astimezone(zone)) <= moment


@given(steps, moments, st.timedeltas(timedelta(), timedelta(days=1)), zones)
def test_time_leaves_a_period_once_and_for_all(
    step: Span, moment: datetime, later: timedelta, zone: ZoneInfo
) -> None:
    one, other = moment.astimezone(zone), (moment + later).astimezone(zone)
    if period(step, one) == period(step, other):
        middle = (moment + later / 2).astimezone(zone)
        assert period(step, middle) == period(step, one)
        assert begins(step, one) == begins(step, other)
    else:
        assert begins(step, one) <= begins(step, other)


@pytest.mark.parametrize(
    ("step", "at", "called"),
    [
        (Span(5, "minute"), "2024-05-01 10:04:59", "2024-05-01 10:00"),
        (Span(1, "hour"), "2024-05-01 10:59", "2024-05-01 10:00"),
        (Span(6, "hour"), "2024-05-01 17:59", "2024-05-01 12:00"),
        (Span(1, "day"), "2024-02-29 23:59", "2024-02-29"),
        (Span(1, "week"), "2024-03-03 23:59", "2024-02-26"),
        (Span(1, "month"), "2024-02-29 23:59", "2024-02"),
        (Span(3, "month"), "2024-06-30 12:00", "2024-04"),
        (Span(1, "year"), "2024-12-31 23:59", "2024"),
        (Span(1, "day"), "2024-03-31 23:59", "2024-03-31"),
        (Span(1, "day"), "2024-10-27 23:59", "2024-10-27"),
    ],
)
def test_periods_are_called_as_people_call_them(step: Span, at: str, called: str) -> None:
    assert label(step, begins(step, wall(at)), BERLIN) == called


def test_days_have_23_or_25_hours_when_clocks_change() -> None:
    day = Span(1, "day")
    for date, hours in (("2024-03-31", 23), ("2024-10-27", 25)):
        first = begins(day, wall(f"{date} 12:00"))
        after = begins(day, wall(f"{date} 12:00") + timedelta(days=1))
        assert (after - first) == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("span", "now", "then"),
    [
        (Span(90, "minute"), "2024-03-31 03:30", "2024-03-31 01:00"),
        (Span(2, "day"), "2024-04-01 12:00", "2024-03-30 12:00"),
        (Span(1, "week"), "2024-10-30 12:00", "2024-10-23 12:00"),
        (Span(1, "month"), "2024-03-31 12:00", "2024-02-29 12:00"),
        (Span(1, "month"), "2023-03-31 12:00", "2023-02-28 12:00"),
        (Span(12, "month"), "2024-02-29 12:00", "2023-02-28 12:00"),
        (Span(4, "year"), "2024-02-29 12:00", "2020-02-29 12:00"),
    ],
)
def test_days_and_longer_go_back_by_the_calendar(span: Span, now: str, then: str) -> None:
    assert back(wall(now), span, BERLIN) == wall(then)


def test_before_the_calendar_is_its_beginning() -> None:
    assert back(wall("2024-05-01"), Span(9999, "year"), BERLIN) == datetime.min.replace(tzinfo=UTC)
