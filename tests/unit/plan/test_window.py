"""Moments that can be restored, and what each gap is called."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings

from tests.unit.examples import examples
from tests.unit.plan.histories import History, blocked, histories, made, reaches, sound_histories
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import Transaction
from zbackup.model.record import LOG_ENDED, STOPPED
from zbackup.model.silence import Silence
from zbackup.model.unreplayable import Unreplayable
from zbackup.plan.recovery.recovery import plan_recovery
from zbackup.plan.recovery.window import LiveLog, RecoveryWindow, recovery_window
from zbackup.plan.retention.retention import keep_for_window

MAY = datetime(2024, 5, 1, tzinfo=UTC)
NOW = MAY + timedelta(hours=10)


def at(hours: float) -> datetime:
    return MAY + timedelta(hours=hours)


def ranges(found: RecoveryWindow) -> list[tuple[float, float, bool]]:
    return [
        ((r.after - MAY) / timedelta(hours=1), (r.to - MAY) / timedelta(hours=1), r.live)
        for r in found.ranges
    ]


WHOLE = [made(n, at(n), log=("log", 1, n)) for n in (1, 2, 3)]


@given(histories())
@settings(max_examples=examples(60))
def test_a_moment_is_in_a_range_exactly_if_snapshots_lead_there(history: History) -> None:
    found = recovery_window(history.backups, None, history.now)
    edges = [e for b in history.backups for e in (b.record.as_of, b.record.complete_to) if e]
    for moment in (e + timedelta(microseconds=d) for e in edges for d in (-1, 0, 1)):
        inside = any(r.after < moment <= r.to for r in found.ranges)
        assert inside == reaches(history.backups, moment), moment


@given(sound_histories())
@settings(max_examples=examples(60))
def test_a_recovery_to_a_moment_in_a_range_has_a_base_and_a_log_that_continues_it(history: History) -> None:
    found = recovery_window(history.backups, None, history.now)
    for each in found.ranges:
        for moment in (each.after + timedelta(microseconds=1), each.to):
            if each.after < moment <= min(each.to, history.now):
                plan = plan_recovery(moment, history.now, history.backups, ZoneInfo("UTC"))
                assert plan.log is not None
                assert reaches([plan.base, plan.log], moment)


@given(histories())
@settings(max_examples=examples(50))
def test_ranges_and_gaps_alternate(history: History) -> None:
    found = recovery_window(history.backups, LiveLog("", "binlog.999999:4"), history.now)
    marks = sorted([*((r.after, r.to) for r in found.ranges), *((g.after, g.to) for g in found.gaps)])
    assert all(one[1] == other[0] for one, other in pairwise(marks))
    assert all(g.older and g.why for g in found.gaps)


def test_an_unbroken_log_and_the_live_one_are_one_range_up_to_now() -> None:
    found = recovery_window(WHOLE, LiveLog("log", "binlog.000002:4"), NOW)
    assert (ranges(found), found.gaps) == ([(1, 10, True)], ())
    assert found.overall is not None and found.overall.end is None


def test_without_a_look_at_the_live_log_it_ends_at_the_last_snapshot() -> None:
    found = recovery_window(WHOLE, None, NOW)
    assert ranges(found) == [(1, 3, False)]
    said = found.overall.describe(ZoneInfo("UTC")) if found.overall else ""
    assert said.startswith("after 2024-05-01 01:00:00 UTC, up to 2024-05-01 03:00:00 UTC and as far on as")


OTHER = made(3, at(3), log=("new", 1, 1))


@pytest.mark.parametrize(
    ("third", "cause", "says"),
    [
        (made(3, at(3), log=("new", 7, 9)), "purged", "behind binlog.000002:100 was purged"),
        (made(3, at(3), log=("log", 7, 9)), "purged", "zbackup-3 holds it from binlog.000007:4 on"),
        (OTHER, "reset", "zbackup-3 holds another one"),
        (replace(OTHER, record=replace(OTHER.record, server_uuid="x")), "other server", "x, not 3e11fa47"),
        (made(3, at(3), log=("", 0, 0)), "unknown", "which log zbackup-3 holds was not recorded"),
    ],
)
def test_a_gap_has_two_ends_and_a_cause(third: Backup, cause: str, says: str) -> None:
    found = recovery_window([*WHOLE[:2], third], None, NOW)
    (gap,) = found.gaps
    assert (gap.after, gap.to, gap.older, gap.newer) == (at(2), at(3), "zbackup-2", "zbackup-3")
    assert gap.cause == cause and says in gap.why, gap


def test_a_gap_behind_what_a_switch_stopped_is_the_switchs() -> None:
    end = made(2, at(2), log=("log", 1, 2), purpose="log")
    stopped = replace(end, record=replace(end.record, server={STOPPED: "switch to good"}))
    found = recovery_window([WHOLE[0], stopped, OTHER], None, NOW)
    (gap,) = found.gaps
    assert (gap.after, gap.to, gap.cause) == (at(2), at(3), "switch")
    assert gap.why == "the server was stopped for the switch to good, and zbackup-3 is the first backup since"


def test_a_gap_before_what_a_switch_stopped_is_not_the_switchs() -> None:
    """The log between was purged before."""
    end = made(2, at(2), log=("log", 7, 9), purpose="log")
    stopped = replace(end, record=replace(end.record, server={STOPPED: "switch to good"}))
    found = recovery_window([WHOLE[0], stopped, OTHER], None, NOW)
    assert [(gap.after, gap.to, gap.cause) for gap in found.gaps] == [(at(1), at(3), "reset")]


@pytest.mark.parametrize(
    ("live", "cause"),
    [
        (LiveLog("", "b.000009:4"), "purged"),
        (LiveLog("", ""), "reset"),
        (LiveLog("x", "b.1:4"), "reset"),
    ],
)
def test_a_live_log_that_does_not_continue_is_a_gap_up_to_now(live: LiveLog, cause: str) -> None:
    found = recovery_window(WHOLE, live, NOW)
    (gap,) = found.gaps
    assert (gap.after, gap.to, gap.newer, gap.cause) == (at(3), NOW, "", cause)


def test_a_live_log_that_cannot_be_read_promises_nothing() -> None:
    whole = recovery_window(WHOLE, LiveLog("log", "binlog.000001:4"), NOW)
    assert whole.gaps == () and whole.ranges[-1].live
    found = recovery_window(WHOLE, LiveLog("log", "binlog.000001:4", "binlog.000001 ends at 7 of 9"), NOW)
    assert ranges(found) == [(1, 3, False)]
    (gap,) = found.gaps
    assert (gap.after, gap.to, gap.newer, gap.cause) == (at(3), NOW, "", "damaged")
    assert gap.why == "the server's log is damaged: binlog.000001 ends at 7 of 9"
    # Another log than that of the backups is a gap for another reason.
    (other,) = recovery_window(WHOLE, LiveLog("", "", "x"), NOW).gaps
    assert other.cause == "reset"


def test_the_end_of_a_log_is_no_break_in_front_of_it() -> None:
    """What the server wrote before it stopped to log is in reach, and nothing behind it."""
    ended = made(4, at(4), log=("log", 1, 4))
    ended = replace(
        ended, record=replace(ended.record, purpose="log", server={LOG_ENDED: "the binlog is off"})
    )
    live = LiveLog("log", "binlog.000001:4")
    found = recovery_window([*WHOLE, ended], live, NOW)
    assert ranges(found) == [(1, 4, False)]
    (gap,) = found.gaps
    assert (gap.cause, gap.why) == ("not whole", "when zbackup-4 was taken, the binlog is off")
    behind = made(5, at(5), log=("log", 1, 5))
    assert ranges(recovery_window([*WHOLE, ended, behind], live, NOW)) == [(1, 4, False), (5, 10, True)]


def test_nothing_leads_across_a_backup_without_a_log() -> None:
    off = blocked(made(4, at(4), log=("", 0, 0)), "the binlog is off: set log_bin")
    live = LiveLog("log", "binlog.000001:4")
    found = recovery_window([*WHOLE, off], live, NOW)
    assert ranges(found) == [(1, 3, False)]
    (gap,) = found.gaps
    assert (gap.after, gap.to, gap.cause) == (at(3), NOW, "not whole")
    assert gap.why == "when zbackup-4 was taken, the binlog is off: set log_bin"
    # What is of the same files again is another log.
    again = recovery_window([*WHOLE, off, made(5, at(5), log=("log", 1, 5))], live, NOW)
    assert ranges(again) == [(1, 3, False), (5, 10, True)]
    assert [gap.cause for gap in again.gaps] == ["not whole"]


def test_a_live_log_may_continue_an_older_base_through_a_snapshot_that_is_for_its_log_only() -> None:
    backups = [made(1, at(1), log=("log", 1, 1)), made(2, at(2), log=("log", 1, 5), purpose="log")]
    assert ranges(recovery_window(backups, LiveLog("log", "binlog.000001:4"), NOW)) == [(1, 10, True)]
    lost = recovery_window(backups, LiveLog("log", "binlog.000003:4"), NOW)
    assert ranges(lost) == [(1, 2, False)]
    (gap,) = lost.gaps
    assert gap.cause == "purged"
    assert gap.why == "the log behind binlog.000001:100 was purged: the server has it from binlog.000003:4 on"


def uncertain(number: int, log: tuple[str, int, int]) -> Backup:
    """One whose data is of a moment a little behind the end of its log, as an oplog's may be."""
    backup = made(number, at(number), log=log)
    return replace(backup, record=replace(backup.record, as_of=at(number + 0.1)))


