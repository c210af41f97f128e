"""The base and the log that lead to a moment: what holds for every set of backups, and the messages."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.samples import at, backup, lacking_one
from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable
from zbackup.model.log import ClusterTime
from zbackup.plan.recovery.coverage import continues
from zbackup.plan.recovery.recovery import (
    RecoveryPlan,
    drill_target,
    farthest_log,
    plan_recovery,
    plan_whole_log,
)
from zbackup.plan.recovery.window import Window, recovery_window, usable_bases

BERLIN = ZoneInfo("Europe/Berlin")
NOW = at(1000)


kinds = st.sampled_from(["good", "good", "good", "unfinished", "incomplete", "log"])
seconds = st.integers(0, 30)


@st.composite
def histories(draw: st.DrawFn) -> list[Backup]:
    """Backups as they come to be: each reaches at least as far as the one before; some are spoilt."""
    made, reached = [], 0.0
    for number in range(1, draw(st.integers(0, 7)) + 1):
        as_of = reached + draw(seconds)
        reached = as_of + draw(seconds)
        kind = draw(kinds)
        ends = (None, None) if kind == "unfinished" else (as_of, reached)
        one = backup(number, *ends, purpose="log" if kind == "log" else "base")
        made.append(lacking_one(one) if kind == "incomplete" else one)
    return made


def window(backups: list[Backup]) -> Window | None:
    return recovery_window(backups, None, NOW).overall


def plan(target: float, backups: list[Backup]) -> RecoveryPlan:
    return plan_recovery(at(target), NOW, backups, BERLIN)


def spoilt(one: Backup) -> bool:
    return not one.complete or not one.finished or one.record.purpose == "log"


@given(histories(), st.integers(-10, 400), st.randoms())
@settings(max_examples=examples(200))
def test_every_plan_keeps_the_rules(backups: list[Backup], target: int, random: object) -> None:
    possible = [b for b in backups if not spoilt(b) and b.record.as_of and b.record.as_of < at(target)]
    random.shuffle(backups)  # type: ignore[attr-defined]
    try:
        found = plan(target, backups)
    except NotRecoverable as failure:
        # The live log is not read behind a backup that lost a part: the data may have been rolled back.
        assert not possible or "has lost its snapshot of" in str(failure)
        return
    base, log = found.base, found.log
    assert base in possible
    assert base.record.as_of and base.record.as_of < at(target)
    assert not any(b.record.as_of > base.record.as_of for b in possible if b.record.as_of)
    if log is None:
        assert not any(
            b.complete and b.createtxg >= base.createtxg and b.reaches(at(target)) for b in backups
        )
    else:
        assert log.complete and log.finished and log.reaches(at(target))
        assert log.createtxg >= base.createtxg


@given(histories(), st.integers(0, 400))
def test_the_window_says_what_can_be_reached(backups: list[Backup], target: int) -> None:
    reachable = window(backups)
    inside = reachable is not None and reachable.start < at(target)
    try:
        plan(target, backups)
    except NotRecoverable as refusal:
        assert not inside or "has lost its snapshot of" in str(refusal)
        assert (reachable.describe(BERLIN) if reachable else "run zbackup snapshot first") in str(refusal)
    else:
        assert inside


@given(histories())
def test_only_sound_backups_are_bases(backups: list[Backup]) -> None:
    assert usable_bases(backups) == [b for b in backups if not spoilt(b)]


def test_the_newest_base_before_the_target_is_taken() -> None:
    found = plan(35, [backup(1, 10, 11), backup(2, 20, 21), backup(3, 30, 31), backup(4, 40, 41)])
    assert (found.base.name, found.log and found.log.name) == ("zbackup-3", "zbackup-4")
    assert "zbackup-3" in found.reason and "zbackup-4" in found.reason


def test_another_base_may_be_asked_for() -> None:
    backups = [backup(1, 10, 11), backup(2, 20, 21), backup(3, 30, 41)]
    found = plan_recovery(at(25), NOW, backups, BERLIN, base="zbackup-1")
    assert (found.base.name, found.log and found.log.name) == ("zbackup-1", "zbackup-3")
    assert found.reason.startswith("zbackup-1 was asked for")
    with pytest.raises(NotRecoverable, match="zbackup-3 is not that old"):
        plan_recovery(at(25), NOW, backups, BERLIN, base="zbackup-3")
    with pytest.raises(NotFound, match="no finished backup zbackup-9"):
        plan_recovery(at(25), NOW, backups, BERLIN, base="zbackup-9")


def test_a_transaction_at_the_target_itself_is_too_new_for_a_base() -> None:
    found = plan(30, [backup(1, 10, 11), backup(2, 30, 31)])
    assert found.base.name == "zbackup-1"


def test_one_microsecond_later_it_is_old_enough() -> None:
    found = plan_recovery(
        at(30) + timedelta(microseconds=1), NOW, [backup(1, 10, 11), backup(2, 30, 31)], BERLIN
    )
    assert found.base.name == "zbackup-2"


def test_a_base_that_reaches_into_the_second_where_a_coarse_log_is_cut_is_too_new() -> None:
    half = at(30) + timedelta(milliseconds=500)
    found = plan_recovery(half, NOW, [backup(1, 10, 11), backup(2, 30, 31)], BERLIN, effective=at(30))
    assert found.base.name == "zbackup-1"
    with pytest.raises(NotRecoverable, match="whole seconds only"):
        plan_recovery(half, NOW, [backup(2, 30, 31)], BERLIN, effective=at(30))


def test_a_base_that_was_seen_to_end_before_a_cluster_time_of_its_second_is_old_enough() -> None:
    second = int(at(30).timestamp())
    seen = {"oplog_after": f"{second},29@1"}
    found = backup(2, 30.4, 30.4, server=seen)

    def base(increment: int, *backups: Backup) -> str:
        time = ClusterTime(second, increment)
        return plan_recovery(at(31), NOW, backups, BERLIN, effective=at(30), cluster_time=time).base.name

    assert base(30, found) == "zbackup-2"
    assert base(30, backup(1, 10, 11), found) == "zbackup-1", "surely old enough"
    for increment, other in ((29, found), (30, backup(2, 30.4, 30.4)), (30, replace_seen(found, "9" * 5000))):
        with pytest.raises(NotRecoverable, match="no backup is that old"):
            base(increment, other)


def replace_seen(found: Backup, end: str) -> Backup:
    return replace(found, record=replace(found.record, server={"oplog_after": end}))


def test_of_two_that_reach_equally_far_the_later_one_is_taken() -> None:
    assert plan(30, [backup(1, 10, 11), backup(2, 10, 21)]).base.name == "zbackup-2"
    assert plan(30, [backup(1, 20, 21), backup(2, 10, 21)]).base.name == "zbackup-1", (
        "by a clock that went back"
    )


def test_a_base_that_reaches_the_target_needs_no_other_log() -> None:
    found = plan(25, [backup(1, 10, 30), backup(2, 40, 41)])
    assert found.base is found.log
    assert "nothing to replay" in found.reason


def test_without_a_later_backup_the_log_is_still_to_be_taken() -> None:
    found = plan(35, [backup(1, 10, 11)])
    assert found.log is None
    assert "no later one" in found.reason


def test_a_log_only_snapshot_serves_as_log_and_never_as_base() -> None:
    found = plan(35, [backup(1, 10, 11), backup(2, 30, 40, purpose="log")])
    assert (found.base.name, found.log and found.log.name) == ("zbackup-1", "zbackup-2")


def test_an_older_backup_is_no_log_for_a_newer_base() -> None:
    """Possible after the clock went back: what was taken before the base cannot hold what came after it."""
    found = plan(35, [backup(1, 10, 50, purpose="log"), backup(2, 30, 31)])
    assert (found.base.name, found.log) == ("zbackup-2", None)


def test_the_future_is_refused_with_the_window_in_the_configured_zone() -> None:
    with pytest.raises(
        NotRecoverable,
        match=r"future.*after 2024-05-01 14:00:10.*up to 2024-05-01 14:00:11 CEST and as far on",
    ):
        plan(1001, [backup(1, 10, 11)])


def test_a_clock_that_was_read_in_utc_is_told_what_to_write() -> None:
    """10 seconds after two o'clock in Berlin is noon in UTC, two hours before the first backup."""
    taken = [backup(1, 7200, 7300)]
    with pytest.raises(NotRecoverable, match=r'in UTC is inside it: --to "2024-05-01 14:01:00 UTC"$'):
        plan_recovery(at(60), at(9000), taken, BERLIN)
    # Behind the last backup, too: the server's own log leads there.
    with pytest.raises(NotRecoverable, match=r'in UTC is inside it: --to "2024-05-01 14:20:00 UTC"$'):
        plan_recovery(at(1200), at(9000), taken, BERLIN)
    for beyond in (-3600, 1801):
        with pytest.raises(NotRecoverable) as refusal:
            plan_recovery(at(beyond), at(9000), taken, BERLIN)
        assert "UTC is" not in str(refusal.value)


