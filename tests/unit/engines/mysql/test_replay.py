"""Following an applier: it must stop at the end of the range and nowhere else."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.recovery import replay, replay_mariadb, replay_mysql
from zbackup.engines.mysql.recovery.replay import IDLE_POLLS, Applier, LogRange, follow
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql import quoting
from zbackup.model.errors import DatabaseError, VerificationFailed
from zbackup.model.log import LogPosition
from zbackup.model.progress import Silent


class Bar(Silent):
    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        self.seen.append((done, total))


def position(text: str) -> LogPosition:
    return LogPosition.parse(text)


@pytest.fixture
def span(tmp_path: Path) -> LogRange:
    """100 bytes of the first file, all 300 of the second, 50 of the third."""
    files = []
    for number, size in enumerate((200, 300, 400), 1):
        files.append(tmp_path / f"binlog.{number:06}")
        files[-1].write_bytes(bytes(size))
    start, stop = position("binlog.000001:100"), position("binlog.000003:50")
    return LogRange(files=tuple(files), start=start, stop=stop, ends_file=False)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "POLL_S", 0.0)


def look(*states: Applier) -> Callable[[], Applier]:
    """The states one after the other; the last one for ever."""
    left = list(states)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def applier(at: str | None, *, running: bool = True, idle: bool = False, error: str = "") -> Applier:
    return Applier(running=running, idle=idle, position=position(at) if at else None, error=error)


@pytest.mark.parametrize(
    ("at", "bytes_done"),
    [
        ("binlog.000001:100", 0),
        ("binlog.000001:4", 0),
        ("binlog.000001:150", 50),
        ("binlog.000002:4", 104),
        ("binlog.000003:50", 450),
        ("other.000009:50", 0),
    ],
)
def test_progress_is_counted_over_all_files(span: LogRange, at: str, bytes_done: int) -> None:
    assert span.done(position(at)) == bytes_done
    assert span.total == 450


def test_it_returns_when_the_applier_stopped_at_the_end(span: LogRange) -> None:
    bar = Bar()
    follow(
        look(
            applier(None),
            applier("binlog.000001:150"),
            applier("binlog.000003:90"),
            applier("binlog.000003:50", running=False),
        ),
        span,
        bar,
    )
    assert bar.seen == [(50, 450), (450, 450), (450, 450)]


@pytest.mark.parametrize("at", ["binlog.000003:49", "binlog.000003:51", "binlog.000002:50", None])
def test_stopping_anywhere_else_is_a_failure(span: LogRange, at: str | None) -> None:
    with pytest.raises(VerificationFailed, match="replay stopped at"):
        follow(look(applier(at, running=False)), span, Silent())


@pytest.mark.parametrize(
    ("at", "ends_file", "reached"),
    [
        ("binlog.000003:50", False, True),
        ("binlog.000003:50", True, True),
        ("binlog.000004:4", True, True),
        ("binlog.000004:4", False, False),
        ("binlog.000004:5", True, False),
        ("binlog.000005:4", True, False),
        ("binlog.000003:4", True, False),
        (None, True, False),
    ],
)
def test_the_next_files_start_is_the_end_only_if_nothing_is_left(
    span: LogRange, at: str | None, ends_file: bool, reached: bool
) -> None:
    log = replace(span, ends_file=ends_file)
    assert log.is_end(position(at) if at else None) == reached


def test_its_error_is_passed_on(span: LogRange) -> None:
    failed = applier("binlog.000003:50", running=False, error="Duplicate entry '1'")
    with pytest.raises(VerificationFailed, match="replay failed: Duplicate entry '1'"):
        follow(look(applier("binlog.000001:150"), failed), span, Silent())


def test_running_out_of_log_is_not_waited_out_for_ever(span: LogRange) -> None:
    waiting = applier("binlog.000002:300", idle=True)
    with pytest.raises(VerificationFailed, match=r"all of the log but not reached binlog\.000003:50"):
        follow(look(waiting), span, Silent())


def test_a_pause_is_not_the_end_of_the_log(span: LogRange) -> None:
    waiting, working = applier("binlog.000002:300", idle=True), applier("binlog.000003:40")
    states = [*[waiting] * IDLE_POLLS, working, *[waiting] * IDLE_POLLS]
    follow(look(*states, applier("binlog.000003:50", running=False)), span, Silent())


class Answers:
    """A server that gives one answer to every question."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row

    def one(self, statement: str) -> dict[str, Any]:
        return self.row

    def rows(self, statement: str) -> list[dict[str, Any]]:
        return [self.row]


def maria(sql_state: str | None, io_state: str | None, file: str = "binlog.000001") -> Applier:
    row = {
        "Relay_Master_Log_File": file,
        "Exec_Master_Log_Pos": 4,
        "Slave_SQL_Running": "Yes",
        "Slave_SQL_Running_State": sql_state,
        "Slave_IO_State": io_state,
        "Last_SQL_Error": "",
        "Last_IO_Error": "",
    }
    return replay_mariadb.applier_state(cast(Connection, Answers(row)))


