"""Calendar periods: every moment is in exactly one, whatever clocks and calendars do."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.retention import Span
from zbackup.plan.calendar import back, begins, ends, forward, label, period

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


FALL = "2024-10-27"  # Clocks go from 03:00 CEST back to 02:00 CET.


@pytest.mark.parametrize(
    ("step", "at", "begun", "over"),
    [
        (Span(1, "minute"), "2024-05-01 10:04:59", "2024-05-01T08:04", "2024-05-01T08:05"),
        (Span(15, "minute"), "2024-05-01 23:59", "2024-05-01T21:45", "2024-05-01T22:00"),
        (Span(7, "minute"), "2024-05-01 23:59", "2024-05-01T21:55", "2024-05-01T22:00"),
        (Span(1, "hour"), "2024-05-01 10:59", "2024-05-01T08:00", "2024-05-01T09:00"),
        (Span(5, "hour"), "2024-05-01 23:59", "2024-05-01T18:00", "2024-05-01T22:00"),
        (Span(1, "day"), "2024-05-01 23:59", "2024-04-30T22:00", "2024-05-01T22:00"),
        (Span(1, "week"), "2024-05-01 12:00", "2024-04-28T22:00", "2024-05-05T22:00"),
        (Span(1, "month"), "2024-12-31 12:00", "2024-11-30T23:00", "2024-12-31T23:00"),
        (Span(3, "month"), "2024-06-30 12:00", "2024-03-31T22:00", "2024-06-30T22:00"),
        (Span(1, "year"), "2024-07-01 12:00", "2023-12-31T23:00", "2024-12-31T23:00"),
        (Span(4, "year"), "2026-07-01 12:00", "2023-12-31T23:00", "2027-12-31T23:00"),
        # An hour that happens twice is two hours; two hours of the clock are then three.
        (Span(1, "hour"), f"{FALL} 02:30", f"{FALL}T00:00", f"{FALL}T01:00"),
        (Span(2, "hour"), f"{FALL} 02:30", f"{FALL}T00:00", f"{FALL}T02:00"),
    ],
)
def test_a_period_has_a_beginning_and_an_end(step: Span, at: str, begun: str, over: str) -> None:
    assert begins(step, wall(at)) == datetime.fromisoformat(begun).replace(tzinfo=UTC)
    assert ends(step, wall(at), BERLIN) == datetime.fromisoformat(over).replace(tzinfo=UTC)


def test_the_hour_that_happens_twice_is_two_hours_and_one_part_of_a_longer_step() -> None:
    one, other = wall(f"{FALL} 02:30"), wall(f"{FALL} 02:30", fold=1)
    for step in (Span(1, "hour"), Span(60, "minute"), Span(15, "minute")):
        assert period(step, one) != period(step, other)
        assert begins(step, other) - begins(step, one) == timedelta(hours=1)
    for step in (Span(2, "hour"), Span(61, "minute"), Span(1, "day")):
        assert period(step, one) == period(step, other) and begins(step, one) == begins(step, other)
    assert label(Span(1, "hour"), one, BERLIN) == f"{FALL} 02:30"
    assert label(Span(1, "hour"), other, BERLIN) == f"{FALL} 02:30 CET"


@pytest.mark.parametrize(
    ("span", "moment", "later"),
    [
        (Span(90, "minute"), "2024-05-01 12:00", "2024-05-01T11:30"),
        (Span(3, "hour"), "2024-05-01 12:00", "2024-05-01T13:00"),
        (Span(2, "day"), "2024-05-01 12:00", "2024-05-03T10:00"),
        (Span(1, "week"), "2024-05-01 12:00", "2024-05-08T10:00"),
        (Span(1, "month"), "2024-05-15 12:00", "2024-06-15T10:00"),
        # From 31 May one month back is 30 April: it takes until 1 June, and no earlier.
        (Span(1, "month"), "2024-05-31 12:00", "2024-06-30T22:00"),
        (Span(2, "year"), "2024-07-15 12:00", "2026-07-15T10:00"),
        (Span(1, "year"), "2024-02-29 12:00", "2025-02-28T23:00"),
    ],
)
def test_days_and_longer_go_on_by_the_calendar(span: Span, moment: str, later: str) -> None:
    assert forward(wall(moment).astimezone(UTC), span, BERLIN) == datetime.fromisoformat(later).replace(
        tzinfo=UTC
    )
