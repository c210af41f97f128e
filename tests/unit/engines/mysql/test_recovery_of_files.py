"""Recovery by the files alone: how far a backup reaches, what a replay would apply."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.engines.binlog.builder import Builder, at
from tests.unit.samples import NOON, PLAIN
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.recovery.log_reader import MysqlLogReader
from zbackup.engines.mysql.recovery.log_search import MysqlLogSearch
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.engines.mysql.recovery.replay_bounds import effective_stop
from zbackup.engines.mysql.recovery.verify_replay import end_found, is_exact
from zbackup.model.anchors import Anchor
from zbackup.model.backup import BackupFiles
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import NotRecoverable, Refused, UsageError, VerificationFailed
from zbackup.model.log import LogPosition
from zbackup.model.log_entry import LogFilter, LogRead, Lost
from zbackup.model.record import Record
from zbackup.model.recovery import Reach, RecoveryFiles
from zbackup.model.relocation import Relocation
from zbackup.model.target import Time, WholeLog
from zbackup.model.transaction_name import parse_transaction

NOW = 1_700_000_000_000_000
READER = MysqlLogReader(flavor="mysql")
SEARCH = MysqlLogSearch(flavor="mysql")
RECOVERY = MysqlRecovery(flavor="mysql", table=RecoveryTable(workers=1))


def moment(micros: int) -> datetime:
    return at(NOW + micros)


class Log:
    """A server's log directory that grows; `copy` is what a snapshot would show of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files: dict[int, Builder] = {1: Builder()}
        self.number = 0

    def commit(self, *micros: int) -> None:
        for one in micros:
            self.number += 1
            self.files[max(self.files)].mysql(NOW + one, self.number)

    def rotate(self) -> None:
        newest = max(self.files)
        self.files[newest].rotate(f"binlog.{newest + 1:06}")
        self.files[newest + 1] = Builder()

    def end(self) -> LogPosition:
        newest = max(self.files)
        return LogPosition.of(f"binlog.{newest:06}", len(self.files[newest].data))

    def copy(self, name: str) -> Relocation:
        directory = self.directory / name
        directory.mkdir()
        names = [f"binlog.{sequence:06}" for sequence in self.files]
        for file, builder in zip(names, self.files.values(), strict=True):
            (directory / file).write_bytes(builder.data)
        (directory / "binlog.index").write_text("".join(f"/srv/log/{n}\n" for n in names))
        return Relocation((("/srv/log", str(directory)),))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def record(position: LogPosition | None, lock: str = "ftwrl", engine: str = "mysql") -> Record:
    server = {"log_bin_basename": "/srv/log/binlog", "log_bin_index": "/srv/log/binlog.index"}
    return replace(PLAIN, position=str(position or ""), server=server, lock=lock, engine=engine)  # type: ignore[arg-type]


def reached(held: Record, where: Relocation) -> Reach:
    return READER.reach(held, where, NOON)


@pytest.mark.parametrize(
    "blocker", ["the binlog is off: set log_bin", "the binlog is encrypted (x): zbackup"]
)
@pytest.mark.parametrize(
    ("lock", "as_of"),
    [
        ("ftwrl", PLAIN.taken),
        ("backup-stage", PLAIN.taken),
        ("backup-lock", NOON + timedelta(seconds=1)),
        ("none", NOON + timedelta(seconds=1)),
    ],
)
def test_a_backup_without_a_log_to_read_is_of_the_time_it_was_taken(
    log: Log, blocker: str, lock: str, as_of: datetime
) -> None:
    (log.directory / "binlog.000001").write_bytes(b"\xfdbin nobody can read this")
    held = replace(record(None, lock), server={"blockers": blocker}, taken=PLAIN.taken)
    where = Relocation((("/srv/log", str(log.directory)),))
    assert reached(held, where) == Reach(as_of=as_of, complete_to=PLAIN.taken)
    assert READER.log_span(held, where) is None


