"""Whether a log that has the same names is the one that a backup holds, and from where it is read on."""

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.mysql.test_recovery_of_files import READER, Log, moment, record
from zbackup.engines.mysql.binlog.errors import DifferentLog
from zbackup.engines.mysql.binlog.reader import transactions
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import NotRecoverable
from zbackup.model.target import WholeLog


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


@pytest.mark.parametrize("same", [True, False])
def test_a_file_in_which_nothing_was_committed_is_told_by_its_beginning(log: Log, *, same: bool) -> None:
    """A log that was reset, or another server's, comes to the same number again."""
    log.commit(10)
    log.rotate()
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
