"""Logs that there are to look into, and those in which a transaction is found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.plan.histories import at_hour, made
from tests.unit.samples import NOON
from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context
from zbackup.jobs.restore import known_logs as room
from zbackup.jobs.restore.known_logs import UNKNOWN, known_logs
from zbackup.jobs.restore.locate_transaction import locate, locate_in
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.errors import (
    DatabaseError,
    NotFound,
    NotRecoverable,
    UsageError,
    VerificationFailed,
    ZbackupError,
)
from zbackup.model.log import LogSpan, Searched, Transaction
from zbackup.model.relocation import Relocation
from zbackup.model.transaction_name import parse_transaction

LIVE, STORED = Relocation((("/live", "/live"),)), Relocation(())
OLD = [made(1, at_hour(1), log=("old", 1, 0)), made(2, at_hour(2), log=("old", 1, 0))]
NEW = [made(5, at_hour(5), log=("new", 5, 0))]
NAME = parse_transaction("binlog.000005:50")
FOUND = Transaction(start="binlog.000005:50", end="binlog.000005:60", committed=NOON)


class Host:
    """Its server's own log is `live`, or cannot be read; `there` is what a search finds, by log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Backup, "files", lambda self, _: BackupFiles(self.record, STORED))
        monkeypatch.setattr(room, "live_files", lambda _: LIVE)
        self.backups: Sequence[Backup] = (*OLD, *NEW)
        self.live: LogSpan | ZbackupError | OSError | None = LogSpan("binlog.000005:4", "binlog.000006:90")
        self.there: Mapping[str, Searched | Exception] = {}
        self.asked: list[list[str]] = []
        self.notes: list[str] = []

    @property
    def catalog(self) -> Catalog:
        return cast(Catalog, SimpleNamespace(backups=tuple(self.backups), datasets=(), all_datasets=()))

    @property
    def ctx(self) -> Context:
        reader = SimpleNamespace(live_log=self._live)
        search = SimpleNamespace(find=self._find, check_name=self._check)
        made_of = SimpleNamespace(log_reader=reader, catalog=lambda: self.catalog, zone=ZoneInfo("UTC"))
        made_of.log_search = search
        made_of.progress = SimpleNamespace(note=self.notes.append)
        return cast(Context, made_of)

    def logs(self, base: str = "", unread: Any = None) -> list[tuple[str, list[str], bool]]:
        return [
            (log.id, [_part(part) for part in log.files], log.live)
            for log in known_logs(self.ctx, self.catalog, base, unread)
        ]

    def _live(self, newest: BackupFiles, live: Relocation) -> LogSpan | None:
        assert (newest.record, live) == (self.backups[-1].record, LIVE)
        if isinstance(self.live, Exception):
            raise self.live
        return self.live

    def _find(self, _: object, parts: Sequence[BackupFiles]) -> Searched:
        self.asked.append([_part(part) for part in parts])
        found = self.there[parts[-1].record.log_id if len(parts) > 1 or parts[0].where == STORED else UNKNOWN]
        if isinstance(found, Exception):
            raise found
        return found

    def _check(self, name: object) -> None:
        if str(name) == "0-1-6":
            raise UsageError("that means nothing here")


def _part(part: BackupFiles) -> str:
    return "live" if part.where == LIVE else part.record.backup


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def test_the_servers_own_log_is_part_of_the_newest_that_it_goes_on_from(host: Host) -> None:
    assert host.logs() == [("new", ["live", "backup-5"], True), ("old", ["backup-2"], False)]
    assert host.logs("zbackup-5") == [("new", ["live", "backup-5"], True)]
    assert host.logs("zbackup-1") == [("old", ["backup-2"], False)]
    touching = LogSpan(NEW[0].record.log_to, "binlog.000009:4")
    host.live = touching
    assert host.logs()[0] == ("new", ["live", "backup-5"], True)


@pytest.mark.parametrize(
    "live", [None, LogSpan("binlog.000006:4", "binlog.000006:90"), NotRecoverable("torn")]
)
def test_a_log_of_which_no_backup_holds_the_beginning_is_one_of_its_own(host: Host, live: Any) -> None:
    host.live = live
    stored = [("new", ["backup-5"], False), ("old", ["backup-2"], False)]
    assert host.logs() == [(UNKNOWN, ["live"], True), *stored]
    assert host.logs("zbackup-5") == stored[:1]


def test_what_cannot_be_looked_at_is_told_of_and_left_out(host: Host) -> None:
    stored = [("new", ["backup-5"], False), ("old", ["backup-2"], False)]
    unread: list[str] = []
    for problem in (PermissionError("not yours"), DatabaseError("it does not answer")):
        host.live = problem
        assert host.logs() == host.logs(unread=unread.append) == stored
        # Who wants all of the log has not seen it: that is no note, which --quiet leaves out.
        assert unread.pop() == str(problem)
        assert host.notes.pop() == f"the live log cannot be read: {problem}"