def test_the_last_commit_is_the_latest_by_time(log: Log) -> None:
    log.commit(10, 30, 20)
    found = reached(record(log.end()), log.copy("s")).as_of
    assert found == moment(30)


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_lost_behind_all_that_is_wanted_is_no_loss(log: Log, *, backwards: bool) -> None:
    """By what the older backup is known to hold: a commit of a clock that was set ahead says nothing."""
    week = timedelta(days=7)
    log.commit(10, 9 * 365 * 24 * 3600 * 1_000_000)
    held = replace(record(log.end()), complete_to=moment(0) + week)
    older = BackupFiles(held, log.copy("older"))
    log.files = {4: Builder()}
    newer = BackupFiles(replace(held, complete_to=moment(0) + 2 * week), log.copy("newer"))

    def lost(until: datetime | None, *files: BackupFiles) -> list[Lost]:
        found = SEARCH.history(files or (newer, older), LogFilter(until=until, backwards=backwards))
        return [each.lost for each in found if isinstance(each, LogRead) and each.lost]

    assert lost(moment(0) + week) == lost(moment(0) + timedelta(hours=1)) == []
    behind = Lost(since=moment(0) + week, until=moment(0))
    for until in (None, moment(1) + week, moment(0) + 3 * week):
        assert lost(until) == [behind]
    unfinished = BackupFiles(replace(held, complete_to=None), older.where)
    assert lost(moment(0) + timedelta(hours=1), newer, unfinished) == [replace(behind, since=moment(0))]
    assert lost(moment(0) - timedelta(hours=1), newer, unfinished) == []


def test_an_empty_newest_file_is_looked_behind(log: Log) -> None:
    log.commit(10)
    log.rotate()
    found = reached(record(log.end()), log.copy("s")).as_of
    assert found == moment(10)


def test_a_log_without_any_transaction_has_no_last_commit(log: Log) -> None:
    found = reached(record(log.end()), log.copy("s"))
    assert found == Reach(as_of=NOON, complete_to=NOON)


def test_a_time_later_than_the_snapshot_does_not_count(log: Log) -> None:
    """Its transaction was there when the next was committed, or else when the snapshot was taken."""
    year = 365 * 24 * 3600 * 1_000_000
    log.commit(10, 9 * year, 20)
    found = reached(record(log.end()), log.copy("s"))
    assert (found.as_of, found.complete_to) == (moment(20), NOON)
    assert len(found.out_of_order) == 1 and "later than the snapshot" in found.out_of_order[0]
    log.commit(9 * year)
    held = record(log.end())
    assert reached(held, log.copy("t")).as_of == NOON + timedelta(seconds=1)
    replica = reached(replace(held, role="replica"), log.copy("u"))
    assert (replica.as_of, replica.complete_to) == (NOON + timedelta(seconds=1), moment(20))


def test_times_that_contradict_the_order_are_told(log: Log) -> None:
    second = 1_000_000
    log.commit(10, 20, 3600 * second, 30, 40 * second, 39 * second)
    found = reached(record(log.end()), log.copy("s"))
    assert found.as_of == moment(3600 * second)
    (line,) = found.out_of_order
    assert line.startswith("binlog.000001:") and ":3) says 2023-11-14T23:13:20Z, and behind it" in line


@pytest.mark.parametrize("lock", ["ftwrl", "backup-stage"])
def test_under_a_lock_the_log_must_end_where_it_was_recorded_to(log: Log, lock: str) -> None:
    log.commit(10)
    end = log.end()
    reached(record(end, lock), log.copy("exact"))
    log.commit(20)
    with pytest.raises(VerificationFailed, match=f"the log ends at {log.end()}, but {end} was recorded"):
        reached(record(end, lock), log.copy("moved on"))


@pytest.mark.parametrize("lock", ["backup-lock", "none"])
def test_without_one_it_may_have_moved_on_but_not_back(log: Log, lock: str) -> None:
    log.commit(10)
    before = log.end()
    log.commit(20)
    where = log.copy("s")
    reached(record(before, lock), where)
    beyond = LogPosition.of(before.file, log.end().offset + 1)
    with pytest.raises(VerificationFailed):
        reached(record(beyond, lock), where)


