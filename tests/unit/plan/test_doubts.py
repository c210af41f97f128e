"""Times in doubt, told one by one: where two times are the same, and where a bound is reached."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.plan.histories import made
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.plan.recovery.clocks import (
    BELIEVED_AFTER,
    LEAP,
    LEAP_AFTER_FEW,
    TOLERANCE,
    certain_now,
    doubts,
    of_any_machine,
    turned_back,
)

START = datetime(2024, 5, 1, tzinfo=UTC)
HOUR, DAY, MICRO = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)


def at(hours: float) -> datetime:
    return START + hours * HOUR


def taken(*hours: float) -> list[Backup]:
    return [made(number, at(each)) for number, each in enumerate(hours, 1)]


def names(backups: list[Backup]) -> list[int]:
    return [b.createtxg for b in backups]


def asked(backups: list[Backup], now: datetime, *, expired: bool = False) -> tuple[list[int], dict[int, str]]:
    """The numbers of those that are timed, and of those in doubt with the reason."""
    found = doubts(backups, now, lambda _: expired, lambda moment: f"{moment:%d %H:%M}")
    return names(found.timed), {b.createtxg: str(why) for b, why in found.kept}


def test_this_moment_is_not_the_future_and_the_same_time_twice_contradicts_nothing() -> None:
    assert asked(taken(1, 1, 2), at(2)) == ([1, 2, 3], {})
    timed, kept = asked(taken(1, 3, 2), at(2))
    assert timed == [1, 3] and kept == {2: "taken in the future (01 03:00): the clock was or is wrong"}


def test_times_that_contradict_the_order_are_kept_until_they_are_too_old_by_any() -> None:
    backups = taken(1, 5, 3, 6)
    why = {n: f"its time (01 0{h}:00) contradicts the order of creation" for n, h in ((2, 5), (3, 3))}
    assert asked(backups, at(7)) == ([1, 4], why)
    assert asked(backups, at(7), expired=True) == ([1, 4], {})


def leapt(count: int, leap: timedelta, since: timedelta = HOUR) -> tuple[list[int], dict[int, str]]:
    """What is in doubt where behind that many backups, a day apart, nothing was taken for `leap`."""
    before = [made(n, START + n * DAY) for n in range(1, count + 1)]
    first = before[-1].record.taken + leap
    return asked([*before, made(99, first)], first + since)


def test_what_was_made_before_a_leap_and_the_first_behind_it_are_in_doubt() -> None:
    _, kept = leapt(7, 4 * DAY)
    assert list(kept) == [1, 2, 3, 4, 5, 6, 7, 99]
    assert kept[1] == "the clock went from 08 00:00 to 12 00:00: in doubt until 19 00:00"
    before = [made(n, START + n * DAY) for n in range(1, 8)]
    later = [made(99, START + 12 * DAY), made(100, START + 12 * DAY + HOUR)]
    _, kept = asked([*before, *later], START + 12 * DAY + 2 * HOUR)
    assert 99 in kept and 100 not in kept


def test_how_long_a_leap_is() -> None:
    assert leapt(6, LEAP)[1] == {} and leapt(6, LEAP + MICRO)[1] != {}
    assert leapt(5, LEAP + DAY)[1] == {}, "few say little about the cadence"
    assert leapt(5, LEAP_AFTER_FEW)[1] == {} and leapt(5, LEAP_AFTER_FEW + MICRO)[1] != {}
    # Not as long as three of the last few: these are two days apart.
    rare = [made(n, START + 2 * n * DAY) for n in range(1, 8)]
    assert asked([*rare, made(99, START + 20 * DAY)], START + 20 * DAY)[1] == {}
    assert asked([*rare, made(99, START + 21 * DAY)], START + 21 * DAY)[1] != {}


def test_a_week_later_a_leap_is_believed() -> None:
    assert leapt(7, 4 * DAY, since=BELIEVED_AFTER - MICRO)[1] != {}
    # Since then nothing was taken for a week, which after a leap of four days is none.
    assert leapt(7, 4 * DAY, since=BELIEVED_AFTER)[1] == {}


def test_when_nothing_was_taken_for_long_nothing_goes() -> None:
    backups = [made(n, START + n * DAY) for n in range(1, 8)]
    timed, kept = asked(backups, START + 11 * DAY)
    assert timed == [1, 2, 3, 4, 5, 6, 7] and list(kept) == timed
    assert set(kept.values()) == {
        "none was taken since 08 00:00: nothing is destroyed until there is a newer one"
    }
    assert asked([], START) == ([], {})


def test_backups_kept_for_one_leap_are_counted_together_without_its_times() -> None:
    backups = [made(n, START + n * DAY) for n in range(1, 8)]
    rules = {why.rule for _, why in doubts(backups, START + 11 * DAY, lambda _: False, str).kept}
    assert rules == {"none was taken since"}


# the moment by which ages are counted


def read(number: int, hours: float, uptime: float, *, boot: str = "a", sound: bool = False) -> Backup:
    """A backup taken at that hour by the clock, so many hours after the machine was started."""
    one = made(number, at(hours))
    return replace(one, record=replace(one.record, clock=Reading(boot, uptime * 3600, sound)))


def certain(backups: list[Backup], now: datetime, uptime: float, **how: object) -> tuple[datetime, str]:
    reading = Reading(str(how.get("boot", "a")), uptime * 3600, bool(how.get("sound")))
    return certain_now(backups, now, reading, lambda moment: f"{moment:%d %H:%M}")


def test_less_than_a_minute_is_no_leap() -> None:
    one = read(1, 1, 1)
    assert certain([one], at(2) + TOLERANCE, 2) == (at(2) + TOLERANCE, "")
    assert certain([one], at(2) + TOLERANCE + MICRO, 2)[0] == at(2)


def test_the_newest_backup_before_the_leap_is_told() -> None:
    backups = [read(n, n, n) for n in (1, 2, 3)]
    backups.append(replace(made(4, at(3.5)), record=replace(made(4, at(3.5)).record, clock=None)))
    moment, why = certain(backups, at(9), 4)
    assert moment == at(4)
    assert why == (
        "the clock went on by 5:00:00 (h:m:s) more than has certainly passed since 01 03:00, and may be "
        "wrong: ages are counted up to 01 04:00"
    )


@pytest.mark.parametrize(("more", "believed"), [(0, True), (-1, False)])
def test_what_was_so_a_week_ago_is_believed(more: int, believed: bool) -> None:
    """Between the two the clock was put forward by eleven hours; the younger is a week old, or not quite."""
    week = 7 * 24 + more
    backups = [read(1, 1, 1), read(2, 13, 2)]
    moment, why = certain(backups, at(13 + week), 2 + week)
    assert (moment, bool(why)) == ((at(13 + week), False) if believed else (at(2 + week), True))


def test_across_a_restart_the_clock_counts_if_it_was_right_before_and_behind() -> None:
    for before, behind, passed in ((True, True, 8), (True, False, 1), (False, True, 1), (False, False, 1)):
        found = certain([read(1, 0, 5, sound=before)], at(8), 1, boot="b", sound=behind)
        assert found[0] == at(passed), (before, behind)
    # Where it was wrong in between, too.
    backups = [read(1, 0, 5, sound=True), read(2, 90, 1, boot="b")]
    assert certain(backups, at(8), 1, boot="c", sound=True)[0] == at(8)
    # A clock that went back is no time that has passed.
    backups = [read(1, 9, 5, sound=True), read(2, 8, 4, sound=True)]
    assert certain(backups, at(9), 1, boot="b", sound=True)[0] == at(9)


def test_the_reading_of_the_machine_that_took_the_newest_is_its_own() -> None:
    own, other = Reading("a", 7200.0, True), Reading("b", 7200.0, True)
    backups = [read(1, 1, 1), made(2, at(2))]
    assert of_any_machine(backups, own) == own
    assert of_any_machine(backups, other) == replace(other, uptime=0.0)
    assert of_any_machine(backups[1:], own) == replace(own, uptime=0.0)


# servers that were set up anew


def of_log(number: int, log: str, hours: float) -> Backup:
    return made(number, at(number), as_of=at(hours), log=(log, 1, 1) if log else ("", 0, 0))


def both(backups: list[Backup], start: float = 0) -> list[tuple[int, str]]:
    return [(b.createtxg, str(why).partition(" reaches")[0]) for b, why in turned_back(backups, at(start))]


def test_the_last_of_an_older_history_and_the_first_that_turned_back_are_kept() -> None:
    one, two, again = of_log(1, "a", 1), of_log(2, "a", 5), of_log(3, "b", 3)
    assert both([one, two, again]) == [(2, "zbackup-2"), (3, "zbackup-2")]
    assert str(turned_back([one, two, again], START)[0][1]) == (
        "zbackup-2 reaches further than zbackup-3, which is newer and has another log"
    )
    assert both([two, of_log(3, "a", 3)]) == [], "it is of the same log"
    assert both([two, of_log(3, "b", 5)]) == [], "it reaches as far"
    assert both([of_log(2, "", 5), of_log(3, "", 3)]) == [(2, "zbackup-2"), (3, "zbackup-2")]
    unfinished = replace(again, record=replace(again.record, as_of=None))
    assert both([one, two, unfinished]) == []


def test_it_is_compared_with_the_one_that_goes_back_farthest_of_another_log() -> None:
    # Of its own log none counts, however far that goes back.
    backups = [of_log(1, "a", 9), of_log(2, "b", 4), of_log(3, "a", 2), of_log(4, "b", 6)]
    why = {b.createtxg: str(said) for b, said in turned_back(backups, START)}
    assert why[1].startswith("zbackup-1 reaches further than zbackup-2")
    backups = [of_log(1, "a", 9), of_log(2, "b", 7), of_log(3, "c", 5), of_log(4, "b", 6)]
    assert both(backups)[1][0] == 3
    backups = [of_log(1, "b", 9), of_log(2, "b", 2), of_log(3, "b", 3), of_log(4, "c", 4)]
    assert both(backups) == [(1, "zbackup-1"), (4, "zbackup-1")]
    backups = [of_log(1, "c", 9), of_log(2, "b", 4), of_log(3, "b", 5), of_log(4, "a", 3)]
    assert both(backups)[1][0] == 4


def test_of_those_before_the_window_the_last_stays_alone() -> None:
    backups = [of_log(1, "a", 9), of_log(2, "a", 9), of_log(3, "a", 9), of_log(4, "b", 3)]
    assert [n for n, _ in both(backups, 2)] == [3, 4, 2, 4]
    assert [n for n, _ in both(backups, 1.5)] == [3, 4, 2, 4, 1, 4]
    assert [n for n, _ in both(backups, 9)] == [3, 4]
    twins = [replace(b, record=replace(b.record, taken=at(2))) for b in backups[1:3]]
    assert [n for n, _ in both([*twins, backups[3]], 2)] == [3, 4]
