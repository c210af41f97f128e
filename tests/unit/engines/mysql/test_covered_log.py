"""A log with the same names is, or is not, the one that a backup holds; and from where it is read on."""

import struct
import zlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.mysql.test_recovery_of_files import NOW, READER, SEARCH, Log, moment, record
from tests.unit.examples import examples
from tests.unit.samples import NOON
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, DifferentLog
from zbackup.engines.mysql.binlog.events import IGNORABLE
from zbackup.engines.mysql.binlog.reader import transactions
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG
from zbackup.engines.mysql.recovery.replay_bounds import rules_for
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import LogPosition
from zbackup.model.relocation import Relocation
from zbackup.model.target import Time, WholeLog


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def backup(log: Log, name: str) -> BackupFiles:
    where, end = log.copy(name), log.end()
    last = list(transactions(where.path("/srv/log") / end.file))
    held = record(end)
    return BackupFiles(replace(held, log_to=str(last[-1].end) if last else f"{end.file}:4"), where)


def begun_another_second(log: Log, number: int) -> None:
    """The file is one that its server, or another one, began at another time."""
    data, end = log.files[number].data, len(Builder().data)
    data[4] ^= 1
    data[end - 4 : end] = struct.pack("<I", zlib.crc32(data[4 : end - 4]))


