"""The search of an instance's logs: which are read, in which order, and what is said of what was not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import at_hour, made
from zbackup.jobs.context import Context
from zbackup.jobs.log.log import rows_of
from zbackup.jobs.restore import known_logs, search_log
from zbackup.jobs.restore.search_log import in_one_backup, require_all_read, search_further
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.clone import Clone
from zbackup.model.errors import (
    DatabaseError,
    NotRecoverable,
    Refused,
    UsageError,
    VerificationFailed,
    ZbackupError,
)
from zbackup.model.log import ClusterTime, LogSpan, Transaction
from zbackup.model.log_entry import LogFilter, LogRead, Told
from zbackup.model.relocation import Relocation
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import parse_transaction

LIVE, STORED = Relocation((("/live", "/live"),)), Relocation(())
BACKUPS = [made(n, at_hour(n), log=("old" if n < 3 else "new", n, n)) for n in (1, 2, 3, 4)]
SINCE = at_hour(3)


class Host:
    """A server's logs, and what of them is read: "live" is its own, others are by the backup that has them.

    `failing` are those that cannot be read. The live log begins where `span` says.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, reads_files: bool) -> None:
        monkeypatch.setattr(Backup, "files", lambda self, _: BackupFiles(self.record, STORED))
        for module in (known_logs, search_log):
            monkeypatch.setattr(module, "live_files", lambda _: LIVE)
        monkeypatch.setattr(search_log, "own_name", self._locked)
        monkeypatch.setattr(search_log, "log_clone", self._clone)
        self.reads_files, self.backups = reads_files, list(BACKUPS)
        self.span: LogSpan | ZbackupError | None = LogSpan("binlog.000004:4", "binlog.000006:90")
        self.begun: datetime | None = None
        self.failing: dict[str, Exception] = {}
        self.locked, self.clones, self.after = False, list[Clone](), list[str]()
        self.told: list[tuple[object, ...]] = []
        self.follows, self.ended_at = list[str](), list[datetime | None]()
        self.ended: Exception | bool = False
        self.up_to_date = 0

    @property
    def search(self) -> Any:
        return SimpleNamespace(history=self._history, goes_on_at=self._goes_on_at, check_name=lambda _: None)

    @property
    def ctx(self) -> Context:
        catalog = SimpleNamespace(backups=tuple(self.backups), datasets=(), all_datasets=())
        reader = SimpleNamespace(
            live_log=self._live,
            written=lambda _: self.begun,
            bring_up_to_date=self._bring,
        )
        phase = lambda *said: self.told.append(said)  # noqa: E731
        progress = SimpleNamespace(phase=phase, advance=phase, note=lambda _: None)
        recovery = SimpleNamespace(check_program=self._check)
        server = SimpleNamespace(
            live=lambda wanted: self._history((), wanted), on_clone=self._on_clone, images=self._images
        )
        made_of = SimpleNamespace(instance="shop", catalog=lambda: catalog, log_reader=reader)
        made_of.progress, made_of.recovery = progress, recovery
        made_of.log_search = self.search if self.reads_files else server
        made_of.clock = SimpleNamespace(now=lambda: at_hour(9))
        return cast(Context, made_of)

    def read(self, wanted: LogFilter) -> list[str]:
        return [each.name for each in search_log.search_log(self.ctx, wanted) if isinstance(each, LogRead)]

    def _live(self, newest: BackupFiles, _: object) -> LogSpan | None:
        assert newest.record.log_id
        if isinstance(self.span, Exception):
            raise self.span
        return self.span

    def _goes_on_at(self, newest: BackupFiles) -> str:
        if isinstance(self.ended, Exception):
            raise self.ended
        return "the next file" if self.ended else newest.record.log_to

    def _bring(self, _: object) -> None:
        self.up_to_date += 1

    def _history(
        self, parts: Sequence[BackupFiles], wanted: LogFilter, told: Told | None = None
    ) -> Iterator[Any]:
        names = ["live" if part.where == LIVE else part.record.backup for part in parts] or ["server"]
        self.after.append(wanted.after)
        self.follows.append(wanted.follows)
        self.ended_at.append(wanted.ended)
        for name in names:
            if name in self.failing:
                raise self.failing[name]
            if told:
                for done in (1, 2):
                    told(name, done, 2)
            yield LogRead(name=name, size=1, end=f"{name}'s end")

    def _on_clone(self, files: BackupFiles, wanted: LogFilter) -> Iterator[Any]:
        assert self.locked
        yield from self._history([files], wanted)

    def _images(self, at: ClusterTime, files: BackupFiles | None = None) -> Iterator[str]:
        assert bool(files) is self.locked
        name = files.record.backup if files else "server"
        for line in (f"{name} has {at}", "more"):
            if name in self.failing:
                raise self.failing[name]
            yield line
            if f"rest of {name}" in self.failing:
                raise self.failing[f"rest of {name}"]

    @contextmanager
    def _locked(self, _: object, names: tuple[str, ...], __: str) -> Iterator[str]:
        assert names[:2] == ("shop-search", "shop-search-2") and not self.locked
        self.locked = True
        yield names[0]
        self.locked = False

    @contextmanager
    def _clone(self, _: object, __: object, clone: Clone, backup: Backup, *, keep: bool) -> Iterator[Any]:
        assert not keep and clone.backup == backup.name
        self.clones.append(clone)
        yield (BackupFiles(backup.record, STORED),)

    def _check(self, record: Any) -> None:
        if record.backup in self.failing:
            raise self.failing[record.backup]


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch, reads_files=True)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch, reads_files=False)