def test_this_very_moment_is_not_the_future() -> None:
    assert plan(1000, [backup(1, 10, 11)]).base.name == "zbackup-1"


def test_before_the_first_backup_is_refused_with_the_window() -> None:
    with pytest.raises(
        NotRecoverable,
        match=r"no backup is that old.*after 2024-05-01 14:00:10.*14:00:11 CEST and as far on",
    ):
        plan(10, [backup(1, 10, 11)])


@pytest.mark.parametrize(
    "unusable",
    [backup(1, None, None), lacking_one(backup(1, 10, 11)), backup(1, 10, 11, purpose="log")],
    ids=["unfinished", "incomplete", "log only"],
)
def test_with_nothing_to_start_from_it_says_what_to_do(unusable: Backup) -> None:
    assert window([unusable]) is None
    for target in (35, 2000):
        with pytest.raises(NotRecoverable, match="run zbackup snapshot first"):
            plan(target, [unusable])


@given(histories())
@settings(max_examples=examples(200))
def test_a_drill_can_be_planned_whenever_there_is_a_base(backups: list[Backup]) -> None:
    try:
        moment, name = drill_target(backups)
    except NotRecoverable:
        assert not usable_bases(backups)
        return
    found = plan_whole_log(backups, base=name).base
    log = farthest_log(found, backups) or found
    assert found.name == name and moment == log.record.as_of
    newest = max(usable_bases(backups), key=lambda b: b.createtxg)
    assert newest is found or continues(log, newest) or log is newest


