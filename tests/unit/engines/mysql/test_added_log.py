"""Archived files are put behind a backup's own log, or nothing is changed."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import SERVER
from tests.unit.engines.binlog.test_find_by_name import previous
from tests.unit.engines.mysql.test_recovery_of_files import READER, Log, record
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog.errors import DifferentLog, GapError
from zbackup.engines.mysql.binlog.events import PREVIOUS_GTIDS
from zbackup.engines.mysql.binlog.reader import transactions
from zbackup.engines.mysql.binlog.same_log import TAIL, without_flag
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG
from zbackup.engines.mysql.recovery import added_log
from zbackup.engines.mysql.recovery.added_log import add_log
from zbackup.engines.mysql.recovery.covered_log import covered_files
from zbackup.model.added_log import AddedFile, NotContinued
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import NotRecoverable, VerificationFailed
from zbackup.model.log import LogPosition, LogSpan
from zbackup.model.progress import Silent
from zbackup.model.relocation import Relocation


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Of which files it is asked whose they are: here of whoever runs the tests, and that may be root."""
    files: list[Path] = []

    def owner_of(path: Path) -> tuple[int, int]:
        files.append(path)
        return os.getuid(), os.getgid()

    monkeypatch.setattr(added_log, "owner_of", owner_of)
    return files


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def backup(log: Log, name: str = "backup") -> BackupFiles:
    where = log.copy(name)
    span = READER.log_span(record(log.end()), where)
    return BackupFiles(record(log.end()).with_log("a log", span), where)


def archived(log: Log, since: int = 1) -> list[AddedFile]:
    """As the archive has it: the flag of a file that is being written is cleared."""
    files = sorted((n, without_flag(bytes(b.data), 0)) for n, b in log.files.items() if n >= since)
    return [added(f"binlog.{number:06}", data) for number, data in files]


def added(name: str, data: bytes, size: int | None = None) -> AddedFile:
    def read(begin: int, end: int) -> Iterator[bytes]:
        for at in range(begin, end, 100):
            yield data[at : min(at + 100, end)]

    return AddedFile(name=name, size=len(data) if size is None else size, read=read)


def content(where: Relocation) -> dict[str, bytes]:
    directory = where.path("/srv/log")
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def gtids(subject: BackupFiles) -> list[str]:
    return [t.gtid for file in covered_files(*subject) for t in transactions(file)]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["commit", "rotate"]), max_size=8),
    st.lists(st.sampled_from(["commit", "rotate"]), max_size=8),
)
def test_what_is_there_afterwards_is_the_servers_log(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], behind: list[str]
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))
    for what in before:
        log.commit(10) if what == "commit" else log.rotate()
    held, first = backup(log), max(log.files)
    for what in behind:
        log.commit(20) if what == "commit" else log.rotate()
    live = BackupFiles(held.record, log.copy("live"))
    span = add_log(held, archived(log, first), Silent())
    assert gtids(held) == gtids(live)
    assert content(held.where) == content(live.where)
    assert span == READER.log_span(held.record, live.where)


def test_what_the_backup_holds_behind_its_end_goes(log: Log) -> None:
    """Torn by a crash, or MariaDB's index of what the file held then."""
    log.commit(10)
    held = backup(log)
    log.commit(20)
    log.rotate()
    live = log.copy("live")
    newest = held.where.path("/srv/log/binlog.000001")
    newest.write_bytes(newest.read_bytes() + b"torn")
    newest.with_name("binlog.000001.idx").write_bytes(b"of less")
    newest.with_name("binlog.000002").write_bytes(b"begun, and never listed")
    add_log(held, archived(log), Silent())
    assert content(held.where) == content(live)


def test_a_transaction_that_is_not_all_there_does_not_count(log: Log) -> None:
    log.commit(10)
    held = backup(log)
    log.commit(20)
    end = str(log.end())
    log.commit(30)
    cut = bytes(log.files[1].data)[:-20]
    span = add_log(held, [added("binlog.000001", cut)], Silent())
    assert span == LogSpan("binlog.000001:4", end)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("another server", "begins differently"),
        ("another end", "it differs before"),
        ("shorter", "before binlog.000002"),
    ],
)
def test_another_log_changes_nothing(log: Log, tmp_path: Path, name: str, said: str) -> None:
    log.commit(10)
    log.rotate()
    log.commit(*range(20, 20 + 400 * (name == "another end"), 1) or (20,))
    held = backup(log)
    data = bytearray(log.files[2].data)
    if name == "another server":
        data[4] ^= 1
    elif name == "another end":
        data[-30] ^= 1
    else:
        del data[-30:]
    before = content(held.where)
    with pytest.raises((DifferentLog, GapError), match=said):
        add_log(held, [added("binlog.000002", bytes(data))], Silent())
    assert content(held.where) == before


