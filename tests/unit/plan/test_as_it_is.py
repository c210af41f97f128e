"""The backup that is restored as it is, and the moments a server without a log leads to: its backups' own."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import NOON, PLAIN, at, backup, lacking_one
from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable, Refused, ZbackupError
from zbackup.plan.recovery.as_it_is import (
    at_own_moment,
    find_backup,
    latest_as_it_is,
    newest_labelled,
    require_one_server,
)
from zbackup.plan.recovery.recovery import plan_recovery
from zbackup.plan.recovery.window import recovery_window

NOW = at(1000)
UTC = ZoneInfo("UTC")
WHY = "this server runs alone and keeps no oplog"


def alone(number: int, as_of: float) -> Backup:
    """A backup of a server without a log."""
    return backup(number, as_of, as_of, server=PLAIN.server | {"blockers": WHY}, position="")


ALONE = [alone(1, 10.25), alone(2, 20.5)]


def test_a_backup_is_found_by_its_name_and_by_its_id() -> None:
    for name in ("zbackup-2", "backup-2"):
        assert find_backup(name, ALONE) is ALONE[1]


@pytest.mark.parametrize(
    ("backups", "error", "says"),
    [
        ([], NotFound, "there is no backup zbackup-1: see zbackup list"),
        ([backup(1, 1, 1, purpose="log")], NotRecoverable, "to read its log only"),
        ([lacking_one(backup(1, 1, 1))], NotRecoverable, "lacks a dataset's snapshot"),
        ([backup(1, None, None)], NotRecoverable, "is not finished"),
    ],
)
def test_what_is_none_is_refused(backups: list[Backup], error: type[ZbackupError], says: str) -> None:
    with pytest.raises(error, match=says):
        find_backup("zbackup-1", backups)


def test_of_a_label_the_newest_backup_is_meant() -> None:
    def called(number: int, label: str, **changes: object) -> Backup:
        return backup(number, number, number, server=PLAIN.server | {"label": label}, **changes)

    backups = [called(2, "deploy"), called(1, "deploy"), called(3, "deploy", purpose="log"), called(4, "x")]
    assert newest_labelled("deploy", backups) is backups[0]
    with pytest.raises(
        NotFound, match="no backup has the label deplo; there are deploy, x: see zbackup list"
    ):
        newest_labelled("deplo", backups)
    with pytest.raises(NotFound):
        newest_labelled("", [*backups, backup(5, 5, 5)])
    with pytest.raises(NotRecoverable, match="lacks a dataset's snapshot"):
        newest_labelled("deploy", [*backups, lacking_one(called(6, "deploy"))])
    require_one_server("deploy", [backups, [called(7, "x")]])
    with pytest.raises(NotRecoverable, match=r"--to-backup backup-2 .* or --to-backup backup-8 "):
        require_one_server("deploy", [backups, [called(8, "deploy")]])


def test_of_two_of_one_name_the_id_decides() -> None:
    twin = backup(2, 20, 20)
    twin = replace(twin, snapshots=tuple(replace(s, name="zbackup-1") for s in twin.snapshots))
    both = [backup(1, 10, 10), twin]
    with pytest.raises(NotRecoverable, match="name one by its id, backup-1, backup-2"):
        find_backup("zbackup-1", both)
    assert find_backup("backup-2", both) is twin


def test_its_own_moment_is_the_exact_one_and_that_in_whole_seconds() -> None:
    assert at_own_moment(at(20.5), ALONE) is ALONE[1]
    assert at_own_moment(at(20), ALONE) is ALONE[1]
    for other in (at(20.4), at(21), at(10.250001), NOON):
        assert at_own_moment(other, ALONE) is None


def test_a_backup_that_a_log_leads_on_from_has_no_moment_of_its_own() -> None:
    """What was committed at its last transaction's time is not before it."""
    assert at_own_moment(at(10), [backup(1, 10, 10)]) is None


def test_no_other_moment_is_planned_or_promised() -> None:
    assert recovery_window(ALONE, None, NOW).overall is None
    for moment, nearest in ((at(15), "zbackup-1"), (at(30), "zbackup-2"), (at(5), "zbackup-2")):
        with pytest.raises(Refused, match=f"{WHY}.*--to-backup {nearest}"):
            plan_recovery(moment, NOW, ALONE, UTC)


def test_what_is_left_of_a_log_before_is_planned_and_promised() -> None:
    """A member that was made a standalone server since."""
    log = {"log_id": "a", "log_from": "binlog.000001:4", "log_to": "binlog.000001:9"}
    member = [backup(1, 1, 2, **log), backup(2, 5, 6, **log)]
    window = recovery_window([*member, alone(3, 20)], None, NOW)
    assert [(r.after, r.to) for r in window.ranges] == [(at(1), at(6))]
    assert plan_recovery(at(4), NOW, [*member, alone(3, 20)], UTC).base is member[0]


def test_the_latest_is_the_newest_backup_only_where_no_log_leads_on() -> None:
    assert latest_as_it_is(ALONE) == at(20.5)
    assert latest_as_it_is([]) is None
    newer = backup(3, 30, 30)
    assert latest_as_it_is([*ALONE, newer]) is None
    assert at(20.5) - NOON == timedelta(seconds=20.5)


def test_of_backups_without_a_log_the_newest_that_is_not_behind_the_moment_is_offered() -> None:
    for moment, name in ((20.5, "zbackup-2"), (20.4, "zbackup-1"), (10.25, "zbackup-1"), (10, "zbackup-2")):
        with pytest.raises(Refused, match=name):
            plan_recovery(at(moment), NOW, ALONE, UTC)