def test_a_base_behind_its_own_logs_end_begins_no_gap_of_its_own() -> None:
    backups = [WHOLE[0], uncertain(2, ("log", 1, 2)), made(4, at(4), log=("log", 7, 9))]
    found = recovery_window(backups, None, NOW)
    assert ranges(found) == [(1, 2, False), (4, 4, False)]
    (gap,) = found.gaps
    assert (gap.after, gap.to, gap.newer, gap.cause) == (at(2), at(4), "zbackup-4", "purged")


def test_what_no_snapshot_holds_of_one_log_was_purged() -> None:
    backups = [WHOLE[0], uncertain(2, ("log", 1, 2)), made(4, at(4), log=("log", 2, 9))]
    found = recovery_window(backups, None, NOW)
    assert ranges(found) == [(1, 2, False), (2.1, 4, False)]
    assert [gap.cause for gap in found.gaps] == ["purged"]
    assert found.gaps[0].why == "the log behind binlog.000001:100 was purged where no snapshot holds it"


def test_what_a_promise_lacks() -> None:
    gappy = recovery_window([*WHOLE[:2], made(3, at(3), log=("new", 7, 9))], LiveLog("new", "b.7:4"), NOW)
    assert gappy.lacking(at(1.5), NOW) == ((at(2), at(3)),)
    assert gappy.lacking(at(0), NOW) == ((at(0), at(1)), (at(2), at(3)))
    assert gappy.lacking(at(4), NOW) == ()
    assert recovery_window([], None, NOW).lacking(at(0), NOW) == ((at(0), NOW),)
    assert recovery_window(WHOLE, None, NOW).lacking(at(1), NOW) == ()
    assert recovery_window(WHOLE, LiveLog("", "binlog.000009:4"), NOW).lacking(at(1), NOW) == ((at(3), NOW),)


