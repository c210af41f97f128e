"""The base and the log where two times are the same, what is recorded in part, and what is said."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tests.unit.plan.histories import at_hour, blocked, made
from tests.unit.plan.test_gaps_in_the_log import chain
from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable
from zbackup.model.record import ARCHIVED, LOG_ENDED
from zbackup.plan.recovery.recovery import (
    RecoveryPlan,
    drill_target,
    farthest_log,
    plan_recovery,
    plan_whole_log,
)

UTC_ZONE = ZoneInfo("UTC")
NOW = at_hour(20)


def changed(backup: Backup, **changes: object) -> Backup:
    return replace(backup, record=replace(backup.record, **changes))  # type: ignore[arg-type]


def plan(hours: float, backups: list[Backup], **asked: object) -> RecoveryPlan:
    return plan_recovery(at_hour(hours), NOW, backups, UTC_ZONE, **asked)  # type: ignore[arg-type]


def refusal(hours: float, backups: list[Backup], **asked: object) -> str:
    with pytest.raises(NotRecoverable) as refused:
        plan(hours, backups, **asked)
    return str(refused.value)


def test_a_base_whose_log_ends_at_the_very_target_leads_there() -> None:
    newer = made(2, at_hour(2), log=("new", 1, 1))
    log = made(3, at_hour(3), log=("log", 1, 3), purpose="log")
    first = made(1, at_hour(1), log=("log", 1, 1))
    found = plan(3, [first, newer, log])
    assert (found.base, found.log) == (first, log)
    assert (
        found.reason
        == "zbackup-1 is the newest backup before the target, zbackup-3 the first that reaches it"
    )


def test_of_holders_that_reach_it_the_oldest_that_continues_the_base_is_read() -> None:
    backups = [made(n, at_hour(n), log=("log", 1, n)) for n in (1, 4, 5)]
    other = made(2, at_hour(9), log=("new", 1, 1), purpose="log")
    found = plan(3.5, [*backups, other])
    assert found.log is backups[1] and found.others == (backups[2],)


def test_a_holder_of_which_nothing_is_known_may_be_of_the_same_log() -> None:
    known, unknown = made(1, at_hour(1), log=("log", 1, 1)), made(3, at_hour(3), log=("", 0, 0))
    assert plan(2, [known, unknown]).log is unknown
    unknown, known = made(1, at_hour(1), log=("", 0, 0)), made(3, at_hour(3), log=("log", 1, 3))
    assert plan(2, [unknown, known]).log is known
    elsewhere = blocked(changed(made(3, at_hour(3), log=("", 0, 0)), server_uuid="another"))
    assert plan(2, [unknown, elsewhere]).log is None, "what is not whole itself leads nowhere"


def test_archived_log_is_said_to_be_that() -> None:
    first = made(1, at_hour(1), log=("log", 1, 1))
    archived = changed(made(1, at_hour(3), log=("log", 1, 3), purpose="log"), server={ARCHIVED: "1"})
    reason = plan(2, [first, archived]).reason
    assert reason.endswith(", and what was archived behind zbackup-1 reaches it")


def test_the_first_backup_that_cannot_lead_on_is_offered_as_it_is() -> None:
    backups = chain(False, True, False, False)
    said = refusal(2.5, backups)
    assert said.startswith(
        "no whole log leads there from zbackup-2: when zbackup-3 was taken, the binlog leaves"
    )
    assert "; what was there then comes with --to-backup zbackup-3; the recovery window is after" in said
    ended = changed(made(3, at_hour(3), log=("log", 1, 3), purpose="log"), server={LOG_ENDED: "it is off"})
    said = refusal(5, [*chain(True, True), ended])
    assert "when zbackup-3 was taken, it is off; the recovery window" in said


def test_whole_seconds_are_said_to_be_the_reason_only_where_they_are() -> None:
    backups = [made(2, at_hour(2), log=("log", 1, 2))]
    assert refusal(2, backups).endswith("as far on as the server's own log leads")
    assert refusal(2, backups, effective=at_hour(2)).endswith("as far on as the server's own log leads")
    said = refusal(2.0001, backups, effective=at_hour(2))
    assert said.endswith("leads (the log knows whole seconds only)"), "in UTC there is no other reading"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("moment", [datetime.min, datetime.max])  # noqa: DTZ901
def test_the_ends_of_the_calendar_are_refused_as_any_other_moment(zone: str, moment: datetime) -> None:
    with pytest.raises(NotRecoverable, match="the recovery window is after"):
        plan_recovery(moment.replace(tzinfo=UTC), NOW, [made(1, at_hour(1))], ZoneInfo(zone))


def test_all_of_the_log_is_wanted_behind_the_newest_backup_or_the_one_that_is_named() -> None:
    backups = [made(n, at_hour(n), log=("log", 1, n)) for n in (1, 2)]
    found = plan_whole_log(backups)
    assert (found.base, found.log) == (backups[1], None)
    assert found.reason == "zbackup-2 is the newest backup; all of the log behind it is wanted"
    found = plan_whole_log(backups, base="zbackup-1")
    assert found.base is backups[0]
    assert found.reason == "zbackup-1 was asked for; all of the log behind it is wanted"
    with pytest.raises(NotFound, match="no finished backup zbackup-3 to start from"):
        plan_whole_log(backups, base="zbackup-3")
    with pytest.raises(NotRecoverable, match="run zbackup snapshot first"):
        plan_whole_log([])


def test_a_drill_reads_what_a_snapshot_holds_that_is_for_its_log_only() -> None:
    bases = [made(n, at_hour(n), log=("log", 1, n)) for n in (1, 2)]
    log = made(3, at_hour(3), log=("log", 1, 3), purpose="log")
    assert drill_target([*bases, log]) == (at_hour(3), "zbackup-2")
    unfinished = changed(made(4, at_hour(4), log=("log", 1, 4)), complete_to=None)
    assert farthest_log(bases[0], [*bases, log, unfinished]) is log
    lacking = replace(made(5, at_hour(5), log=("log", 1, 5)), snapshots=log.snapshots[:1])
    assert farthest_log(bases[0], [*bases, log, lacking]) is log
    assert farthest_log(made(9, at_hour(9), log=("", 0, 0)), bases) is None