def test_only_locks_that_stop_commits_are_exact() -> None:
    assert [is_exact(record(None, lock)) for lock in ("ftwrl", "backup-stage", "backup-lock", "none")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_replay_goes_from_the_base_to_the_target(log: Log) -> None:
    log.commit(10)
    base = BackupFiles(record(log.end()), log.copy("base"))
    log.commit(20, 30)
    log.rotate()
    log.commit(40, 50, 45)
    later = BackupFiles(record(log.end()), log.copy("later"))
    found = READER.examine(base, later, Time(moment(50)))
    assert found.transactions == 3
    assert found.last_applied is not None and found.last_applied.committed == moment(40)
    assert found.first_skipped is not None and found.first_skipped.committed == moment(50)
    assert found.out_of_order == 1
    assert found.effective_target == moment(50)


def test_nothing_to_replay(log: Log) -> None:
    log.commit(10)
    base = BackupFiles(record(log.end()), log.copy("base"))
    log.commit(20)
    found = READER.examine(base, BackupFiles(record(log.end()), log.copy("later")), Time(moment(20)))
    assert (found.transactions, found.log_bytes, found.last_applied) == (0, 0, None)


def test_purged_logs_are_a_gap_with_both_ends(log: Log) -> None:
    log.commit(10)
    base = BackupFiles(record(log.end()), log.copy("base"))
    log.rotate()
    log.commit(20)
    log.rotate()
    del log.files[1]
    with pytest.raises(NotRecoverable, match=r"gap.*binlog\.000001.*binlog\.000002 to binlog\.000003"):
        READER.examine(base, BackupFiles(record(log.end()), log.copy("later")), Time(moment(99)))


def test_a_hole_in_the_middle_is_a_gap(log: Log) -> None:
    log.commit(10)
    base = BackupFiles(record(log.end()), log.copy("base"))
    for _ in range(3):
        log.rotate()
        log.commit(20)
    del log.files[3]
    with pytest.raises(NotRecoverable, match=r"between binlog\.000002 and binlog\.000004"):
        READER.examine(base, BackupFiles(record(log.end()), log.copy("later")), Time(moment(99)))


def test_another_servers_log_of_the_same_name_is_refused(log: Log, tmp_path: Path) -> None:
    log.commit(10)
    base = BackupFiles(record(log.end()), log.copy("base"))
    (tmp_path / "other").mkdir()
    other = Log(tmp_path / "other")
    other.commit(11, 20, 30)
    with pytest.raises(NotRecoverable, match="another server"):
        READER.examine(base, BackupFiles(record(other.end()), other.copy("s")), Time(moment(99)))


def test_a_log_that_ends_before_the_base_is_refused(log: Log) -> None:
    log.commit(10)
    earlier = BackupFiles(record(log.end()), log.copy("earlier"))
    log.commit(20)
    with pytest.raises(NotRecoverable):
        READER.examine(BackupFiles(record(log.end()), log.copy("base")), earlier, Time(moment(99)))


def test_a_backup_without_its_logs_dataset_is_refused(log: Log) -> None:
    with pytest.raises(Refused, match="is not part of this backup"):
        reached(record(log.end()), Relocation((("/srv/data", "/c/0"),)))


def test_mariadbs_clock_knows_whole_seconds_and_the_rest_is_left_out() -> None:
    target = Time(moment(999_999), accept_clock=True)
    assert effective_stop("mysql", target) == target
    assert effective_stop("mariadb", target) == Time(moment(0), accept_clock=True)


def test_the_cut_is_before_the_transaction_that_is_named_whatever_its_time(log: Log) -> None:
    log.commit(10)
    base = BackupFiles(record(log.end()), log.copy("base"))
    log.rotate()
    log.commit(20, 20, 20, 20, 5)
    later = BackupFiles(record(log.end()), log.copy("log"))
    name = LogPosition.of("binlog.000002", log.files[2].written[2].start + 1)
    found = SEARCH.find(name, [later, base]).found
    assert found and found.gtid.endswith(":4")
    replay = READER.examine(base, later, found)
    assert replay and (replay.transactions, replay.out_of_order) == (2, 0)
    assert replay.first_skipped == found
    assert replay.last_applied and replay.last_applied.end == found.start
    with pytest.raises(NotRecoverable, match=r"it holds the transaction at \S+ already"):
        READER.examine(later, later, found)
    with pytest.raises(VerificationFailed, match="has another transaction at"):
        READER.examine(base, later, replace(found, gtid="other"))


def test_a_gtid_has_to_be_of_the_servers_flavour() -> None:
    mariadb = replace(SEARCH, flavor="mariadb")
    uuid = parse_transaction("3e11fa47-71ca-11e1-9e33-c80aa9429562:1")
    with pytest.raises(UsageError, match="0-1-7 is no GTID of a mysql server: there they are UUID:NUMBER"):
        SEARCH.check_name(parse_transaction("0-1-7"))
    with pytest.raises(UsageError, match="they are DOMAIN-SERVER-NUMBER"):
        mariadb.check_name(uuid)
    SEARCH.check_name(uuid)
    mariadb.check_name(parse_transaction("binlog.000001:4"))


def test_a_client_is_told_how_to_connect() -> None:
    path, line = RECOVERY.connection(Path("/run/z b/r1"), 0)
    assert path == "/run/z b/r1/mysqld.sock"
    assert line == "mysql '--socket=/run/z b/r1/mysqld.sock' --user=root --password"
    assert "--port=3307" in RECOVERY.connection(Path("/run/r1"), 3307)[1]


@pytest.mark.parametrize("noted", [True, False])
def test_what_mariadb_notes_behind_the_recorded_end_is_no_transaction(tmp_path: Path, noted: bool) -> None:
    log = Builder(mariadb=True)
    log.maria(1_700_000_000, 1)
    end = f"binlog.000001:{len(log.data)}"
    if noted:
        log.event(events.BINLOG_CHECKPOINT, b"\x0d\0\0\0binlog.000001")
    else:
        log.maria(1_700_000_001, 2)
    file = tmp_path / "binlog.000001"
    file.write_bytes(log.data)
    record = replace(PLAIN, engine="mariadb", position=end)
    assert (str(end_found(record, file)) == end) is noted
    assert str(end_found(replace(record, engine="mysql"), file)) != end


def test_a_time_of_the_future_is_told_from_the_clock_when_the_log_was_read(log: Log) -> None:
    second = 1_000_000
    log.commit(0)
    base = BackupFiles(record(log.end()), log.copy("base"))
    log.commit(second, 10**9 * second, 60 * second, 61 * second)
    later = BackupFiles(record(log.end()), log.copy("later"))
    now = NOW + 100 * second
    anchor = Anchor(position=(1, log.end().offset), earliest=now, latest=now, clock=Reading("b", 1.0, False))
    found = READER.examine(base, later, Time(moment(61 * second)), (anchor,))
    assert (found.transactions, found.later) == (3, None)
    disputed = READER.examine(base, later, Time(moment(30 * second)), (anchor,))
    assert disputed.first_skipped and disputed.first_skipped.gtid.endswith(":3")
    assert disputed.later and disputed.later.transactions == 2
    assert disputed.later.first_skipped and disputed.later.first_skipped.gtid.endswith(":4")
    whole = READER.examine(base, later, WholeLog(moment(30 * second)))
    assert (whole.transactions, whole.first_skipped, whole.later) == (4, None, None)


def test_a_server_on_a_backup_as_it_is_finds_its_log_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index names files by paths with links in them."""
    called: list[str] = []

    class Server:
        def __getattr__(self, name: str) -> Any:
            if name == "recovering":
                raise ConnectionAbortedError
            return lambda: called.append(name)

    monkeypatch.setattr(MysqlRecovery, "_server", lambda *_: Server())
    log = Log(tmp_path)
    log.commit(10)
    base = RecoveryFiles(record=record(log.end()), where=log.copy("s"), home=tmp_path, run=tmp_path, hide=())
    progress = SimpleNamespace(phase=lambda *_: None)
    with pytest.raises(ConnectionAbortedError):
        RECOVERY.open(base, None, cast(Any, progress))
    assert "name_log_files" in called
