"""Gaps in a server's log, across which nothing is recovered."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings

from tests.unit.examples import examples
from tests.unit.plan.deciding import BERLIN, plan
from tests.unit.plan.histories import (
    History,
    at_hour,
    blocked,
    histories_with_gaps_in_the_log,
    made,
    policies,
    reaches,
)
from zbackup.engines.mysql.server.assess import OF_LOG_ALONE
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import Transaction
from zbackup.model.record import OF_DATA_ALONE
from zbackup.model.retention import Retention
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import parse_transaction
from zbackup.plan.calendar import back
from zbackup.plan.recovery.before_transaction import plan_before, plan_unseen
from zbackup.plan.recovery.recovery import drill_target, farthest_log, plan_recovery
from zbackup.plan.recovery.window import recovery_window

UTC_ZONE = ZoneInfo("UTC")
NOW = at_hour(6)


def chain(*whole: bool) -> list[Backup]:
    """One log, a backup an hour."""
    taken = [made(n, at_hour(n), log=("log", 1, n)) for n in range(1, len(whole) + 1)]
    return [b if good else blocked(b) for b, good in zip(taken, whole, strict=True)]


def ranges(backups: list[Backup]) -> list[tuple[float, float]]:
    found = recovery_window(backups, None, NOW).ranges
    return [
        ((r.after - at_hour(0)) / timedelta(hours=1), (r.to - at_hour(0)) / timedelta(hours=1)) for r in found
    ]


@pytest.mark.parametrize("backups", [chain(True, False, True), chain(True, False, False)])
@pytest.mark.parametrize("hours", [1.5, 2, 2.5])
def test_no_moment_is_reached_through_a_log_that_lacks_something(backups: list[Backup], hours: float) -> None:
    with pytest.raises(NotRecoverable, match="when zbackup-2 was taken, the binlog leaves databases out"):
        plan_recovery(at_hour(hours), NOW, backups, UTC_ZONE)
    assert not any(after < hours <= to for after, to in ranges(backups))


def test_what_is_before_and_behind_it_is_reached() -> None:
    backups = chain(True, True, False, True, True)
    assert ranges(backups) == [(1, 2), (4, 5)]
    for hours in (1.5, 4.5):
        found = plan_recovery(at_hour(hours), NOW, backups, UTC_ZONE)
        assert found.log is not None and found.base is backups[int(hours) - 1]


def test_a_backup_whose_data_alone_is_not_whole_leaves_the_log_whole() -> None:
    backups = chain(True, True, True)
    backups[1] = blocked(backups[1], f"{OF_DATA_ALONE[0]}: ALTER INSTANCE ENABLE INNODB REDO_LOG")
    assert ranges(backups) == [(1, 3)]
    assert plan_recovery(at_hour(2.5), NOW, backups, UTC_ZONE).log is backups[2]
    assert not set(OF_LOG_ALONE) & set(OF_DATA_ALONE)


def test_no_transaction_behind_it_is_reached() -> None:
    backups = chain(True, False, True)
    begin, end = "binlog.000003:50", "binlog.000003:90"
    name = parse_transaction(begin)
    there = Transaction(start=begin, end=end, gtid=None, committed=at_hour(2.9))
    before = BeforeTransaction(name=name, transaction=there, logs=frozenset({"log"}))
    with pytest.raises(NotRecoverable, match="when zbackup-2 was taken"):
        plan_before(before, NOW, backups, UTC_ZONE)
    with pytest.raises(NotRecoverable, match="when zbackup-2 was taken"):
        plan_before(before, NOW, backups[:2], UTC_ZONE)
    with pytest.raises(NotRecoverable):
        plan_unseen(name, backups)


def test_what_is_wanted_up_to_the_logs_end_ends_before_it() -> None:
    backups = chain(True, True, False, True)
    assert farthest_log(backups[0], backups) is backups[1]
    assert drill_target(backups) == (at_hour(4), "zbackup-4")


def test_another_log_of_the_same_server_is_no_likely_one() -> None:
    """Its beginning is recorded as another for the gap before it, which may have been pruned since."""
    backups = [made(1, at_hour(1)), made(3, at_hour(3), log=("new", 1, 3))]
    assert plan_recovery(at_hour(2), NOW, backups, UTC_ZONE).log is None


@given(histories_with_gaps_in_the_log())
@settings(max_examples=examples(60))
def test_a_moment_is_in_a_range_exactly_if_a_whole_log_leads_there(history: History) -> None:
    found = recovery_window(history.backups, None, history.now)
    edges = [e for b in history.backups for e in (b.record.as_of, b.record.complete_to) if e]
    for moment in (e + timedelta(microseconds=d) for e in edges for d in (-1, 0, 1)):
        inside = any(r.after < moment <= r.to for r in found.ranges)
        assert inside == reaches(history.backups, moment), moment


@given(histories_with_gaps_in_the_log(), policies)
@settings(max_examples=examples(60))
def test_a_prune_keeps_every_moment_of_the_window(history: History, rules: Retention) -> None:
    stay = [k.backup for k in plan(history.backups, rules, history.now).keep]
    start = back(history.now, rules.window, BERLIN)
    edges = [e for b in history.backups for e in (b.record.as_of, b.record.complete_to) if e]
    for moment in (e + timedelta(microseconds=d) for e in (*edges, start) for d in (-1, 0, 1)):
        if start < moment <= history.now and reaches(history.backups, moment):
            assert reaches(stay, moment), moment
