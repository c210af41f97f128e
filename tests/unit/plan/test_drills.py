"""The backup that a drill restores, and to which moment."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan.histories import History, at_hour, made, sound_histories
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import position_of
from zbackup.plan.health.drill_health import NO_DRILL, DrillFacts, described_drill, of_drills
from zbackup.plan.recovery.coverage import continues
from zbackup.plan.recovery.drills import plan_drill, plan_whole_drill
from zbackup.plan.recovery.window import usable_bases


def whole_seconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def test_halfway_between_a_backup_and_the_next_that_holds_more_of_the_log() -> None:
    found = plan_drill([made(n, at_hour(n)) for n in (1, 2, 3)], (), whole_seconds)
    assert (found.base.name, found.moment, found.whole) == ("zbackup-2", at_hour(2.5), False)


def test_the_newest_that_has_not_passed_yet_and_then_the_newest_again() -> None:
    backups = [made(n, at_hour(n)) for n in (1, 2, 3)]
    assert plan_drill(backups, {"backup-2"}, whole_seconds).base.name == "zbackup-1"
    assert plan_drill(backups, {"backup-1"}, whole_seconds).base.name == "zbackup-2"
    again = plan_drill(backups, {"backup-1", "backup-2"}, whole_seconds)
    assert (again.base.name, again.whole) == ("zbackup-2", False)


def test_one_backup_alone_is_opened() -> None:
    found = plan_drill([made(1, at_hour(1))], (), whole_seconds)
    assert (found.base.name, found.moment, found.whole) == ("zbackup-1", at_hour(1), True)
    with pytest.raises(NotRecoverable, match="run zbackup snapshot first"):
        plan_drill([], (), whole_seconds)


def test_where_the_clock_is_too_coarse_or_wrong_all_of_the_log_is_replayed() -> None:
    backups = [made(1, at_hour(1)), made(2, at_hour(1) + timedelta(seconds=1))]
    assert plan_drill(backups, (), whole_seconds) == plan_whole_drill(backups)
    backups = [made(1, at_hour(1)), made(2, at_hour(2))]
    assert not plan_drill(backups, (), whole_seconds).whole
    assert plan_drill(backups, (), whole_seconds, lambda b: b.name == "zbackup-2").whole


def test_no_log_leads_across_a_backup_of_a_server_that_kept_none() -> None:
    first, second, third = (made(n, at_hour(n)) for n in (1, 2, 3))
    broken = replace(second.record, server={"blockers": "log_bin is off"})
    backups = [first, replace(second, record=broken), third]
    assert plan_drill(backups, (), whole_seconds).base.name == "zbackup-3"


@given(sound_histories(), st.sets(st.integers(1, 25).map("backup-{}".format)))
def test_whatever_there_is_can_be_drilled(history: History, passed: set[str]) -> None:
    backups = history.backups
    if not usable_bases(backups):
        return
    found = plan_drill(backups, passed, whole_seconds)
    assert found.base in usable_bases(backups)
    if found.whole:
        assert found == plan_whole_drill(backups)
        return
    as_of = found.base.record.as_of
    assert as_of and as_of < whole_seconds(found.moment), "and the base does not hold too much"
    assert any(
        b.reaches(found.moment)
        and continues(b, found.base)
        and position_of(b.record.log_to) > position_of(found.base.record.log_to)
        for b in backups
    ), "and the log up to there is in a backup"


def test_a_drill_that_passed_is_told_with_its_age() -> None:
    here = DrillFacts(destination="", passed=timedelta(days=2), every=None)
    there = DrillFacts(destination="cloud", passed=None, every=None)
    assert described_drill(here) == "the last of this host's backups passed 2 days ago"
    assert described_drill(there) == "the last at cloud has not passed yet"
    assert of_drills([here, there]) == []
    assert NO_DRILL.severity == "advice" and NO_DRILL.fix == "zbackup verify --drill"