def test_the_oldest_is_read_first_unless_backwards(files: Host) -> None:
    assert files.read(LogFilter()) == ["backup-2", "backup-1", "live", "backup-4", "backup-3"]
    assert files.read(LogFilter(backwards=True)) == ["live", "backup-4", "backup-3", "backup-2", "backup-1"]
    assert files.read(LogFilter(after="binlog.000003:9")) == ["live", "backup-4", "backup-3"]


def test_whoever_watches_hears_each_file_once_and_how_far_it_is(files: Host) -> None:
    files.backups = files.backups[-1:]
    files.read(LogFilter())
    assert files.told == [("reading", "live"), (1, 2), (2, 2), ("reading", "backup-4"), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    "failure", [Refused("odd"), NotRecoverable("odd"), VerificationFailed("odd"), OSError("odd")]
)
def test_one_log_that_cannot_be_read_keeps_no_other_from_it(files: Host, failure: Exception) -> None:
    files.failing = {"backup-2": failure}
    reads = [r for r in search_log.search_log(files.ctx, LogFilter()) if isinstance(r, LogRead)]
    assert [(r.name, bool(r.problem)) for r in reads[:2]] == [
        (BACKUPS[1].record.called, True),
        ("live", False),
    ]
    gone = isinstance(failure, OSError)
    assert reads[0].problem == ("odd; if it was purged or pruned just now, try again" if gone else "odd")


ENDS = {number: f"binlog.{number:06}:100" for number in range(1, 10)}


@pytest.mark.parametrize("backwards", [False, True])
def test_what_a_server_purged_between_two_logs_is_asked_for(files: Host, *, backwards: bool) -> None:
    """What leads on is taken for another log then, that of the server itself as well."""

    def follows(**wanted: Any) -> list[str]:
        files.follows.clear()
        files.read(LogFilter(backwards=backwards, **wanted))
        return files.follows[::-1] if backwards else files.follows

    assert follows() == ["", ENDS[2]]
    assert (files.ended_at[::-1] if backwards else files.ended_at) == [None, BACKUPS[1].record.complete_to]
    assert follows(until=at_hour(2)) == ["", ""], "all of that is in a backup"
    assert follows(until=at_hour(2.5)) == ["", ENDS[2]]
    files.ended = True
    assert follows() == ["", "the next file"]
    for failure in (NotRecoverable("no files"), OSError("odd")):
        files.ended = failure
        assert follows() == ["", ENDS[2]]
    files.ended = False
    files.span = LogSpan("binlog.000009:4", "binlog.000009:90")
    assert follows() == ["", ENDS[2], ENDS[4]]
    assert follows(until=at_hour(4)) == ["", ENDS[2], ""]
    files.span = NotRecoverable("it was reset")
    assert follows() == ["", ENDS[2], ENDS[4]], "its files tell"
    files.backups[2:] = [made(n, at_hour(n), log=("new", 1, n)) for n in (3, 4)]
    assert follows() == ["", "", ENDS[4]], "its numbers begin again"
    record = replace(BACKUPS[2].record, server_uuid="another")
    files.backups[2:] = [replace(BACKUPS[2], record=record)]
    files.span = LogSpan("binlog.000003:4", "binlog.000006:90")
    assert follows() == ["", ""]
    assert follows(after="binlog.000003:9", follows="here") == ["here"]