@pytest.mark.parametrize("purged", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_a_file_in_which_nothing_was_committed_is_told_by_its_beginning(
    log: Log, *, same: bool, purged: bool
) -> None:
    """A log that was reset, or another server's, comes to the same number again."""
    log.commit(10)
    log.rotate()
    if purged:
        del log.files[1]
    base = backup(log, "base")
    log.commit(20)
    if not same:
        begun_another_second(log, 2)
    later = backup(log, "later")
    assert READER.is_same_log(base, later) is same
    if same:
        assert READER.examine(base, later, WholeLog(moment(99))).transactions == 1
        READER.live_log(base, later.where)
        return
    with pytest.raises(NotRecoverable, match="belongs to another server"):
        READER.examine(base, later, WholeLog(moment(99)))
    with pytest.raises(DifferentLog, match=r"is not the one that ended at binlog\.000002:4"):
        READER.live_log(base, later.where)


def damaged(where: Relocation, file: str, at: int) -> None:
    path = where.path("/srv/log") / file
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(bytes(data))


def test_what_an_earlier_backup_has_read_is_not_read_again(log: Log) -> None:
    """What is damaged there since is told by who verifies, and a restore from before it."""
    log.rotate()
    log.commit(10, 20)
    log.rotate()
    log.commit(25, 30)
    earlier = backup(log, "earlier").record
    log.commit(40)
    held = backup(log, "later")
    damaged(held.where, "binlog.000002", log.files[2].written[1].start + 30)
    damaged(held.where, "binlog.000003", log.files[3].written[1].start + 30)
    span = READER.log_span(held.record, held.where, earlier)
    assert span and (span.first, span.last) == ("binlog.000001:4", str(log.end()))
    seen = replace(earlier, as_of=moment(30))
    assert READER.reach(held.record, held.where, NOON, seen).as_of == moment(40)
    with pytest.raises(BinlogDamaged):
        READER.log_span(held.record, held.where)
    with pytest.raises(BinlogDamaged):
        READER.reach(held.record, held.where, NOON)


def test_a_file_in_which_nothing_followed_ends_where_it_was_seen_to(log: Log) -> None:
    log.commit(10)
    earlier = backup(log, "earlier").record
    log.files[1].rotate("binlog.000002")
    held = backup(log, "later")
    span = READER.log_span(held.record, held.where, earlier)
    assert span and span.last == earlier.log_to


def test_of_a_server_whose_log_is_encrypted_the_copy_is_read(log: Log, tmp_path: Path) -> None:
    log.commit(10)
    held = backup(log, "plain")
    where = Relocation((*held.where.moves, ("/srv/plain", str(tmp_path / "plain"))))
    (tmp_path / "sealed").mkdir()
    (tmp_path / "sealed" / "binlog.index").write_text("/srv/log/binlog.000007\n")
    (tmp_path / "sealed" / "binlog.000007").write_bytes(b"\xfdbin nobody can read this")
    where = Relocation((("/srv/log", str(tmp_path / "sealed")), ("/srv/plain", str(tmp_path / "plain"))))
    record = replace(held.record, server=held.record.server | {PLAIN_LOG: "/srv/plain"})
    span = READER.log_span(record, where)
    assert span and (span.first, span.last) == ("binlog.000001:4", str(log.end()))


COMMITS = st.lists(st.sampled_from([5, 10, 30, 60, "rotate"]), max_size=6)


@settings(max_examples=examples(40), deadline=None)
@given(COMMITS, COMMITS, st.sampled_from(["primary", "replica"]))
def test_a_backup_reaches_to_its_last_commit_whatever_was_read_before(
    tmp_path_factory: pytest.TempPathFactory, before: list[Any], behind: list[Any], role: Any
) -> None:
    """And no further than to the latest: what stands before a commit was not committed after it."""
    log = Log(tmp_path_factory.mktemp("log"))
    for what in before:
        log.rotate() if what == "rotate" else log.commit(what)
    held, where = backup(log, "earlier")
    held = replace(held, role=role)
    found = READER.reach(held, where, NOON)
    earlier = replace(held, as_of=found.as_of, complete_to=found.complete_to)
    for what in behind:
        log.rotate() if what == "rotate" else log.commit(what)
    held, where = backup(log, "later")
    held = replace(held, role=role)
    read_on, read_all = READER.reach(held, where, NOON, earlier), READER.reach(held, where, NOON)
    commits = [each.micros - NOW for builder in log.files.values() for each in builder.written]
    for found in (read_on, read_all):
        assert moment(commits[-1]) <= found.as_of if commits else found.as_of == NOON
        assert found.as_of <= (moment(max(commits)) if commits and role == "primary" else NOON)
    # Who took it for another role, or read nothing, is no help.
    for other in (
        replace(earlier, role="primary" if role == "replica" else "replica"),
        replace(earlier, as_of=None),
    ):
        assert READER.reach(held, where, NOON, other) == read_all


def test_all_that_was_committed_since_counts_and_in_the_same_file_what_was_before(log: Log) -> None:
    log.commit(50)
    earlier = replace(backup(log, "earlier").record, as_of=moment(50))
    log.commit(30)
    held, where = backup(log, "same")
    assert READER.reach(held, where, NOON, earlier).as_of == moment(50)
    log.rotate()
    log.commit(40)
    log.rotate()
    held, where = backup(log, "later")
    assert READER.reach(held, where, NOON, earlier).as_of == moment(40)
    log.commit(20)
    held, where = backup(log, "latest")
    assert READER.reach(held, where, NOON, earlier).as_of == moment(40)


def test_where_nothing_was_committed_since_the_earlier_backup_tells(log: Log) -> None:
    log.commit(50)
    earlier = replace(backup(log, "earlier").record, as_of=moment(50))
    log.rotate()
    held, where = backup(log, "later")
    assert READER.reach(held, where, NOON, earlier).as_of == moment(50)


def test_a_replicas_backup_holds_what_an_earlier_one_held(log: Log) -> None:
    log.commit(60)
    earlier = replace(backup(log, "earlier").record, role="replica", as_of=moment(60))
    log.rotate()
    log.commit(10)
    held, where = backup(log, "later")
    found = READER.reach(replace(held, role="replica"), where, NOON, earlier)
    assert (found.as_of, found.complete_to) == (moment(60), moment(10))
    # By the clock of that time, which was ahead: no later than this snapshot.
    ahead = replace(earlier, as_of=NOON + timedelta(days=1))
    assert READER.reach(replace(held, role="replica"), where, NOON, ahead).as_of == NOON + timedelta(
        seconds=1
    )


def test_the_first_transaction_behind_the_base_can_be_the_one_to_stop_before(log: Log) -> None:
    log.commit(10)
    base = backup(log, "base")
    log.commit(20)
    later = backup(log, "later")
    found = SEARCH.find(LogPosition.of("binlog.000001", log.files[1].written[1].start), [later]).found
    assert found
    replay = READER.examine(base, later, found)
    assert (replay.transactions, replay.first_skipped) == (0, found)


@pytest.mark.parametrize(
    ("engine", "version", "role", "starts", "replica"),
    [
        ("mysql", "9.7.4", "primary", False, False),
        ("mysql", "5.7.44", "primary", True, False),
        ("mariadb", "10.11.18-MariaDB", "replica", True, True),
    ],
)
def test_what_is_ordinary_in_a_logs_times(
    engine: Any, version: str, role: Any, *, starts: bool, replica: bool
) -> None:
    """MariaDB and MySQL 5.7 log when a statement began; a replica's times are its source's."""
    held = replace(record(None, engine=engine), server_version=version, role=role)
    rules = rules_for(held)
    assert (rules.starts, rules.replica) == (starts, replica)


def test_where_the_log_makes_tables_elsewhere_is_told_of_what_is_replayed_alone(log: Log) -> None:
    def outside(name: str) -> None:
        text = f"CREATE TABLE t (a INT) DATA DIRECTORY = '/far/{name}'"
        log.files[max(log.files)].event(IGNORABLE, text.encode(), flags=0x80)

    outside("before")
    log.rotate()
    log.commit(10)
    base = backup(log, "base")
    log.rotate()
    log.commit(20)
    outside("within")
    log.rotate()
    log.commit(30)
    log.rotate()
    log.commit(40)
    outside("behind")
    log.commit(50)
    later = backup(log, "later")
    assert READER.examine(base, later, Time(moment(31))).outside == ("/far/within",)
    assert READER.examine(base, later, Time(moment(99))).outside == ("/far/within", "/far/behind")


def test_a_log_whose_file_is_gone_is_not_the_same(log: Log) -> None:
    log.commit(10)
    earlier = backup(log, "earlier")
    log.rotate()
    del log.files[1]
    later = backup(log, "later")
    assert not READER.is_same_log(earlier, later)
    assert not READER.is_same_log(BackupFiles(earlier.record, later.where), earlier)


def test_a_log_begins_behind_the_last_number_that_is_missing(log: Log) -> None:
    for _ in range(4):
        log.commit(10)
        log.rotate()
    del log.files[2]
    held = backup(log, "held")
    span = READER.log_span(held.record, held.where)
    assert span and span.first == "binlog.000003:4"
    assert READER.live_log(held, held.where).first == "binlog.000003:4"


def test_all_of_it_was_there_when_the_server_began_its_newest_file(log: Log) -> None:
    """What a recovered server has that was put to work came with the files, and is in no log of it."""
    log.commit(-5_000_000)
    held, where = backup(log, "held")
    assert READER.reach(held, where, NOON).as_of == moment(0)
    assert READER.reach(replace(held, role="replica"), where, NOON).as_of == moment(-5_000_000)


def test_of_many_times_that_cannot_be_some_are_told_and_how_many_more_there_are(log: Log) -> None:
    year = 365 * 24 * 3600 * 1_000_000
    for number in range(7):
        log.files[1].mysql(NOW + (9 + number) * year, number, anonymous=True)
        log.commit(number)
    held, where = backup(log, "held")
    *told, more = READER.reach(held, where, NOON).out_of_order
    assert (len(told), more) == (5, "and 2 more")
    assert all("GTID" not in line and line.startswith("binlog.000001:") for line in told)


@pytest.mark.parametrize("bytes_there", [4, 0])
def test_a_file_that_was_begun_this_instant_says_nothing_yet(log: Log, bytes_there: int) -> None:
    log.commit(-5_000_000)
    log.rotate()
    del log.files[2].data[bytes_there:]
    held, where = BackupFiles(record(log.end()), log.copy("held"))
    assert READER.reach(held, where, NOON).as_of == moment(-5_000_000)


def test_the_newest_file_in_which_something_was_committed_tells(log: Log) -> None:
    """What is in front of it was not committed later, and is not read."""
    log.commit(50)
    log.rotate()
    log.commit(30)
    log.rotate()
    held, where = backup(log, "held")
    assert READER.reach(held, where, NOON).as_of == moment(30)