def mysql(state: str | None, channel: str = "zbackup") -> Applier:
    row = {
        "Channel_Name": channel,
        "Relay_Log_File": "binlog.000001",
        "Relay_Log_Pos": 4,
        "Replica_SQL_Running": "Yes",
        "Replica_SQL_Running_State": state,
        "Last_SQL_Errno": 0,
    }
    return replay_mysql.applier_state(cast(Connection, Answers(row)))


def test_an_applier_is_idle_only_when_it_has_read_all() -> None:
    read_all, waits = "Slave has read all relay log; waiting for more", "Waiting for master to send event"
    assert maria(read_all, waits).idle
    assert mysql("Replica has read all relay log; waiting for more updates").idle
    for sql_state, io_state in ((read_all, "Queueing"), ("Reading", waits), (None, waits), (read_all, None)):
        assert not maria(sql_state, io_state).idle
    for state in ("Reading event", "", None):
        assert not mysql(state).idle


def test_a_mariadb_that_has_not_begun_is_nowhere() -> None:
    assert maria("Slave has read all relay log", None).position == position("binlog.000001:4")
    assert maria(None, None, "").position is None


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([{"message": "no row"}], "no row"),
        ([], "the coordinator stopped"),
        (
            [{"message": "Error 'x' on query. Default database: 's'. Query: 'UPDATE t SET a = 'secret''"}],
            "Error 'x' on query. Default database: 's'. Query: 'UPDATE t SET a = '***''",
        ),
    ],
)
def test_the_error_of_a_worker_says_more_than_that_there_was_one(
    workers: list[dict[str, Any]], said: str
) -> None:
    class Failed(Answers):
        def rows(self, statement: str) -> list[dict[str, Any]]:
            return workers if "by_worker" in statement else [self.row]

    row = {
        "Channel_Name": "zbackup",
        "Relay_Log_File": "binlog.000001",
        "Relay_Log_Pos": 4,
        "Replica_SQL_Running": "No",
        "Replica_SQL_Running_State": "",
        "Last_SQL_Errno": 1032,
        "Last_SQL_Error": "the coordinator stopped",
    }
    assert replay_mysql.applier_state(cast(Connection, Failed(row))).error == said


def test_a_replay_whose_channel_is_gone_is_a_failure() -> None:
    with pytest.raises(VerificationFailed, match="lost the replay's channel"):
        mysql("", channel="another")


def unquoted(literal: str) -> str:
    """As the server reads it (sql_mode without NO_BACKSLASH_ESCAPES)."""
    assert literal[0] == literal[-1] == "'"
    inside, found, index = literal[1:-1], [], 0
    while index < len(inside):
        if inside[index] in "\\'":
            index += 1
        found.append(inside[index])
        index += 1
    return "".join(found)


@given(st.text(st.sampled_from("a'\\\" %;-\n")))
def test_a_literal_is_one_literal(text: str) -> None:
    literal = quoting.literal(text)
    assert unquoted(literal) == text
    assert literal[1:-1].replace("\\\\", "").replace("''", "").count("'") == 0


@pytest.mark.parametrize(
    ("number", "failure", "said"),
    [
        (errno.ENOSPC, DatabaseError, "no space left for the log to be replayed: the pool is full"),
        (errno.EDQUOT, DatabaseError, "no space left for the log to be replayed: the pool is full"),
        (errno.EIO, OSError, "Input/output error"),
    ],
)
def test_no_room_for_the_log_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, failure: type[Exception], said: str
) -> None:
    def full(_: Path) -> NoReturn:
        raise OSError(number, os.strerror(number))

    (tmp_path / "binlog.000001").write_bytes(b"log")
    relay = tmp_path / "relay"
    relay.mkdir()
    start, stop = LogPosition.of("binlog.000001", 4), LogPosition.of("binlog.000001", 9)
    span = LogRange(files=(tmp_path / "binlog.000001",), start=start, stop=stop, ends_file=True)
    monkeypatch.setattr("zbackup.proc.secure_files.open_to_append", full)
    with pytest.raises(failure, match=said):
        replay_mysql.copied(span, relay)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_copies_are_the_servers_and_nobody_elses_to_read(span: LogRange) -> None:
    relay = span.files[0].with_name("relay")
    relay.mkdir()
    os.chown(relay, 27, 28)
    for copy in replay_mysql.copied(span, relay).files:
        facts = copy.stat()
        assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o777) == (27, 28, 0o640)


def test_of_a_file_that_is_torn_its_whole_events_are_copied_and_the_file_stays(span: LogRange) -> None:
    """In a snapshot nobody can cut it off; of a clone that a server reads, the file itself is cut."""
    torn = replace(span, torn={span.files[0].name: 150})
    relay = span.files[0].with_name("relay")
    relay.mkdir()
    copies = replay_mysql.copied(torn, relay).files
    assert [file.stat().st_size for file in copies] == [150, 300, 400]
    assert [file.stat().st_size for file in span.files] == [200, 300, 400]
    replay_mysql.cut_torn(torn, os.getuid())
    assert [file.stat().st_size for file in span.files] == [150, 300, 400]