STOP = Unreplayable(
    Transaction(start="binlog.000002:700", end="binlog.000002:900", committed=at(2.5), gtid="0-1-9"),
    "IMPORT TABLESPACE needs a file that is not in the log",
)


def stopping(backup: Backup) -> Backup:
    """The same backup, which found that its log has such a transaction behind the one before."""
    return replace(backup, record=backup.record.with_unreplayable([STOP]))


def test_what_cannot_be_replayed_is_a_gap_up_to_the_next_base() -> None:
    """Two bases, the transaction in what the third found to be new in its log."""
    found = recovery_window([*WHOLE[:2], stopping(WHOLE[2])], LiveLog("log", "binlog.000002:4"), NOW)
    assert ranges(found) == [(1, 2.5, False), (3, 10, True)]
    [gap] = found.gaps
    assert (gap.after, gap.to, gap.cause) == (at(2.5), at(3), "no replay")
    assert "0-1-9 cannot be replayed: IMPORT TABLESPACE" in gap.why


def test_the_base_behind_what_cannot_be_replayed_is_kept_for_the_window() -> None:
    """Without it the first would seem to lead on to the end of the last one's log."""
    stop = replace(STOP, transaction=replace(STOP.transaction, start="binlog.000002:50", committed=at(1.5)))
    second = replace(WHOLE[1], record=WHOLE[1].record.with_unreplayable([stop]))
    chain = [WHOLE[0], second, *(made(n, at(n), log=("log", 1, n)) for n in (3, 4, 5))]
    kept = keep_for_window(chain, chain, at(1), lambda _: False, ("promised", str))
    assert second.record.backup in {b.record.backup for b, _ in kept}


