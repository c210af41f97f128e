"""The recovery window where two times are the same, and in words."""

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from tests.unit.plan.histories import blocked, made
from tests.unit.plan.test_window import NOW, OTHER, STOP, WHOLE, at, ranges
from zbackup.model.backup import Backup
from zbackup.model.record import LOG_ENDED
from zbackup.model.unreplayable import Unreplayable
from zbackup.plan.recovery.window import LiveLog, Window, recovery_window

UTC_ZONE = ZoneInfo("UTC")
ON = LiveLog("log", "binlog.000001:4")


def stop_at(start: str, hours: float) -> Unreplayable:
    return replace(STOP, transaction=replace(STOP.transaction, start=start, committed=at(hours)))


def changed(backup: Backup, **changes: object) -> Backup:
    return replace(backup, record=replace(backup.record, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("holes", "said"),
    [
        (0, ""),
        (1, ", except after 2024-05-01 02:00:00 UTC up to 2024-05-01 02:30:00 UTC"),
        (
            3,
            ", except after 2024-05-01 02:00:00 UTC up to 2024-05-01 02:30:00 UTC and "
            "after 2024-05-01 03:00:00 UTC up to 2024-05-01 03:30:00 UTC and "
            "after 2024-05-01 04:00:00 UTC up to 2024-05-01 04:30:00 UTC",
        ),
        (4, ", except in 4 gaps"),
    ],
)
def test_a_window_is_told_with_a_few_of_its_gaps(holes: int, said: str) -> None:
    gaps = tuple((at(n), at(n + 0.5)) for n in range(2, 2 + holes))
    window = Window(start=at(1), end=at(9), holes=gaps)
    begun = "after 2024-05-01 01:00:00 UTC, up to "
    assert window.describe(UTC_ZONE) == f"{begun}2024-05-01 09:00:00 UTC{said}"
    assert replace(window, end=None).describe(UTC_ZONE) == f"{begun}now{said}"
    on = " and as far on as the server's own log leads"
    assert replace(window, unseen=True).describe(UTC_ZONE) == f"{begun}2024-05-01 09:00:00 UTC{on}{said}"


def test_a_gap_behind_the_last_moment_is_none_in_between() -> None:
    overall = recovery_window(WHOLE[:1], LiveLog("x", "b.1:4"), NOW).overall
    assert overall and (overall.start, overall.end, overall.gaps, overall.holes) == (at(1), at(1), 1, ())
    overall = recovery_window([*WHOLE[:2], OTHER], LiveLog("x", "b.1:4"), NOW).overall
    assert overall and (overall.gaps, overall.holes) == (2, ((at(2), at(3)),))


def test_what_begins_where_the_log_before_it_ends_leaves_no_gap() -> None:
    after = made(2, at(2), as_of=at(1), log=("new", 1, 1))
    found = recovery_window([WHOLE[0], after], None, NOW)
    assert (ranges(found), found.gaps) == ([(1, 2, False)], ())


def test_what_ends_this_very_moment_leaves_no_gap_and_is_not_live_for_that() -> None:
    ended = recovery_window([made(1, NOW)], LiveLog("x", "b.1:4"), NOW)
    assert (ranges(ended), ended.gaps) == ([(10, 10, False)], ())
    found = recovery_window([WHOLE[0], made(2, NOW, log=("new", 1, 1))], ON, NOW)
    assert ranges(found) == [(1, 10, True)]
    found = recovery_window([WHOLE[0]], replace(ON, stops=(stop_at("binlog.000009:4", 10),)), NOW)
    assert (ranges(found), found.gaps) == ([(1, 10, True)], ())


def test_a_log_that_ends_behind_now_by_a_wrong_clock_is_live_all_the_same() -> None:
    ahead = changed(made(1, at(1), log=("other", 1, 1)), complete_to=at(11))
    found = recovery_window([ahead, WHOLE[1]], ON, NOW)
    assert ranges(found) == [(1, 10, True)]
    shorter = made(2, at(2), log=("new", 1, 1))
    assert ranges(recovery_window([WHOLE[0], shorter, WHOLE[2]], None, NOW)) == [(1, 3, False)]


def test_a_live_log_that_begins_where_the_backups_end_continues_it() -> None:
    assert ranges(recovery_window(WHOLE, LiveLog("log", "binlog.000003:100"), NOW)) == [(1, 10, True)]
    assert ranges(recovery_window(WHOLE, LiveLog("log", "binlog.000003:101"), NOW)) == [(1, 3, False)]


def test_what_cannot_be_replayed_in_a_live_log_that_does_not_continue_stops_nothing() -> None:
    other = LiveLog("other", "binlog.000001:4", stops=(stop_at("binlog.000009:4", 1.5),))
    assert ranges(recovery_window(WHOLE, other, NOW)) == [(1, 3, False)]


def test_what_cannot_be_replayed_at_the_very_end_stops_nothing_before_it() -> None:
    second = changed(
        WHOLE[1], server=WHOLE[1].record.with_unreplayable([stop_at("binlog.000002:50", 2)]).server
    )
    backups = [changed(WHOLE[0], log_to="binlog.000001:100"), changed(second, purpose="log"), OTHER]
    found = recovery_window(backups, None, NOW)
    assert ranges(found) == [(1, 2, False), (3, 3, False)]
    assert [gap.cause for gap in found.gaps] == ["reset"]


def test_a_log_that_was_not_whole_later_is_no_reason_for_a_gap_before() -> None:
    off = blocked(made(3, at(3), log=("", 0, 0)), "the binlog is off: set log_bin")
    backups = [WHOLE[0], made(2, at(2), log=("new", 1, 1)), off]
    assert [gap.cause for gap in recovery_window(backups, None, NOW).gaps] == ["reset"]


def test_what_took_a_log_away_is_told_by_the_end_of_all_that_is_held_of_it() -> None:
    log = made(2, at(2), log=("log", 1, 5), purpose="log")
    third = made(3, at(3), log=("new", 7, 9))
    (gap,) = recovery_window([WHOLE[0], log, third], None, NOW).gaps
    assert (
        gap.why == "the log behind binlog.000005:100 was purged: zbackup-3 holds it from binlog.000007:4 on"
    )
    begins = changed(third, log_from="binlog.000005:100")
    (gap,) = recovery_window([WHOLE[0], log, begins], None, NOW).gaps
    assert gap.cause == "reset"
    (gap,) = recovery_window([made(1, at(1), log=("", 0, 0)), WHOLE[2]], None, NOW).gaps
    assert (gap.cause, gap.why) == ("unknown", "which log it holds was not recorded")


def test_a_backup_at_which_its_own_log_ended_says_so_itself() -> None:
    ended = changed(WHOLE[1], server={LOG_ENDED: "the binlog is off"})
    (gap,) = recovery_window([WHOLE[0], ended, made(3, at(3), log=("log", 1, 3))], None, NOW).gaps
    assert (gap.cause, gap.older) == ("not whole", "zbackup-2")


def test_a_holder_that_does_not_say_all_of_its_log_holds_none() -> None:
    for number, found in ((2, [(1, 2, False), (3, 3, False)]), (0, [(1, 1, False), (2, 3, False)])):
        backups = [*WHOLE]
        backups[number] = changed(WHOLE[number], log_from="")
        assert ranges(recovery_window(backups, None, NOW)) == found
