"""A cron expression may rest at night: what is late is judged by the slots that were missed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.plan.test_health import WELL
from zbackup.model.cron import Cron
from zbackup.model.schedule import Retry
from zbackup.plan.due import CronSlots, History, due, expected_every
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.plan.health.drill_health import GRACE, DrillFacts, most_between, of_drills
from zbackup.plan.health.health import judge

ZONE = ZoneInfo("Europe/Berlin")
MICRO = timedelta(microseconds=1)
BY_DAY = "*/5 8-18 * * *"

CRONS = st.builds(
    " ".join,
    st.tuples(
        st.sampled_from(["*", "*/5", "*/20", "0", "7,8,59"]),
        st.sampled_from(["*", "*/6", "8-18", "3", "0,23", "2"]),
        st.sampled_from(["*", "1", "1-10", "*/9"]),
        st.sampled_from(["*", "3,10", "6-8"]),
        st.sampled_from(["*", "mon-fri", "sun"]),
    ),
)

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(), timedelta(days=730)).map(lambda passed: FIRST + passed)
OFFSETS = st.sampled_from([0.0, 59.5, 900.0])


def promised(slots: CronSlots, now: datetime) -> Expected:
    every = expected_every(slots.cron, now, slots.zone)
    return Expected(snapshot_every=every, snapshot_slots=slots)


def snapshots(slots: CronSlots, newest: datetime, now: datetime) -> list[str]:
    return [f.severity for f in judge(replace(WELL, now=now, newest=newest), promised(slots, now))]


def drills(slots: CronSlots, passed: datetime, now: datetime) -> list[str]:
    every = timedelta(seconds=expected_every(slots.cron, now, slots.zone))
    most = most_between(slots, passed)
    facts = DrillFacts(destination="", passed=now - passed, every=every, most=most)
    return [f.severity for f in of_drills([facts])]


@given(CRONS, MOMENTS, OFFSETS, st.floats(0, 120))
@example(BY_DAY, datetime(2024, 5, 1, 16, 55, tzinfo=UTC), 0.0, 60.0)
@example(BY_DAY, datetime(2024, 5, 1, 16, 55, tzinfo=UTC), 900.0, 60.0)
def test_a_daemon_that_took_every_slot_is_never_late(
    text: str, last: datetime, offset: float, took: float
) -> None:
    slots = CronSlots(Cron.parse(text), ZONE, offset)
    for _ in range(3):
        history = History(last=last)
        following = due(slots.cron, Retry(first=1, most=1), history, last, ZONE, offset=offset).at
        done = following + timedelta(seconds=took)
        for now in (last, last + (following - last) / 2, following, done):
            assert snapshots(slots, last, now) == [] == drills(slots, last, now)
        last = done


@given(CRONS, MOMENTS, OFFSETS)
def test_one_that_misses_two_slots_in_a_row_is_late_and_with_three_it_is_serious(
    text: str, last: datetime, offset: float
) -> None:
    slots = CronSlots(Cron.parse(text), ZONE, offset)
    second, third = (slots.after(last, n) + GRACE for n in (2, 3))
    assert snapshots(slots, last, second) == []
    assert snapshots(slots, last, second + MICRO) == ["warning"]
    assert snapshots(slots, last, third) == ["warning"]
    assert snapshots(slots, last, third + MICRO) == ["critical"]
    assert snapshots(slots, last, third + timedelta(days=999)) == ["critical"]
    first = slots.after(last)
    most = first + max(first - last, slots.after(last, 2) - first) / 2 + GRACE
    assert drills(slots, last, most - timedelta(milliseconds=1)) == []
    assert drills(slots, last, most + timedelta(milliseconds=1)) == ["warning"]


@pytest.mark.parametrize(
    ("clock", "severity"),
    [("2024-05-02 03:00", []), ("2024-05-02 08:07", []), ("2024-05-02 08:08", ["warning"]),
     ("2024-05-02 08:13", ["critical"])],
)  # fmt: skip
def test_at_night_nothing_is_missed(clock: str, severity: list[str]) -> None:
    slots = CronSlots(Cron.parse(BY_DAY), ZONE)
    newest = datetime(2024, 5, 1, 18, 55, 1, tzinfo=ZONE).astimezone(UTC)
    now = datetime.fromisoformat(clock).replace(tzinfo=ZONE).astimezone(UTC)
    assert snapshots(slots, newest, now) == severity


def test_which_slot_was_missed_is_told() -> None:
    slots = CronSlots(Cron.parse(BY_DAY), ZONE)
    newest = datetime(2024, 5, 1, 18, 55, tzinfo=ZONE).astimezone(UTC)
    now = newest + timedelta(hours=15)
    (found,) = judge(replace(WELL, now=now, newest=newest), promised(slots, now))
    assert found.text == (
        'the newest is 15 hours old, and "*/5 8-18 * * *" wanted one at 2024-05-02 08:00:00 CEST'
    )
