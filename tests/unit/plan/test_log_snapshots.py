"""Log-only snapshots of restores go when a newer backup replaces them, and take no moment with them."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings

from tests.unit.examples import examples
from tests.unit.plan.histories import (
    NOON,
    History,
    at_hour,
    blocked,
    condemned,
    histories_with_gaps_in_the_log,
    made,
    policies,
    reaches,
)
from tests.unit.samples import lacking_one
from zbackup.model.backup import Backup
from zbackup.model.record import LOG_ENDED, STOPPED, TIMES_OUT_OF_ORDER
from zbackup.model.retention import Reason, Retention, Span, Tier
from zbackup.plan.retention.log_snapshots import half_destroyed, replaced, without_replaced_logs
from zbackup.plan.retention.retention import KeptBackup, RetentionPlan, plan_retention

HOUR = timedelta(hours=1)
UTC = ZoneInfo("UTC")


def log_only(number: int, **changes: object) -> Backup:
    one = made(number, NOON + number * HOUR, log=("log", 1, number), purpose="log")
    return replace(one, record=replace(one.record, **changes))  # type: ignore[arg-type]


def base(number: int, first: int = 1) -> Backup:
    return made(number, NOON + number * HOUR, log=("log", first, number))


def names(found: list[Backup]) -> list[str]:
    return [b.name for b in found]


def test_those_that_a_newer_backup_replaces_go_and_the_newest_stays() -> None:
    logs = [log_only(n) for n in (2, 3, 4)]
    assert names(replaced([base(1), *logs])) == ["zbackup-2", "zbackup-3"]
    assert names(replaced([base(1), *logs, base(5)])) == ["zbackup-2", "zbackup-3", "zbackup-4"]


def test_one_that_holds_log_that_nothing_else_does_stays() -> None:
    assert replaced([base(1), log_only(2), base(3, first=3)]) == []
    assert replaced([log_only(2), base(3)]) == [], "nothing in front of it says what it is good for"


def test_one_that_is_needed_for_other_reasons_stays() -> None:
    assert replaced([base(1), log_only(2), base(3)], {"backup-2"}) == []
    for said in ({STOPPED: "switch to x"}, {TIMES_OUT_OF_ORDER: "a transaction is later than its snapshot"}):
        assert replaced([base(1), log_only(2, server=said), base(3)]) == []


def test_mongodbs_that_do_not_say_which_log_they_hold_go_with_their_servers() -> None:
    unknown = log_only(2, log_id="", log_from="", log_to="")
    assert names(replaced([base(1), unknown, base(3)])) == ["zbackup-2"]
    assert (
        replaced([base(1), replace(unknown, record=replace(unknown.record, server_uuid="x")), base(3)]) == []
    )


def test_the_policy_and_this_rule_do_not_rely_on_what_the_other_takes_away() -> None:
    """Either the second base or the log-only snapshot may go, since the other leads there too; not both."""
    first, second = base(1), made(7, at_hour(6), log=("log", 1, 7))
    log = made(8, at_hour(7.5), as_of=at_hour(6.9), log=("log", 1, 8), purpose="log")
    newest = made(9, at_hour(8), as_of=at_hour(6.9), log=("log", 7, 9))
    policy = Retention(
        tiers=(Tier(step=Span(1, "day"), span=None),), last=1, minimum=1, window=Span(7, "day")
    )
    plan = plan_retention([first, second, log, newest], policy, at_hour(9), UTC, {})
    assert second in plan.destroy, "else this proves nothing"
    assert names(replaced([first, second, log, newest])) == [log.name]
    assert log in [k.backup for k in without_replaced_logs(plan).keep]


@given(histories_with_gaps_in_the_log(), policies)
@settings(max_examples=examples(60))
def test_no_moment_that_a_policy_keeps_is_lost(history: History, policy: Retention) -> None:
    plan = plan_retention(history.backups, policy, history.now, UTC, {})
    kept = [k.backup for k in plan.keep]
    left = [k.backup for k in without_replaced_logs(plan).keep]
    edges = [e for b in history.backups for e in (b.record.as_of, b.record.complete_to) if e]
    for moment in (e + timedelta(microseconds=d) for e in edges for d in (-1, 0, 1)):
        assert reaches(left, moment) or not reaches(kept, moment), moment


@given(histories_with_gaps_in_the_log())
@settings(max_examples=examples(80))
def test_every_moment_that_was_in_reach_still_is(history: History) -> None:
    gone = replaced(history.backups)
    assert all(b.record.purpose == "log" for b in gone)
    left = [b for b in history.backups if b not in gone]
    edges = [e for b in history.backups for e in (b.record.as_of, b.record.complete_to) if e]
    for moment in (e + timedelta(microseconds=d) for e in edges for d in (-1, 0, 1)):
        assert reaches(left, moment) or not reaches(history.backups, moment), moment
    assert replaced(left) == [], "a second look finds nothing more"


def test_data_that_reaches_further_than_its_own_log_is_no_reason() -> None:
    """What was written between the end of its log and its snapshot is reached from the base before it."""
    first, third = base(1), base(3)
    late = replace(third, record=replace(third.record, complete_to=third.record.taken - HOUR / 60))
    log, newer = log_only(4), base(5, first=2)
    assert names(replaced([first, base(3), log, newer])) == [log.name]
    assert replaced([first, late, log, newer]) == [], "the newer backup does not continue the first base"


def test_those_that_a_killed_run_left_in_part_are_finished() -> None:
    whole, foreign = log_only(2), condemned(base(4))
    half = condemned(log_only(3))
    assert names(half_destroyed([base(1), whole, half, foreign, lacking_one(whole)])) == [half.name]


def test_what_stands_between_decides_only_where_its_log_is_known() -> None:
    unknown = made(2, at_hour(2), log=("", 0, 0))
    other = made(2, at_hour(2), log=("other", 1, 2))
    log, newer = log_only(3), base(4)
    assert names(replaced([base(1), unknown, log, newer])) == [log.name]
    assert replaced([base(1), other, log, newer]) == [], "a server was set up anew in between"
    # The last in front reaches further than its own log, and the one before is of another log.
    late = replace(base(2), record=replace(base(2).record, complete_to=at_hour(1.9)))
    first, again = made(1, at_hour(1), log=("other", 1, 1)), made(4, at_hour(4), log=("other", 1, 4))
    assert replaced([first, late, log, again]) == []
    apart = replace(late, record=replace(late.record, log_id="other"))
    assert replaced([base(1), apart, log, newer]) == [], "whichever base it is brought on from"


def test_nothing_that_is_not_whole_or_not_its_own_goes_or_takes_the_place_of_another() -> None:
    log, newer = log_only(2), base(3)
    elsewhere = replace(log, snapshots=tuple(replace(s, dataset="other") for s in log.snapshots))
    unfinished = replace(log, record=replace(log.record, as_of=None))
    for odd in (elsewhere, unfinished, lacking_one(log), log_only(2, server={LOG_ENDED: "it is off"})):
        assert replaced([base(1), odd, newer]) == []
    assert replaced([base(1), log, lacking_one(newer)]) == []
    assert replaced([base(1), log, replace(newer, record=replace(newer.record, as_of=None))]) == []
    short = replace(newer, record=replace(newer.record, complete_to=at_hour(1.5)))
    assert replaced([base(1), log, short]) == [], "it does not reach as far"
    assert replaced([base(1), log, blocked(newer)]) == []
    assert replaced([log, newer]) == []


def test_what_is_replaced_goes_from_what_is_kept_to_what_is_destroyed() -> None:
    plan = RetentionPlan(
        tuple(KeptBackup(b, (Reason("why"),)) for b in (base(1), log_only(2), base(3))), (base(4),)
    )
    found = without_replaced_logs(plan)
    assert names([k.backup for k in found.keep]) == ["zbackup-1", "zbackup-3"]
    assert names(list(found.destroy)) == ["zbackup-2", "zbackup-4"]
    assert without_replaced_logs(plan, {"backup-2"}) == plan


def test_only_marked_remains_of_its_own_are_finished() -> None:
    half = condemned(log_only(3))
    elsewhere = replace(half, snapshots=tuple(replace(s, dataset="other") for s in half.snapshots))
    whole = log_only(4)
    marks = replace(whole.snapshots[0], properties=half.snapshots[0].properties)
    marked = replace(whole, snapshots=(marks, *whole.snapshots[1:]))
    assert half_destroyed([elsewhere, marked, lacking_one(whole)]) == []
    assert half_destroyed([half]) == [half]
