"""Log-only snapshots of restores go when a newer backup replaces them, and take no moment with them."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings

from tests.unit.plan.histories import NOON, History, histories_with_gaps_in_the_log, made, reaches
from zbackup.model.backup import Backup
from zbackup.model.record import STOPPED
from zbackup.plan.retention.log_snapshots import replaced

HOUR = timedelta(hours=1)


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
    stopped = log_only(2, server={STOPPED: "switch to x"})
    assert replaced([base(1), stopped, base(3)]) == []


def test_mongodbs_that_do_not_say_which_log_they_hold_go_with_their_servers() -> None:
    unknown = log_only(2, log_id="", log_from="", log_to="")
    assert names(replaced([base(1), unknown, base(3)])) == ["zbackup-2"]
    assert (
        replaced([base(1), replace(unknown, record=replace(unknown.record, server_uuid="x")), base(3)]) == []
    )


@given(histories_with_gaps_in_the_log())
@settings(max_examples=80)
def test_every_moment_that_was_in_reach_still_is(history: History) -> None:
    gone = replaced(history.backups)
    assert all(b.record.purpose == "log" for b in gone)
    left = [b for b in history.backups if b not in gone]
    edges = [e for b in history.backups for e in (b.record.as_of, b.record.complete_to) if e]
    for moment in (e + timedelta(microseconds=d) for e in edges for d in (-1, 0, 1)):
        assert reaches(left, moment) or not reaches(history.backups, moment), moment
    assert replaced(left) == [], "a second look finds nothing more"
