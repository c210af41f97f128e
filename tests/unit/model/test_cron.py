"""Cron expressions: what they mean, also where clocks are put on and back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.cron import Cron

BERLIN = ZoneInfo("Europe/Berlin")
UTC_ZONE = ZoneInfo("UTC")


def runs(text: str, start: str, count: int, zone: ZoneInfo = BERLIN) -> list[str]:
    """The next runs after a local time, in UTC."""
    cron, moment = Cron.parse(text), datetime.fromisoformat(start).replace(tzinfo=zone).astimezone(UTC)
    found = []
    for _ in range(count):
        moment = cron.next_after(moment, zone)
        found.append(f"{moment:%m-%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/15 * * * *", ["05-01 10:15", "05-01 10:30"]),
        ("0 3 * * *", ["05-02 03:00", "05-03 03:00"]),
        ("5,10-12 10 * * *", ["05-01 10:05", "05-01 10:10", "05-01 10:11", "05-01 10:12", "05-02 10:05"]),
        ("0 0 1 jan *", ["01-01 00:00"]),
        ("30 2 * * mon-fri", ["05-02 02:30", "05-03 02:30", "05-06 02:30"]),
        ("0 12 * * 7", ["05-05 12:00", "05-12 12:00"]),
        ("0 12 13 * fri", ["05-03 12:00", "05-10 12:00", "05-13 12:00", "05-17 12:00"]),
        ("0 0 29 2 *", ["02-29 00:00"]),
        ("10/20 * * * *", ["05-01 10:10", "05-01 10:30", "05-01 10:50", "05-01 11:10"]),
        ("@daily", ["05-02 00:00"]),
    ],
)
def test_meaning(text: str, expected: list[str]) -> None:
    assert runs(text, "2024-05-01T10:00", len(expected), UTC_ZONE) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("* * * *", "4 fields"),
        ("60 * * * *", "'60' is no minute"),
        ("0 24 * * *", "'24' is no hour"),
        ("0 0 0 * *", "no day of the month"),
        ("0 0 30 feb *", "never comes"),
        ("*/0 * * * *", "no range"),
        ("9-5 * * * *", "no range"),
        ("0 0 * * someday", "no day of the week"),
        ("*-5 * * * *", "no minute"),
        ("", "0 fields"),
        ("a,, * * * *", "'a' is no minute"),
    ],
)
def test_what_is_no_expression(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Cron.parse(text)


def test_a_time_that_clocks_skip_comes_when_they_have_skipped_it() -> None:
    """On 2024-03-31 Berlin's clocks go from 02:00 to 03:00 at 01:00 UTC."""
    assert runs("30 2 * * *", "2024-03-30T03:00", 2) == ["03-31 01:00", "04-01 00:30"]
    assert runs("*/30 * * * *", "2024-03-31T01:00", 4) == [
        "03-31 00:30",
        "03-31 01:00",
        "03-31 01:30",
        "03-31 02:00",
    ]


def test_a_time_that_comes_twice_counts_once() -> None:
    """On 2024-10-27 Berlin's clocks go from 03:00 back to 02:00 at 01:00 UTC."""
    assert runs("30 2 * * *", "2024-10-26T03:00", 2) == ["10-27 00:30", "10-28 01:30"]
    assert runs("0 3 * * *", "2024-10-26T12:00", 2) == ["10-27 02:00", "10-28 02:00"]


def test_who_runs_every_hour_runs_in_both() -> None:
    assert runs("30 * * * *", "2024-10-27T01:00", 4) == [
        "10-26 23:30",
        "10-27 00:30",
        "10-27 01:30",
        "10-27 02:30",
    ]


def test_half_an_hour_of_daylight_saving() -> None:
    """Lord Howe Island's clocks go from 02:00 to 02:30 on 2024-10-06, at 15:30 UTC the day before."""
    found = runs("15 2 * * *", "2024-10-05T03:00", 2, ZoneInfo("Australia/Lord_Howe"))
    assert found == ["10-05 15:30", "10-06 15:15"]


minutes = st.sampled_from(["*", "0", "*/5", "7,23,59", "10-20", "3-50/7"])
hours = st.sampled_from(["*", "0", "*/6", "2", "1-3", "23"])
days = st.sampled_from(["*", "1", "31", "*/10"])
months = st.sampled_from(["*", "2", "1-6", "dec"])
weekdays = st.sampled_from(["*", "mon", "sat,sun"])
moments = st.integers(1_577_836_800, 1_924_992_000).map(lambda second: datetime.fromtimestamp(second, UTC))


@given(minutes, hours, months, weekdays, moments)
def test_in_utc_it_is_what_apscheduler_says(
    minute: str, hour: str, month: str, weekday: str, moment: datetime
) -> None:
    text = f"{minute} {hour} * {month} {weekday}"
    theirs = CronTrigger(minute=minute, hour=hour, day="*", month=month, day_of_week=weekday, timezone=UTC)
    expected = theirs.get_next_fire_time(None, moment + timedelta(microseconds=1))
    assert Cron.parse(text).next_after(moment, UTC_ZONE) == expected


@given(
    minutes,
    hours,
    days,
    moments,
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
def test_it_always_goes_on_and_skips_nothing(
    minute: str, hour: str, day: str, moment: datetime, name: str
) -> None:
    """Asked at any time in between the answer is the same: nothing is lost by a restart."""
    cron, zone = Cron.parse(f"{minute} {hour} {day} * *"), ZoneInfo(name)
    following = cron.next_after(moment, zone)
    assert following > moment
    between = moment + (following - moment) / 2
    assert cron.next_after(between, zone) == following
