"""Reading a log without any server: the live one, an encrypted one, what no replay can do."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.binlog.test_search_by_filter import statement, transaction
from tests.unit.engines.mysql.test_recovery_of_files import READER, SEARCH, Log, moment, record
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Refused
from zbackup.model.log_entry import LogEntry, LogFilter
from zbackup.model.target import WholeLog

START = "binlog.000001:4"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def held(log: Log, name: str) -> BackupFiles:
    return BackupFiles(replace(record(log.end()), log_to=str(log.end())), log.copy(name))


@pytest.mark.parametrize(
    "ask",
    [
        lambda files: READER.live_log(files, files.where),
        lambda files: READER.live_log_damage(files, files.where),
        lambda files: READER.unreplayable(files, START, live=True),
    ],
)
def test_the_live_log_is_not_read_out_of_a_copy_that_nobody_keeps_up(
    log: Log, tmp_path: Path, ask: Callable[[BackupFiles], object]
) -> None:
    log.commit(10)
    files = held(log, "live")
    ask(files)
    sealed = replace(files.record, server=files.record.server | {PLAIN_LOG: "/srv/log"})
    with pytest.raises(Refused, match=r"the configuration says these \(plain_log\)"):
        ask(BackupFiles(sealed, files.where))
    READER.unreplayable(BackupFiles(sealed, files.where), START)


def test_of_a_log_that_cannot_be_read_nothing_is_known(log: Log) -> None:
    log.commit(10)
    files = held(log, "s")
    off = replace(files.record, server={"blockers": "the binlog is off: set log_bin"})
    assert READER.unreplayable(BackupFiles(off, files.where), START) == ()
    with pytest.raises(Refused, match="the log cannot be read: the binlog is off"):
        list(SEARCH.history([BackupFiles(off, files.where)], LogFilter()))


@pytest.mark.parametrize(("setting", "found"), [("0", 1), ("1", 2), ("2", 2), ("", 1)])
def test_names_are_looked_for_as_the_server_takes_them(log: Log, setting: str, found: int) -> None:
    """lower_case_table_names; it is recorded where it is not 0."""
    transaction(log.files[1], 1, (30, "shop.t"))
    transaction(log.files[1], 2, (30, "SHOP.T"))
    files = held(log, "s")
    facts = {"lower_case_table_names": setting} if setting else {}
    there = BackupFiles(replace(files.record, server=files.record.server | facts), files.where)
    told = SEARCH.history([there], LogFilter(tables=("SHOP.T",)))
    assert len([entry for entry in told if isinstance(entry, LogEntry)]) == found


def test_what_no_server_can_replay_is_told_where_it_is_in_the_way(log: Log) -> None:
    log.commit(10)
    base = held(log, "base")
    statement(log.files[1], 2, b"ALTER TABLE orders IMPORT TABLESPACE")
    later = held(log, "later")
    (found,) = READER.unreplayable(later, START)
    assert READER.unreplayable(later, found.transaction.end) == ()
    assert READER.unreplayable(later, START, live=True) == (found,)
    assert READER.examine(base, later, WholeLog(moment(99))).stopped == found
    assert READER.examine(base, base, WholeLog(moment(99))).stopped is None


def test_what_a_plugin_does_stops_where_the_backup_had_none_of_that_name(log: Log) -> None:
    """One that was installed since is in no log: the daemon's next backup has it."""
    log.commit(10)

    def having(files: BackupFiles, *names: str) -> BackupFiles:
        facts = files.record.server | {"plugin_names": " ".join(names)}
        return BackupFiles(replace(files.record, server=facts), files.where)

    base = held(log, "base")
    statement(log.files[1], 2, b"CREATE USER a IDENTIFIED VIA ed25519 USING 'x'")
    later = held(log, "later")
    lacks, has = having(base, "innodb"), having(base, "ed25519", "innodb")
    stopped = READER.examine(lacks, later, WholeLog(moment(99))).stopped
    assert stopped and stopped.why.startswith("it needs the authentication plugin ed25519, which the server")
    for none in (base, has):
        assert READER.examine(none, later, WholeLog(moment(99))).stopped is None
    assert READER.unreplayable(having(later, "ed25519"), START, base=lacks.record) == (stopped,)
    for subject, found in ((lacks, (stopped,)), (has, ()), (lacks, (stopped,))):
        live = BackupFiles(subject.record, later.where)
        assert READER.unreplayable(live, START, live=True) == found, "what was read is judged again"