def test_where_nothing_is_known_there_is_no_log(host: Host) -> None:
    with pytest.raises(NotFound, match="no finished backup zbackup-9"):
        host.logs("zbackup-9")
    host.backups = ()
    assert host.logs() == host.logs("zbackup-9") == []


def searched(found: Transaction | None = None, **more: Any) -> Searched:
    why = "" if found else "it is not there"
    return Searched(found=found, first="binlog.000001", last="binlog.000006", why=why, **more)


def test_a_transaction_is_before_all_that_hold_it(host: Host) -> None:
    host.there = {"new": searched(FOUND), "old": searched()}
    found = locate(host.ctx, NAME)
    assert (found.transaction, found.logs) == (FOUND, {"new"})
    assert host.asked == [["live", "backup-5"], ["backup-2"]]
    host.there = {"new": searched(FOUND), "old": searched(FOUND)}
    assert locate(host.ctx, NAME).logs == {"new", "old"}
    host.asked.clear()
    assert locate(host.ctx, NAME, "zbackup-1").logs == {"old"} and host.asked == [["backup-2"]]
    host.asked.clear()
    assert locate_in(host.ctx, NAME, host.catalog).logs == {"new", "old"}
    assert host.asked == [["backup-2"], ["backup-5"]], "a destination's have no live log"


def test_of_two_of_one_name_nobody_chooses_but_who_restores(host: Host) -> None:
    later = replace(FOUND, committed=at_hour(3))
    host.there = {"new": searched(FOUND), "old": searched(later)}
    with pytest.raises(
        NotRecoverable,
        match=r"in 2 logs, and means 2 different transactions. Choose one with --base .*\n"
        r"  2024-05-01 12:.*  --before binlog.*\n  2024-05-01 15:.*  --before binlog",
    ):
        locate(host.ctx, NAME)


def test_one_that_is_in_its_log_twice_is_told_with_times_and_positions(host: Host) -> None:
    first, again = FOUND, replace(FOUND, start="binlog.000005:8000", end="binlog.000005:8100")
    host.there = {"new": replace(searched(first), others=(again,)), "old": searched()}
    with pytest.raises(NotRecoverable) as refused:
        locate(host.ctx, NAME)
    told, *each = str(refused.value).splitlines()
    assert told.endswith("is 2 times in the log. Give the position of the one you mean:")
    assert [line.split("  ")[-1] for line in each] == [f"--before {t.start}" for t in (first, again)]


def test_a_name_that_means_nothing_is_asked_of_no_log(host: Host) -> None:
    with pytest.raises(UsageError):
        locate(host.ctx, parse_transaction("0-1-6"))
    assert host.asked == []


def test_one_that_is_nowhere_is_refused_with_what_there_is(host: Host) -> None:
    host.there = {"new": searched(begun=NOON), "old": searched()}
    with pytest.raises(
        NotRecoverable, match=r"reaches from binlog.000001, begun 2024-05-01 12.*, to bin"
    ) as told:
        locate(host.ctx, NAME)
    assert "from binlog.000001 to binlog.000006" in str(told.value) and "GTID" not in str(told.value)
    gtid = parse_transaction("0-1-5")
    with pytest.raises(NotRecoverable) as told:
        locate_in(host.ctx, gtid, host.catalog)
    assert "no GTIDs" not in str(told.value)
    bare = [replace(b, record=replace(b.record, gtid="")) for b in host.backups]
    for backups, hint in ((bare, True), ([*bare[:1], *host.backups[1:]], False)):
        host.backups = backups
        with pytest.raises(NotRecoverable) as told:
            locate_in(host.ctx, gtid, host.catalog)
        assert ("no GTIDs were recorded" in str(told.value)) == hint


def test_without_any_backup_that_is_what_is_said(host: Host) -> None:
    host.backups = ()
    with pytest.raises(NotRecoverable, match="no finished backup to start from: run zbackup snapshot"):
        locate(host.ctx, NAME)


@pytest.mark.parametrize(
    "failure", [NotRecoverable("odd"), VerificationFailed("odd"), FileNotFoundError("odd")]
)
def test_a_log_that_nothing_leads_to_may_be_unreadable(host: Host, failure: Exception) -> None:
    host.live = None
    host.there = {UNKNOWN: failure, "new": searched(FOUND), "old": searched()}
    assert locate(host.ctx, NAME).logs == {"new"}
    assert host.notes == ["the live log cannot be read: odd"]
    host.there = {UNKNOWN: searched(), "new": failure, "old": searched()}
    gone = isinstance(failure, OSError)
    with pytest.raises(
        NotRecoverable if gone else type(failure), match="purged or pruned just now" if gone else "^odd$"
    ):
        locate(host.ctx, NAME)
