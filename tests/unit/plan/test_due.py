"""The time at which a job is due."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st

from zbackup.model.cron import Cron
from zbackup.model.schedule import Interval, Retry, Timing
from zbackup.plan.due import DIFFERENT, History, back_off, clock_jumped, due, expected_every, offset

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")
FIVE = Interval(300)
RETRY = Retry(first=30, most=900)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def when(history: History, now: float, timing: Timing = FIVE, **more: float) -> float:
    """Seconds after noon."""
    return (due(timing, RETRY, history, at(now), ZONE, **more).at - NOON).total_seconds()


def test_slots_are_the_clocks() -> None:
    assert when(History(last=at(0)), 1) == 300
    assert when(History(last=at(299)), 299) == 300
    assert when(History(last=at(301)), 310) == 600, "one taken by hand counts"


def test_the_first_is_at_once() -> None:
    assert when(History(), 17) == 17
    assert when(History(), 17, Cron.parse("0 3 * * *")) == 17
    assert when(History(since=at(10)), 17) == 10, "it has waited since then"
    assert when(History(since=at(30)), 17) == 17, "the clock was put back"


def test_after_a_night_it_is_due_once() -> None:
    missed = due(FIVE, RETRY, History(last=at(0)), at(30_000), ZONE)
    assert missed.at <= at(30_000) and missed.reason == "overdue"
    assert when(History(last=at(30_000.5)), 30_001) == 30_300


def test_a_snapshot_from_the_future_is_no_reason_to_wait() -> None:
    assert when(History(last=at(86_400)), 10) == 10
    assert when(History(last=at(11)), 10) == 300, "but two clocks may differ by a moment"


def test_after_failures_it_waits_longer_each_time() -> None:
    waits = [when(History(last=at(0), failures=n, failed=at(1000)), 1000) - 1000 for n in range(1, 8)]
    assert waits == [30, 60, 120, 240, 480, 900, 900]
    assert back_off(Interval(5), RETRY, 1) == 5
    assert back_off(FIVE, RETRY, 100_000) == 900


def test_a_failure_from_the_future_is_none() -> None:
    assert when(History(failures=1, failed=at(86_400)), 10) == 40


def reason(history: History, now: float, timing: Timing = FIVE) -> str:
    return due(timing, RETRY, history, at(now), ZONE).reason


def test_what_gave_way_is_tried_again_soon_and_not_later_for_its_failures() -> None:
    gave = History(last=at(0), postponed=at(310), gave_way="a restore")
    assert (when(gave, 320), reason(gave, 320)) == (340, "postponed: a restore")
    assert when(replace(gave, postponed=at(86_400)), 320) == 350, "the clock was put back"
    before = replace(gave, failures=3, failed=at(300))
    assert when(before, 320) == 340 and when(replace(before, failed=at(310)), 320) == 340
    after = replace(before, failed=at(311))
    assert (when(after, 320), reason(after, 320)) == (431, "failed 3 times in a row")
    assert reason(replace(after, failures=1), 320) == "failed"
    done = replace(after, failures=0, postponed=None)
    assert (when(done, 320), reason(done, 320)) == (300, "overdue"), "a failure before its last success"


def test_with_more_to_do_it_goes_on_at_once() -> None:
    more = History(last=at(0), more=True, since=at(5))
    assert (when(more, 7), reason(more, 7)) == (5, "not done yet")
    assert reason(replace(more, more=False), 7) == "on schedule"


def test_two_clocks_may_differ_by_two_seconds() -> None:
    assert reason(History(last=at(12)), 10) == "on schedule"
    assert reason(History(last=at(12.001)), 10).startswith("the last one is from the future")
    assert reason(History(last=at(0)), 302) == "on schedule"
    assert clock_jumped((at(0), 0.0), (at(12), 10.0)) is None


def test_a_difference_stays_until_something_says_otherwise() -> None:
    """That another look failed does not disprove it."""
    different = History(postponed=at(0)).after(DIFFERENT, "table a differs", at(1))
    assert different.differs and (different.failures, different.postponed) == (1, None)
    again = different.after("ConnectionFailed", "no answer", at(2))
    assert (again.differs, again.message, again.failures, again.failed) == (True, "table a differs", 2, at(2))
    assert again.after(DIFFERENT, "table b differs", at(3)).message == "table b differs"
    other = History().after("ConnectionFailed", "no answer", at(1))
    assert not other.differs and other.message == "no answer"
    assert other.after("PoolFull", "no room", at(2)).message == "no room"
    assert not replace(different, failures=0).differs


def test_what_runs_by_the_calendar_waits_as_long_as_is_said() -> None:
    assert back_off(Cron.parse("0 3 * * *"), RETRY, 1) == 30


def test_cron_is_local_time() -> None:
    assert when(History(last=at(0)), 1, Cron.parse("0 15 * * *")) == 3600


def test_the_share_of_the_jitter_is_always_the_same() -> None:
    shares = {offset(f"db{n}:snapshot", 60) for n in range(100)}
    assert len(shares) == 100 and all(0 <= share < 60 for share in shares)
    assert offset("db1:snapshot", 60) == offset("db1:snapshot", 60)
    assert when(History(last=at(0)), 1, offset=40) == 40
    assert when(History(last=at(41)), 42, offset=40) == 340


def test_how_often_a_schedule_comes() -> None:
    assert expected_every(FIVE, NOON, ZONE) == 300
    assert expected_every(Cron.parse("0 3 * * *"), NOON, ZONE) == 86_400
    assert expected_every(Cron.parse("0 8,20 * * mon-fri"), NOON, ZONE) == (48 + 12) * 3600


def test_clocks_that_were_set() -> None:
    assert clock_jumped((at(0), 50.0), (at(5.5), 55.0)) is None
    assert clock_jumped((at(0), 50.0), (at(3605), 55.0)) == timedelta(hours=1)
    assert clock_jumped((at(0), 50.0), (at(-3595), 55.0)) == timedelta(hours=-1)


timings = st.one_of(
    st.floats(1, 1e6).map(Interval),
    st.sampled_from(["*/5 * * * *", "0 3 * * *", "0 0 1 * *"]).map(Cron.parse),
)


@given(timings, st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(0, 1), st.floats(0, 3600))
@example(Interval(1.0000000000000002), 0.0, 0.0, 0.0, 0.0)
def test_asked_later_it_answers_the_same(
    timing: Timing, last: float, later: float, part: float, share: float
) -> None:
    """Whatever the daemon does meanwhile, restarts included, nothing is due sooner or later for it."""
    history = History(last=at(last))
    first = due(timing, RETRY, history, at(last), ZONE, offset=share)
    again = due(timing, RETRY, history, at(last + later * part), ZONE, offset=share)
    assert first.at == again.at > at(last)