def test_behind_a_transaction_its_own_log_is_asked_for_from_there_on(files: Host) -> None:
    transaction = Transaction(start="binlog.000002:50", end="binlog.000002:60", committed=at_hour(2))

    def follows(*logs: str) -> list[str]:
        files.follows.clear()
        name = parse_transaction(transaction.start)
        subject = BeforeTransaction(name=name, transaction=transaction, logs=frozenset(logs))
        list(search_log.search_behind(files.ctx, subject, frozenset({"ddl"})))
        return files.follows

    assert follows("old") == [transaction.end, ENDS[2]]
    assert follows("new") == ["", transaction.end]
    files.span = LogSpan("binlog.000009:4", "binlog.000009:90")
    assert follows("new") == ["", transaction.end, ENDS[4]]
    assert follows("old") == [transaction.end, ENDS[2], ENDS[4]]
    assert follows(known_logs.UNKNOWN) == ["", ENDS[2], ""]


@pytest.mark.parametrize("backwards", [False, True])
def test_what_an_oplog_dropped_between_two_backups_is_asked_for(servers: Host, *, backwards: bool) -> None:
    def follows(**wanted: Any) -> list[str]:
        servers.follows.clear()
        servers.read(LogFilter(backwards=backwards, **wanted))
        return servers.follows[::-1] if backwards else servers.follows

    assert follows() == ["", ENDS[1], ENDS[2], ENDS[3]]
    assert follows(until=at_hour(2)) == ["", ENDS[1], "", ""]
    assert follows(since=SINCE) == [ENDS[2], ENDS[3]], "though what is in front is not read"
    servers.backups[:] = [made(n, at_hour(n), log=("log", first, n)) for n, first in ((2, 1), (3, 2), (6, 6))]
    servers.span = LogSpan("binlog.000005:4", "binlog.000009:90")
    assert follows() == ["", "", ENDS[3]], "the newest holds nothing that the server has no more"
    servers.begun = SINCE
    assert follows(since=SINCE) == [""]
    assert follows(after="7,1@1", follows="6,1@1") == ["6,1@1"]


def test_nothing_is_searched_where_no_finished_backup_says_where_the_log_is(files: Host) -> None:
    unfinished = replace(BACKUPS[0], record=replace(BACKUPS[0].record, as_of=None))
    unknown = replace(BACKUPS[0], record=replace(BACKUPS[0].record, log_id="", log_from="", log_to=""))
    files.backups = [unfinished, unknown]
    with pytest.raises(NotRecoverable, match="no finished backup says where the log is"):
        files.read(LogFilter())
    files.backups = [unfinished, BACKUPS[1]]
    assert "backup-2" in files.read(LogFilter())


def test_what_the_server_has_no_more_is_read_on_clones(servers: Host) -> None:
    assert servers.read(LogFilter()) == ["backup-1", "backup-2", "backup-3", "server"]
    assert servers.after == ["", "backup-1's end", "backup-2's end", "backup-3's end"]
    assert {clone.name for clone in servers.clones} == {"shop-search"}
    assert len({clone.id for clone in servers.clones}) == 3
    servers.after.clear()
    assert servers.read(LogFilter(backwards=True)) == ["server", "backup-3", "backup-2", "backup-1"]
    assert servers.after == [""] * 4
    assert servers.read(LogFilter(after="7,1@1")) == ["server"]
    assert servers.after[-1] == "7,1@1"


def test_only_what_may_be_wanted_is_read_on_clones(servers: Host) -> None:
    assert servers.read(LogFilter(since=SINCE)) == ["backup-3", "server"]
    servers.begun = at_hour(3.5)
    assert servers.read(LogFilter(since=SINCE)) == ["backup-3", "server"]
    assert servers.read(LogFilter()) == ["backup-1", "backup-2", "backup-3", "server"]
    servers.begun = SINCE
    assert servers.read(LogFilter(since=SINCE)) == ["server"]
    for nothing in (None, DatabaseError("down")):
        servers.span = nothing
        assert servers.read(LogFilter(since=SINCE)) == ["backup-3", "backup-4", "server"]


