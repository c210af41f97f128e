"""A transaction that was being written when the snapshot was taken: it had its commit time before.

MySQL stops no commits for a snapshot where it need not, nor does one that is taken for its log alone.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.mysql.test_recovery_of_files import READER, Log, moment, record
from zbackup.model.backup import BackupFiles
from zbackup.model.record import Record
from zbackup.model.recovery import Reach
from zbackup.model.relocation import Relocation
from zbackup.model.target import Time

TAKEN = moment(1000)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def held(log: Log) -> Record:
    return replace(record(log.end(), lock="backup-lock"), taken=TAKEN, log_to=str(log.end()))


def cut(log: Log, name: str, size: int) -> Relocation:
    """What a snapshot has while the last `size` bytes are not written yet."""
    where = log.copy(name)
    file = where.path("/srv/log") / log.end().file
    file.write_bytes(file.read_bytes()[:-size])
    return where


def reached(of: Record, where: Relocation, since: Record | None = None) -> Reach:
    return READER.reach(of, where, TAKEN, since)


def test_a_backup_is_complete_up_to_what_is_half_written(log: Log) -> None:
    """From its log a restore to a moment behind that would be without it, and from a later one with it."""
    log.commit(10)
    base, start = held(log), log.copy("base")
    log.commit(20)
    torn, whole = cut(log, "torn", 30), log.copy("whole")
    found = reached(base, torn)
    assert (found.as_of, found.complete_to) == (moment(10), moment(20))
    assert reached(base, whole).complete_to == TAKEN
    applied = [
        READER.examine(BackupFiles(base, start), BackupFiles(base, where), Time(moment(500))).transactions
        for where in (torn, whole)
    ]
    assert applied == [0, 1]


def test_without_its_first_event_it_may_be_of_any_time_behind_the_last_one(log: Log) -> None:
    log.commit(10, 15)
    base = held(log)
    log.commit(20)
    *_, last = log.files[1].written
    where = cut(log, "torn", last.end - last.start - 10)
    assert reached(base, where).complete_to == moment(15)


def test_what_was_read_before_is_known(log: Log) -> None:
    log.commit(10, 15)
    earlier, there = held(log), log.copy("earlier")
    first = reached(earlier, there)
    earlier = earlier.with_end(as_of=first.as_of, complete_to=first.complete_to)
    log.commit(20)
    torn = cut(log, "torn", 30)
    assert reached(earlier, torn, earlier) == reached(earlier, torn)
    *_, last = log.files[1].written
    shorter = cut(log, "shorter", last.end - last.start - 10)
    assert reached(earlier, shorter, earlier) == reached(earlier, shorter)


def test_the_first_one_of_a_log_counts_as_well(log: Log) -> None:
    empty = held(log)
    log.commit(20)
    assert reached(empty, cut(log, "torn", 30)).complete_to == moment(20)
    written, *_ = log.files[1].written
    shorter = reached(empty, cut(log, "shorter", written.end - written.start - 10))
    assert shorter.complete_to < moment(20)


def test_an_older_file_that_a_crash_cut_off_says_nothing(log: Log) -> None:
    log.commit(10, 20)
    where = cut(log, "crashed", 30)
    log.rotate()
    (where.path("/srv/log") / "binlog.000002").write_bytes(log.files[2].data)
    with (where.path("/srv/log") / "binlog.index").open("a") as index:
        index.write("/srv/log/binlog.000002\n")
    assert reached(replace(held(log), position="binlog.000002:4"), where).complete_to == TAKEN