def test_a_file_without_a_transaction_is_told_by_its_head(log: Log) -> None:
    held = backup(log)
    other = bytearray(log.files[1].data)
    other[4] ^= 1  # the second at which the server began it
    with pytest.raises(DifferentLog, match="begins differently"):
        add_log(held, [added("binlog.000001", bytes(other))], Silent())


@pytest.mark.parametrize(
    "names",
    [
        ["binlog.000002"],
        ["binlog.000001", "binlog.000003"],
        ["binlog.000001", "other.000002"],
        ["binlog.000001", "../../binlog.000002"],
        ["binlog.000001", "binlog.000002\n/etc/passwd"],
        ["binlog.000001", "binlog.²"],
    ],
)
def test_names_are_those_that_follow_and_nothing_else(log: Log, names: list[str]) -> None:
    log.commit(10)
    held = backup(log)
    before = content(held.where)
    with pytest.raises(NotRecoverable):
        add_log(held, [added(name, bytes(log.files[1].data)) for name in names], Silent())
    assert content(held.where) == before


def test_less_than_was_promised_is_no_log(log: Log) -> None:
    log.commit(10)
    held = backup(log)
    log.commit(20)
    data = bytes(log.files[1].data)
    with pytest.raises(VerificationFailed, match=f"of binlog.000001 there are {len(data)} bytes"):
        add_log(held, [added("binlog.000001", data, len(data) + 7)], Silent())


def test_a_file_whose_gtids_tell_that_it_goes_on_from_another_is_not_taken(log: Log) -> None:
    log.files[1].event(PREVIOUS_GTIDS, previous({}, tagged=False))
    held = backup(log)
    log.commit(10)
    log.rotate()
    log.files[2].event(PREVIOUS_GTIDS, previous({str(SERVER): [(1, 4)]}, tagged=False))
    with pytest.raises(NotContinued, match=r"2 does not continue binlog.000001: .* missing") as found:
        add_log(held, archived(log), Silent())
    assert found.value.index == 1


def test_a_log_of_many_transactions_is_told_by_its_end(log: Log) -> None:
    """What is far in front of that is not read again."""
    log.commit(*range(600))
    held = backup(log)
    assert len(log.files[1].data) > 2 * TAIL
    log.commit(700)
    seen: list[tuple[int, int]] = []

    class Watching(Silent):
        def advance(self, done: int, total: int, unit: str = "B") -> None:
            seen.append((done, total))

    more = len(log.files[1].data) - LogPosition.parse(held.record.log_to).offset
    add_log(held, archived(log), Watching())
    assert gtids(held)[-1].endswith(":601")
    assert seen[-1] == (more, more) and seen == sorted(seen)


def test_what_the_server_began_behind_the_end_that_was_recorded_is_written_anew(log: Log) -> None:
    log.commit(10)
    held = backup(log)
    log.commit(20)
    log.rotate()
    live = log.copy("live")
    directory = held.where.path("/srv/log")
    (directory / "binlog.000002").write_bytes(b"begun")
    (directory / "binlog.index").write_text("/srv/log/binlog.000001\n/srv/log/binlog.000002\n")
    add_log(held, archived(log), Silent())
    assert content(held.where) == content(live)


@pytest.mark.parametrize("end", ["binlog.000001:200", "binlog.000003:200", "other.000002:200"])
def test_a_backup_that_lacks_the_file_in_which_its_log_ends_gets_nothing(log: Log, end: str) -> None:
    log.rotate()
    log.commit(10)
    del log.files[1]
    held = backup(log)
    before = content(held.where)
    with pytest.raises(GapError, match=r"does not hold .*, in which its log ends"):
        add_log(BackupFiles(replace(held.record, log_to=end), held.where), archived(log, 2), Silent())
    assert content(held.where) == before


@pytest.mark.parametrize("plain", [False, True])
def test_a_copy_of_an_encrypted_log_is_ours_and_the_servers_own_stays(
    log: Log, asked: list[Path], *, plain: bool
) -> None:
    log.commit(10)
    held = backup(log)
    log.commit(20)
    log.rotate()
    log.commit(30)
    directory = held.where.path("/srv/log")
    own = directory.with_name("sealed")
    if plain:
        own.mkdir()
        (own / "binlog.index").write_text("/srv/log/binlog.000007\n")
        (directory / "binlog.index").unlink()
        where = Relocation((("/srv/log", str(own)), ("/srv/plain", str(directory))))
        server = held.record.server | {PLAIN_LOG: "/srv/plain"}
        held = BackupFiles(replace(held.record, server=server), where)
    add_log(held, archived(log), Silent())
    assert gtids(held) == [each.gtid for number in (1, 2) for each in log.files[number].written]
    if plain:
        assert (own / "binlog.index").read_text() == "/srv/log/binlog.000007\n"
        assert sorted(directory.iterdir()) == [directory / "binlog.000001", directory / "binlog.000002"]
        assert asked == []
    else:
        assert asked == [directory / "binlog.000001"]