def test_a_backup_without_a_log_is_not_the_newest_of_the_log(servers: Host) -> None:
    bare = made(9, at_hour(9), log=("", 0, 0))
    servers.backups.append(bare)
    assert servers.read(LogFilter()) == ["backup-1", "backup-2", "backup-3", "server"]


@pytest.mark.parametrize("failure", [DatabaseError("down"), Refused("down")])
def test_a_server_that_does_not_answer_is_a_log_that_was_not_read(servers: Host, failure: Exception) -> None:
    servers.failing = {"server": failure}
    reads = [r for r in search_log.search_log(servers.ctx, LogFilter()) if isinstance(r, LogRead)]
    last = reads[-1]
    assert (last.name, last.problem) == ("shop", "the server's own log was not read: down")
    assert last.end == "backup-3's end"


def test_a_clone_whose_program_is_not_here_is_not_made(servers: Host) -> None:
    servers.failing = {"backup-1": Refused("no mongod 6.0")}
    with pytest.raises(Refused, match="no mongod"):
        servers.read(LogFilter())
    assert servers.clones == []


@pytest.mark.parametrize("reads_files", [True, False])
def test_in_one_backup_its_own_log_is_read(monkeypatch: pytest.MonkeyPatch, *, reads_files: bool) -> None:
    host = Host(monkeypatch, reads_files=reads_files)
    host.locked = True
    found = list(in_one_backup(host.ctx, host.ctx.catalog(), BACKUPS[1], LogFilter(), "shop-search"))
    assert [each.name for each in found if isinstance(each, LogRead)] == ["backup-2"]
    assert bool(host.clones) != reads_files


def test_one_transaction_is_asked_of_the_server_or_of_the_oldest_backup_that_has_it(servers: Host) -> None:
    def rows(number: int) -> list[str]:
        return list(rows_of(servers.ctx, ClusterTime(number, 50)))

    assert rows(9) == ["server has 9,50", "more"] and servers.clones == []
    servers.failing = {"rest of server": DatabaseError("lost")}
    with pytest.raises(DatabaseError, match="lost"):
        rows(3)
    assert servers.clones == [], "what was told is not told again"
    for failure in (DatabaseError("down"), Refused("down"), NotRecoverable("down")):
        servers.failing = {"server": failure}
        assert rows(3) == ["backup-3 has 3,50", "more"] and not servers.locked
        assert rows(9) == ["backup-1 has 9,50", "more"], "it was taken later, and may have it"
        with pytest.raises(NotRecoverable, match=r"^4000000000,50 is in no backup's log, and down$"):
            rows(4_000_000_000)
    assert {clone.name for clone in servers.clones} == {"shop-search"}


def test_a_cluster_time_names_nothing_in_a_binary_log(files: Host) -> None:
    with pytest.raises(UsageError, match=r"7,1 is a cluster time, as MongoDB has them: write a GTID"):
        list(rows_of(files.ctx, ClusterTime(7, 1)))


def test_who_follows_reads_the_newest_part_brought_up_to_date(files: Host) -> None:
    live = BackupFiles(BACKUPS[3].record, LIVE)
    found = list(search_further(files.ctx, files.search, live, LogFilter()))
    assert [each.name for each in found if isinstance(each, LogRead)] == ["live"] and files.up_to_date == 1


def test_an_end_that_is_still_written_is_no_problem() -> None:
    whole = LogRead(name="binlog.000001", size=9, end="")
    torn = replace(whole, problem="it ends in an event", torn=True)
    require_all_read([whole, torn])
    with pytest.raises(Refused, match=r"^not all of the log was read: encrypted; odd$"):
        require_all_read([torn, replace(whole, problem="encrypted"), replace(whole, problem="odd")])
    with pytest.raises(VerificationFailed, match=r": encrypted; odd$"):
        require_all_read([replace(whole, problem="encrypted"), replace(whole, problem="odd", damaged=True)])