def test_a_drill_goes_from_one_backup_to_the_next() -> None:
    first, second, third = (
        backup(n, n * 10, n * 10 + 5, log_id="a", log_from="binlog.000001:4", log_to=f"binlog.000001:{n}00")
        for n in (1, 2, 3)
    )
    assert drill_target([first]) == (at(10), "zbackup-1")
    assert drill_target([first, second, third]) == (at(30), "zbackup-2")
    unlocked = backup(3, 30, 28, log_id="a", log_from="binlog.000001:4", log_to="binlog.000001:300")
    assert drill_target([first, second, unlocked]) == (at(30), "zbackup-2")
    other_log = backup(4, 40, 45, log_id="b", log_from="binlog.000001:4", log_to="binlog.000001:900")
    assert drill_target([first, second, third, other_log]) == (at(40), "zbackup-4")
    with pytest.raises(NotRecoverable, match="run zbackup snapshot first"):
        drill_target([])


def test_of_log_sources_that_may_do_those_of_the_same_server_come_first() -> None:
    """After a switch and the way back there are newer ones of the server of the time in between."""
    other = backup(2, 20, 30, server_uuid="another")
    backups = [backup(1, 1, 2), other, backup(3, 20, 40), backup(4, 50, 60)]
    found = plan_recovery(at(15), NOW, backups, BERLIN, base="zbackup-1")
    assert found.log is backups[2] and found.others == (backups[3], other)