def test_a_base_behind_it_stays_where_no_base_says_it() -> None:
    """A snapshot for its log says it, from which nothing can be restored."""
    stop = replace(STOP, transaction=replace(STOP.transaction, start="binlog.000002:50", committed=at(1.5)))
    log = made(2, at(2), log=("log", 1, 2), purpose="log")
    log = replace(log, record=log.record.with_unreplayable([stop]))
    bases = [made(n, at(n), log=("log", 1, n)) for n in (1, 3, 4)]
    kept = keep_for_window(bases, [bases[0], log, *bases[1:]], at(1), lambda _: False, ("promised", str))
    assert {"backup-1", "backup-2", "backup-3"} <= {b.record.backup for b, _ in kept}


def test_what_cannot_be_replayed_is_in_its_own_log_and_in_no_older_one() -> None:
    """Of a clock that went back it says an older time than what the log before it reaches."""
    first, second = made(1, at(1), log=("log", 1, 1)), made(2, at(3), log=("log", 1, 2))
    stop = replace(STOP, transaction=replace(STOP.transaction, start="binlog.000003:50", committed=at(2)))
    third = made(3, at(3.1), log=("log", 2, 3))
    third = replace(third, record=third.record.with_unreplayable([stop]))
    chain = [first, second, third, made(4, at(4), log=("log", 2, 4))]
    kept = keep_for_window(chain, chain, at(1), lambda _: False, ("promised", str))
    assert second.record.backup in {b.record.backup for b, _ in kept}


def test_what_cannot_be_replayed_in_the_live_log_is_a_gap_up_to_now() -> None:
    stop = replace(STOP, transaction=replace(STOP.transaction, start="binlog.000009:4", committed=at(4)))
    found = recovery_window(WHOLE, LiveLog("log", "binlog.000002:4", stops=(stop,)), NOW)
    assert ranges(found) == [(1, 4, False)]
    [gap] = found.gaps
    assert (gap.after, gap.to, gap.cause, gap.newer) == (at(4), NOW, "no replay", "")
    assert "zbackup snapshot" in gap.why


def test_replay_stops_are_read_back_and_what_makes_no_sense_is_none() -> None:
    record = stopping(WHOLE[2]).record
    assert record.unreplayable == (STOP,)
    assert replace(record, server={"replay_stops": "a\tb\nnonsense\t"}).unreplayable == ()
    assert WHOLE[0].record.unreplayable == ()


def quiet(behind: Backup, after: float, to: float) -> Silence:
    return Silence(behind.record.log_to, at(after), at(to))


def test_of_what_a_log_does_not_show_nothing_is_promised_nor_restored() -> None:
    first, second, third = WHOLE
    said = quiet(first, 1, 1.5)
    noted = replace(second, record=second.record.with_silences([said]))
    found = recovery_window([first, noted, third], None, NOW)
    assert ranges(found) == [(1, 1, False), (1.5, 3, False)]
    (gap,) = found.gaps
    assert (gap.after, gap.to, gap.cause, gap.why) == (at(1), at(1.5), "silent", said.told)
    for moment, shown in ((1.4, False), (1.5, False), (1.6, True)):
        with nullcontext() if shown else pytest.raises(NotRecoverable, match="--to-backup zbackup-1"):
            plan_recovery(at(moment), NOW, [first, noted, third], ZoneInfo("UTC"))
    of_another = replace(noted, record=replace(noted.record, log_id="new"))
    assert [gap.cause for gap in recovery_window([first, of_another], None, NOW).gaps] == ["reset"]


def test_a_silence_is_in_nothing_that_was_taken_behind_it() -> None:
    _, second, third = WHOLE
    older = Silence("binlog.000001:100", at(0.5), at(2.5))
    noted = replace(third, record=third.record.with_silences([older]))
    assert ranges(recovery_window([second, noted], None, NOW)) == [(2, 3, False)]


def test_behind_the_newest_backup_the_servers_own_log_is_silent() -> None:
    live = LiveLog("log", "binlog.000001:4", silent=quiet(WHOLE[-1], 3, 4))
    found = recovery_window(WHOLE, live, NOW)
    assert ranges(found) == [(1, 3, False), (4, 10, True)]
    assert [(gap.after, gap.to, gap.cause) for gap in found.gaps] == [(at(3), at(4), "silent")]
    up_to_now = replace(live, silent=quiet(WHOLE[-1], 3, 11))
    assert [(gap.to, gap.cause) for gap in recovery_window(WHOLE, up_to_now, NOW).gaps] == [(NOW, "silent")]
