"""By which clocks something is claimed, and how long nothing is after one that leapt."""

from datetime import datetime, timedelta

import pytest

from tests.unit.samples import NOON
from zbackup.jobs.archive.clock_watch import BELIEVED_AFTER_S, DRIFT, STEP_S, ClockWatch
from zbackup.model.clock_reading import Reading

DAY = timedelta(days=1)


def says(seconds: float, ahead: timedelta = timedelta()) -> datetime:
    """What a clock says so long after noon that is ahead by that."""
    return NOON + timedelta(seconds=seconds) + ahead


def test_a_clock_that_leapt_is_believed_when_it_went_on_evenly_for_an_hour() -> None:
    watch, leapt = ClockWatch(), 10.0

    def believed(seconds: float) -> bool:
        return watch.believes(says(seconds, DAY), Reading("boot", seconds, False))

    assert watch.believes(says(0), Reading("boot", 0.0, False))
    assert not believed(leapt)
    assert not believed(leapt + BELIEVED_AFTER_S / 2)
    assert not believed(leapt + BELIEVED_AFTER_S - 1)
    assert believed(leapt + BELIEVED_AFTER_S)
    assert believed(leapt + BELIEVED_AFTER_S + 1), "and from then on"


def test_the_hour_begins_again_with_another_leap() -> None:
    watch = ClockWatch()
    assert watch.believes(says(0), Reading("boot", 0.0, False))
    assert not watch.believes(says(10, DAY), Reading("boot", 10.0, False))
    again = 10.0 + BELIEVED_AFTER_S - 1
    assert not watch.believes(says(again, 2 * DAY), Reading("boot", again, False))
    assert not watch.believes(says(again + 2, 2 * DAY), Reading("boot", again + 2, False))
    late = again + BELIEVED_AFTER_S
    assert watch.believes(says(late, 2 * DAY), Reading("boot", late, False))


def test_one_that_was_put_right_again_is_believed_at_once() -> None:
    watch = ClockWatch()
    for seconds, ahead, believed in ((0, 0 * DAY, True), (10, -DAY, False), (20, 0 * DAY, True)):
        assert watch.believes(says(seconds, ahead), Reading("boot", float(seconds), False)) == believed


@pytest.mark.parametrize("uptime", [100.0, 100_000.0])
@pytest.mark.parametrize("back", [1, -1])
def test_a_step_is_more_than_what_a_clock_drifts(uptime: float, back: int) -> None:
    most = timedelta(seconds=STEP_S + uptime * DRIFT)
    for ahead, believed in ((most, True), (most + timedelta(milliseconds=1), False)):
        watch = ClockWatch()
        assert watch.believes(says(0), Reading("boot", 0.0, False))
        assert watch.believes(says(uptime, back * ahead), Reading("boot", uptime, False)) == believed


def test_nothing_is_known_of_a_clock_before_the_machine_was_started() -> None:
    watch = ClockWatch()
    assert watch.believes(says(0), Reading("boot", 9000.0, False))
    assert watch.believes(says(300, DAY), Reading("another boot", 3.0, False))
    assert not watch.believes(says(310, 9 * DAY), Reading("another boot", 13.0, False))
