"""The log as a MariaDB is given it: asked for by a client of the same protocol, byte by byte."""

import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.unit.engines.binlog.builder import Builder
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.recovery import log_events, replication_source
from zbackup.engines.mysql.recovery.replay import Applier, LogRange
from zbackup.engines.mysql.recovery.replay_mariadb import _with_source
from zbackup.model.errors import DatabaseError, NotRecoverable
from zbackup.model.log import LogPosition

APPLIER = Applier(running=True, idle=True, position=None, error="")
KNOWN = {"server_id": "1", "gtid_domain_id": "7"}
NOON = 1_700_000_000


def written(path: Path, *, checksum: bool = True, count: int = 3) -> Builder:
    log = Builder(checksum=checksum, mariadb=True)
    for number in range(count):
        log.maria(NOON + number, number)
    path.write_bytes(log.data)
    return log


@pytest.fixture(params=[True, False])
def logs(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[LogRange, list[Builder]]:
    """Two files: from behind the first transaction of the one to behind the second of the other."""
    paths = [tmp_path / f"binlog.00000{number}" for number in (1, 2)]
    made = [written(path, checksum=request.param) for path in paths]
    start = LogPosition.of(paths[0].name, made[0].written[0].end)
    stop = LogPosition.of(paths[1].name, made[1].written[1].end)
    return LogRange(files=tuple(paths), start=start, stop=stop, ends_file=False), made


@contextmanager
def source(span: LogRange) -> Iterator[replication_source.ReplicationSource]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = replication_source.ReplicationSource(listening.getsockname()[1], "zbackup", "secret")
        calls: list[socket.socket] = []
        words = (listening, calls, span, made, KNOWN, "10.11.6-MariaDB-log")
        serving = threading.Thread(target=replication_source._serve, args=words, daemon=True)
        serving.start()
        yield made
        for each in (listening, *calls):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        serving.join(60)
        assert not serving.is_alive()


def connected(made: replication_source.ReplicationSource, password: str = "secret") -> Any:
    return pymysql.connect(
        host="127.0.0.1", port=made.port, user=made.user, password=password, read_timeout=60
    )


def kind(event: bytes) -> int:
    return event[4]


def test_a_client_logs_in_and_asks_what_replicas_ask(logs: tuple[LogRange, list[Builder]]) -> None:
    with source(logs[0]) as made, connected(made) as client, client.cursor() as cursor:
        cursor.execute("SET @master_heartbeat_period= 0")
        cursor.execute("SHOW VARIABLES LIKE 'SERVER_ID'")
        assert cursor.fetchall() == (("server_id", "1"),)
        cursor.execute("SELECT @@GLOBAL.gtid_domain_id")
        assert cursor.fetchall() == (("7",),)
        cursor.execute("SHOW VARIABLES LIKE 'anything_else'")
        assert cursor.fetchall() == ()
        with pytest.raises(pymysql.err.OperationalError, match="unknown variable"):
            cursor.execute("SELECT @@GLOBAL.anything_else")
        cursor.execute("SELECT @master_binlog_checksum")
        assert cursor.fetchall() == (("NONE",),)
        client.ping(reconnect=False)


def test_nobody_else_gets_the_log(logs: tuple[LogRange, list[Builder]]) -> None:
    with source(logs[0]) as made:
        for word in ("", "wrong"):
            with pytest.raises(pymysql.err.OperationalError, match="for another"):
                connected(made, word)
        other = replace(made, user="another")
        with pytest.raises(pymysql.err.OperationalError, match="for another"):
            connected(other)
        assert connected(made).open, "the one that may is let in after them"


def test_a_replica_gets_the_range_and_one_event_behind_it(logs: tuple[LogRange, list[Builder]]) -> None:
    span, (first, second) = logs
    begin, end = first.written[0].end, second.written[1].end
    wanted = bytes(first.data[begin:]) + bytes(second.data[4:end])
    with source(span) as made, connected(made) as client:
        asked = struct.pack("<IHI", begin, replication_source.WITH_ANNOTATIONS, 9) + b"binlog.000001"
        client._execute_command(replication_source.BINLOG_DUMP, asked)
        got = [client._read_packet().get_all_data()]
        while b"".join(each[1:] for each in got if real(each[1:]))[: len(wanted)] != wanted:
            got.append(client._read_packet().get_all_data())
            assert len(got) < 100
        behind = client._read_packet().get_all_data()[1:]
        # What the applier waits for then does not come.
        client._execute_command(replication_source.PING, b"")
        client._read_packet()
        assert made.given and _with_source(APPLIER, made).idle
        assert kind(behind) == events.MARIADB_GTID and second.data[end:].startswith(behind)
    assert kind(got[0][1:]) == events.ROTATE and got[0][20:28] == struct.pack("<Q", begin)
    assert kind(got[1][1:]) == events.FORMAT_DESCRIPTION and got[1][14:18] == bytes(4), "no place of its own"
    assert not made.failures


def real(event: bytes) -> bool:
    """Not one that only says where what follows stands."""
    return kind(event) != events.ROTATE and (
        kind(event) != events.FORMAT_DESCRIPTION or event[13:17] != bytes(4)
    )


@pytest.mark.parametrize("name", [b"../etc/passwd", b"other.000002", b""])
def test_what_is_not_to_be_read_is_not_given(logs: tuple[LogRange, list[Builder]], name: bytes) -> None:
    with source(logs[0]) as made, connected(made) as client:
        client._execute_command(replication_source.BINLOG_DUMP, struct.pack("<IHI", 4, 0, 9) + name)
        with pytest.raises(pymysql.err.OperationalError):
            client._read_packet()
    assert name.decode() in made.failures[0]


def test_who_calls_again_in_a_later_file_gets_nothing_of_what_it_has(
    logs: tuple[LogRange, list[Builder]],
) -> None:
    span, (_, second) = logs
    behind = second.written[0].end
    got = list(log_events.events(span, LogPosition.of(span.files[1].name, behind), annotated=True))
    assert b"".join(got[2:]).startswith(second.data[behind : second.written[1].end])


@pytest.mark.parametrize("command", [b"", bytes([replication_source.QUIT])])
def test_who_has_nothing_more_to_say_is_gone_and_the_replay_goes_on(
    logs: tuple[LogRange, list[Builder]], command: bytes
) -> None:
    with source(logs[0]) as made, connected(made) as client:
        client._sock.sendall(replication_source.packet(0, command))
        assert client._sock.recv(1) == b""
        assert connected(made).open
    assert not made.failures


def test_what_is_no_query_is_not_answered_as_one() -> None:
    (said,) = replication_source.answers(b"\x02SET names", KNOWN)
    assert said.startswith(b"\xff") and said.endswith(b"unknown command")


def test_an_event_without_a_body_is_one(tmp_path: Path) -> None:
    """The one with which a server that stops ends its file, where events have no checksums."""
    path = tmp_path / "binlog.000001"
    log = Builder(mariadb=True, checksum=False)
    log.maria(NOON, 1)
    stopped = log.event(events.STOP, b"")
    path.write_bytes(log.data)
    begin, stop = LogPosition.of(path.name, 4), LogPosition.of(path.name, log.written[0].end)
    span = LogRange(files=(path,), start=begin, stop=stop, ends_file=True)
    assert stopped in list(log_events.events(span, begin, annotated=True)) and len(stopped) == 19


@pytest.mark.parametrize(("kind", "size"), [(events.QUERY, 200), (events.FORMAT_DESCRIPTION, 30)])
def test_a_file_that_does_not_begin_with_its_format_is_no_log(tmp_path: Path, kind: int, size: int) -> None:
    path = tmp_path / "binlog.000001"
    log = Builder(mariadb=True)
    log.data = log.data[:4]
    log.event(kind, bytes(size))
    path.write_bytes(log.data)
    begin = LogPosition.of(path.name, 4)
    span = LogRange(files=(path,), start=begin, stop=begin, ends_file=True)
    with pytest.raises(NotRecoverable, match="does not begin as a binary log does"):
        list(log_events.events(span, begin, annotated=True))


@pytest.mark.parametrize("checksum", [True, False])
def test_at_the_end_of_a_file_the_next_one_is_begun(tmp_path: Path, checksum: bool) -> None:
    path = tmp_path / "binlog.000009"
    log = written(path, checksum=checksum)
    stop = LogPosition.of(path.name, len(log.data))
    span = LogRange(files=(path,), start=LogPosition.of(path.name, 4), stop=stop, ends_file=True)
    *rest, rotation, description = log_events.events(span, span.start, annotated=True)
    assert b"".join(rest[1:]) == log.data[4:]
    assert kind(rotation) == events.ROTATE and b"binlog.000010" in rotation
    assert kind(description) == events.FORMAT_DESCRIPTION and description[13:17] != bytes(4)
    assert zlib.crc32(description[:-4]) == struct.unpack("<I", description[-4:])[0]


def test_a_file_that_is_still_written_is_given_as_one_that_is_not(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    log = Builder(mariadb=True)
    log.data = log.data[:4]
    log.describe(in_use=True)
    path.write_bytes(log.data)
    begin = LogPosition.of(path.name, 4)
    span = LogRange(files=(path,), start=begin, stop=begin, ends_file=True)
    described = next(e for e in log_events.events(span, begin, annotated=True) if kind(e) == 15)
    assert described[17] & events.FLAG_IN_USE == 0
    assert zlib.crc32(described[:-4]) == struct.unpack("<I", described[-4:])[0]


def test_texts_of_statements_are_given_to_whom_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    log = Builder(mariadb=True)
    log.event(events.ANNOTATE_ROWS, b"INSERT INTO t VALUES (1)")
    path.write_bytes(log.data)
    begin = LogPosition.of(path.name, 4)
    span = LogRange(files=(path,), start=begin, stop=begin, ends_file=True)
    kinds = [[kind(e) for e in log_events.events(span, begin, annotated=wanted)] for wanted in (True, False)]
    assert events.ANNOTATE_ROWS in kinds[0] and events.ANNOTATE_ROWS not in kinds[1]


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_what_is_torn_is_no_log(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "binlog.000001"
    log = written(path)
    path.write_bytes(log.data[:-cut])
    begin = LogPosition.of(path.name, 4)
    span = LogRange(files=(path,), start=begin, stop=begin, ends_file=True)
    with pytest.raises(NotRecoverable, match=r"binlog\.000001 holds no whole event at \d+"):
        list(log_events.events(span, begin, annotated=True))


def test_a_file_of_something_else_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(bytes(200))
    begin = LogPosition.of(path.name, 4)
    span = LogRange(files=(path,), start=begin, stop=begin, ends_file=True)
    with pytest.raises(NotRecoverable):
        list(log_events.events(span, begin, annotated=True))


def test_a_long_message_is_several_packets() -> None:
    long = replication_source.LONGEST
    parts = replication_source.packet(255, bytes(long + 5))
    assert parts[:4] == b"\xff\xff\xff\xff" and len(parts) == long + 5 + 8
    assert parts[4 + long :][:4] == b"\x05\0\0\0"
    assert replication_source.packet(0, bytes(long))[4 + long :] == b"\0\0\0\x01"


def test_who_sends_more_than_a_replica_has_to_say_is_not_listened_to() -> None:
    with pytest.raises(DatabaseError):
        list(replication_source.messages(iter([struct.pack("<I", 1 << 20), b"x"])))
    pieces = [
        bytes([each]) for each in replication_source.packet(3, b"ab") + replication_source.packet(4, b"")
    ]
    assert list(replication_source.messages(iter(pieces))) == [(3, b"ab"), (4, b"")]


def test_a_request_that_is_cut_short_is_refused() -> None:
    with pytest.raises(DatabaseError):
        replication_source.asked_for(b"\x12\0\0")


def test_a_log_that_cannot_be_read_ends_the_replay(logs: tuple[LogRange, list[Builder]]) -> None:
    """And is not taken for a replica that is gone, which would call again for ever."""
    span, _ = logs
    span.files[1].unlink()
    with source(span) as made, connected(made) as client:
        client._execute_command(
            replication_source.BINLOG_DUMP, struct.pack("<IHI", 4, 0, 9) + b"binlog.000001"
        )
        with pytest.raises(pymysql.err.OperationalError):
            while True:
                client._read_packet()
    assert "cannot be read" in made.failures[0] and "binlog.000002" in made.failures[0]


def test_whatever_goes_wrong_ends_the_replay(
    logs: tuple[LogRange, list[Builder]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Iterator[bytes]:
        raise MemoryError

    monkeypatch.setattr(replication_source, "events", broken)
    with source(logs[0]) as made, connected(made) as client:
        client._execute_command(
            replication_source.BINLOG_DUMP, struct.pack("<IHI", 4, 0, 9) + b"binlog.000001"
        )
        with pytest.raises(pymysql.err.OperationalError):
            client._read_packet()
    assert made.failures == ["MemoryError()"]


@pytest.mark.parametrize("length", [1 << 18, replication_source.LONGEST, replication_source.LONGEST + 9])
def test_a_row_of_many_mebibytes_is_given_whole(tmp_path: Path, length: int) -> None:
    path = tmp_path / "binlog.000001"
    log = Builder(mariadb=True)
    log.event(events.ANNOTATE_ROWS, bytes(length))
    log.maria(NOON, 1)
    path.write_bytes(log.data)
    begin, stop = LogPosition.of(path.name, 4), LogPosition.of(path.name, log.written[0].end)
    span = LogRange(files=(path,), start=begin, stop=stop, ends_file=True)
    with source(span) as made, connected(made) as client:
        asked = struct.pack("<IHI", 4, replication_source.WITH_ANNOTATIONS, 9) + b"binlog.000001"
        client._execute_command(replication_source.BINLOG_DUMP, asked)
        got = bytes(20)
        while kind(got[1:]) != events.ANNOTATE_ROWS:
            got = client._read_packet().get_all_data()
        assert len(got) > length and got[1:] in log.data
        assert kind(client._read_packet().get_all_data()[1:]) == events.MARIADB_GTID
    assert not made.failures


def test_an_applier_that_waits_for_the_source_is_not_at_the_end_of_the_log() -> None:
    made = replication_source.ReplicationSource(1, "zbackup", "secret")
    assert not _with_source(APPLIER, made).idle
    made.given = True
    assert _with_source(APPLIER, made).idle and not _with_source(replace(APPLIER, idle=False), made).idle
    made.failures.append("gave up")
    assert _with_source(APPLIER, made).error == "gave up"


def test_of_a_file_that_is_torn_its_whole_events_are_given(logs: tuple[LogRange, list[Builder]]) -> None:
    span, (first, _) = logs
    with span.files[0].open("ab") as file:
        file.write(b"half an event")
    torn = replace(span, torn={span.files[0].name: len(first.data)})
    whole = list(log_events.events(torn, torn.start, annotated=True))
    span.files[0].write_bytes(first.data)
    assert whole == list(log_events.events(span, span.start, annotated=True))
