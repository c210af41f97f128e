"""The log that a backup holds, and whether a later one, or the live one, is the same: from the files
alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.mysql.test_recovery_of_files import READER, Log, record
from tests.unit.samples import NOON
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, DifferentLog, GapError
from zbackup.engines.mysql.binlog.reader import transactions
from zbackup.model.backup import BackupFiles
from zbackup.model.log import LogSpan
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def backup(log: Log, name: str) -> BackupFiles:
    """What is known of a backup of the log as it is now."""
    where = log.copy(name)
    plain = record(log.end())
    span = READER.log_span(plain, where)
    return BackupFiles(plain.with_log("a log", span), where)


def test_the_span_is_from_the_oldest_file_to_behind_the_last_transaction(log: Log) -> None:
    log.commit(10)
    log.rotate()
    log.commit(20)
    held, _ = backup(log, "s")
    assert (held.log_from, held.log_to) == ("binlog.000001:4", str(log.end()))


def finished(held: Record, where: Relocation) -> Record:
    reach = READER.reach(held, where, NOON)
    return held.with_end(as_of=reach.as_of, complete_to=reach.complete_to)


LATER: tuple[tuple[int, ...], ...] = ((), (40,), (20,), (20, 50, 45))


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("rotated", [False, True], ids=["the same file", "a new file"])
@pytest.mark.parametrize("first", [(10, 30, 25), ()])
def test_what_an_older_backup_has_read_need_not_be_read_again(
    log: Log, first: tuple[int, ...], rotated: bool, later: tuple[int, ...]
) -> None:
    """The answers are those of whoever reads everything, times in any order."""
    log.commit(*first)
    older, where = backup(log, "older")
    older = finished(older, where)
    if rotated:
        log.rotate()
    log.commit(*later)
    newer, there = record(log.end()), log.copy("newer")
    assert READER.is_same_log(BackupFiles(older, where), BackupFiles(newer, there))
    assert READER.reach(newer, there, NOON, older) == READER.reach(newer, there, NOON)
    assert READER.log_span(newer, there, older) == READER.log_span(newer, there)


def test_what_an_older_backup_has_read_is_not_read_again(log: Log) -> None:
    log.commit(*range(10))
    older, where = backup(log, "older")
    older = finished(older, where)
    damaged = log.copy("damaged")
    file = damaged.path("/srv/log/binlog.000001")
    body = list(transactions(file))[1].start.offset + 25
    file.write_bytes(file.read_bytes()[:body] + b"damaged" + file.read_bytes()[body + 7 :])
    with pytest.raises(BinlogDamaged):
        READER.reach(older, damaged, NOON)
    assert READER.reach(older, damaged, NOON, older).as_of == older.as_of


def test_a_file_missing_in_between_ends_the_span(log: Log) -> None:
    log.commit(10)
    for _ in range(3):
        log.rotate()
    del log.files[2]
    held, _ = backup(log, "s")
    assert held.log_from == "binlog.000003:4"


def test_a_log_that_grew_is_the_same(log: Log) -> None:
    log.commit(10)
    older = backup(log, "older")
    log.commit(20)
    log.rotate()
    log.commit(30)
    newer = backup(log, "newer")
    assert READER.is_same_log(older, newer)
    assert not READER.is_same_log(newer, older)
    assert READER.live_log(older, log.copy("live")) == LogSpan("binlog.000001:4", older.record.log_to)


def test_a_log_whose_file_was_purged_is_not_proven_and_the_live_one_says_where_it_begins(log: Log) -> None:
    log.commit(10)
    older = backup(log, "older")
    log.rotate()
    del log.files[1]
    log.commit(20)
    assert not READER.is_same_log(older, backup(log, "newer"))
    assert READER.live_log(older, log.copy("live")).first == "binlog.000002:4"


def test_another_log_of_the_same_names_is_not_the_same(log: Log, tmp_path: Path) -> None:
    log.commit(10, 20)
    older = backup(log, "older")
    (tmp_path / "reset").mkdir()
    reset = Log(tmp_path / "reset")
    reset.commit(11, 21, 31)
    newer = backup(reset, "newer")
    assert newer.record.log_from == older.record.log_from
    assert not READER.is_same_log(older, newer)
    with pytest.raises(DifferentLog, match=r"is not the one that ended at binlog\.000001:"):
        READER.live_log(older, reset.copy("live"))


def test_a_log_that_is_gone_is_a_gap(log: Log, tmp_path: Path) -> None:
    log.commit(10)
    older = backup(log, "older")
    (tmp_path / "empty").mkdir()
    nothing = Relocation((("/srv/log", str(tmp_path / "empty")),))
    assert not READER.is_same_log(older, BackupFiles(older.record, nothing))
    with pytest.raises(GapError):
        READER.live_log(older, nothing)


def test_a_replicas_moment_does_not_go_back_when_the_newest_file_has_a_lagging_source_alone(log: Log) -> None:
    log.commit(10, 50)
    held, where = backup(log, "older")
    older = finished(replace(held, role="replica"), where)
    log.rotate()
    log.commit(20)
    newer, there = backup(log, "newer")
    found = READER.reach(replace(newer, role="replica"), there, NOON, older)
    assert (found.as_of, found.complete_to < found.as_of) == (older.as_of, True)
