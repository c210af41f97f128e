"""Servers that are none: no password in the clear for them, nothing for who is another, and no waiting."""

import contextlib
import os
import re
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from zbackup.config.lock import Lock
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import connect, connect_rows
from zbackup.engines.mysql.server.greeting import greeting
from zbackup.features.init.jobs.administrators import MysqlAdministrator
from zbackup.model.errors import DatabaseError, ZbackupError

SECRET = "the-DBA-s"
Peer = Callable[[], tuple[int, int]] | None


def me(process: int = 0, user: int = 0) -> tuple[int, int]:
    """This process, or one that is so far from it; asked late, as a campaign of mutants runs in copies."""
    return os.getpid() + process, os.geteuid() + user


def packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes((number,)) + body


HELLO = packet(
    0,
    b"\x0a8.0.36\0"
    + struct.pack("<I", 7)
    + b"A" * 8
    + b"\0"
    + struct.pack("<H", 0xF7DF)
    + b"\x21"
    + struct.pack("<H", 2)
    + struct.pack("<H", 0x81FF)
    + b"\x15"
    + b"\0" * 10
    + b"B" * 12
    + b"\0mysql_native_password\0",
)


class Rogue:
    """Greets as a server does, and asks for the password by a plugin of its own choice ("": says no more)."""

    def __init__(self, path: Path, plugin: bytes, greets: bool = True) -> None:
        self.path, self.plugin, self.greets = path, plugin, greets
        self.heard = b""
        self.over = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        there, _ = self.listener.accept()
        with there, contextlib.suppress(OSError):
            there.settimeout(10)
            if not self.greets:
                self._dribble(there)
                return
            there.sendall(HELLO)
            self.heard += there.recv(4096)
            if self.heard and self.plugin:
                asked = b"Password: " if self.plugin == b"dialog" else b""
                flag = b"\x04" if self.plugin == b"dialog" else b""
                there.sendall(packet(2, b"\xfe" + self.plugin + b"\0" + flag + asked))
                self.heard += there.recv(4096)
            elif self.heard:
                self.over.wait(10)

    def _dribble(self, there: socket.socket) -> None:
        try:
            there.sendall(b"\x50\0\0\0\x0a")
            while not self.over.wait(0.05):
                there.sendall(b"8")
        except OSError:
            return

    def end(self) -> bytes:
        self.over.set()
        self.thread.join(20)
        self.listener.close()
        return self.heard


def options(path: Path, peer: Peer = me) -> ConnectOptions:
    known = peer and peer()
    return ConnectOptions(socket=str(path), user="root", password=lambda: SECRET, peer=known, limit_s=0.5)


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog"])
@pytest.mark.parametrize("peer", [me, None])
def test_no_password_is_sent_in_the_clear(tmp_path: Path, plugin: bytes, peer: Peer) -> None:
    rogue = Rogue(tmp_path / "s", plugin)
    with pytest.raises(DatabaseError, match="in the clear"):
        connect(options(tmp_path / "s", peer))
    heard = rogue.end()
    assert b"root" in heard and SECRET.encode() not in heard


@pytest.mark.parametrize("other", [partial(me, process=1), partial(me, user=1)])
def test_nothing_is_sent_to_another_process_than_was_found(tmp_path: Path, other: Peer) -> None:
    rogue = Rogue(tmp_path / "s", b"mysql_clear_password")
    with pytest.raises(DatabaseError, match="nothing was sent to it"):
        connect(options(tmp_path / "s", other))
    assert rogue.end() == b""


def within(limit_s: float, work: Callable[[], object]) -> bool:
    """Tell whether it ends at all."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    return not thread.is_alive()


def test_a_server_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    rogue = Rogue(tmp_path / "s", b"")
    said: list[str] = []

    def look() -> None:
        try:
            MysqlAdministrator(connect=options(tmp_path / "s"), flavor="mysql").inspect()
        except DatabaseError as failure:
            said.append(str(failure))

    try:
        assert within(30, look) and said
    finally:
        rogue.end()


def test_a_greeting_that_never_ends_is_given_up(tmp_path: Path) -> None:
    rogue = Rogue(tmp_path / "s", b"", greets=False)
    try:
        assert within(30, lambda: greeting(str(tmp_path / "s"), 0.3))
    finally:
        rogue.end()


OK = b"\0\0\0\2\0\0\0"
EOF = b"\xfe\0\0\2\0"
WANTS_FILE = b"\xfb/etc/shadow"
BYTES = 253


def text(value: str | bytes) -> bytes:
    value = value if isinstance(value, bytes) else value.encode()
    return bytes((len(value),)) + value


def row(**values: str | bytes) -> list[bytes]:
    """The packets of a result with one row."""
    return rows(tuple(values), tuple(values.values()))


def rows(names: tuple[str, ...], *values: tuple[str | bytes, ...]) -> list[bytes]:
    """The packets of a result."""
    of_column = struct.pack("<HIBHB", 45, 80, BYTES, 0, 0) + b"\0\0"
    columns = [text("def") + text("") * 3 + text(name) * 2 + b"\x0c" + of_column for name in names]
    return [bytes((len(names),)), *columns, EOF, *(b"".join(map(text, each)) for each in values), EOF]


class Liar(Rogue):
    """Lets anybody in, and has one answer to what is asked of it then."""

    def __init__(self, path: Path, answer: list[bytes] | Callable[[str], list[bytes]]) -> None:
        self.answer = answer
        super().__init__(path, b"")

    def _serve(self) -> None:
        there, _ = self.listener.accept()
        with there, contextlib.suppress(OSError):
            there.settimeout(60)
            there.sendall(HELLO)
            self._heard(there)
            there.sendall(packet(2, OK))
            while said := self._heard(there):
                self._answer(there, *said)

    def _answer(self, there: socket.socket, number: int, said: bytes) -> None:
        if number:
            # Of a file: it ends with nothing.
            there.sendall(b"" if said else packet(number + 1, OK))
            return
        if callable(self.answer):
            answer = self.answer(said[1:].decode())
        else:
            answer = [OK] if b"SET" in said else self.answer
        if b"CONNECTION_ID" in said:
            answer = row(id="7", account="a@b", version="9.7.4")
        there.sendall(b"".join(packet(n, body) for n, body in enumerate(answer, 1)))

    def _heard(self, there: socket.socket) -> tuple[int, bytes] | None:
        head = there.recv(4, socket.MSG_WAITALL)
        said = there.recv(int.from_bytes(head[:3], "little"), socket.MSG_WAITALL)
        self.heard += said
        return (head[3], said) if head else None


@pytest.mark.parametrize("loads", [True, False])
def test_no_file_is_sent_to_a_server_that_asks_for_one(tmp_path: Path, loads: bool) -> None:
    for number, ask in enumerate(("read", "write", "read_strictly", "stream", "execute")):
        liar = Liar(path := tmp_path / str(number), [WANTS_FILE])
        with connect_rows(options(path), loads=loads) as session:
            with pytest.raises(DatabaseError, match="is no server's"):
                list(getattr(session, ask)("SELECT 1" if ask == "execute" else b"SELECT 1"))
            with pytest.raises(DatabaseError):
                session.read(b"SELECT 2")
        assert liar.end().endswith(b"SELECT 1")


def test_a_load_sends_its_rows_and_nothing_else_whichever_file_is_asked_for(tmp_path: Path) -> None:
    liar = Liar(tmp_path / "s", [WANTS_FILE])
    rows = b"1\tone\n" * 20_000
    with connect_rows(options(tmp_path / "s"), loads=True) as session:
        assert session.load(b"LOAD DATA LOCAL INFILE 'rows' ...", rows) == (0, 0)
    heard = liar.end()
    assert heard.partition(b"INFILE 'rows' ...")[2].removesuffix(b"\x01") == rows


@pytest.mark.parametrize(
    "answer", [[b"\0"], [b"\1"], [b"\0\xfb\xfb"], [b"\2", b"x"], [b"\1", EOF, EOF], row(a="1"), [EOF], [OK]]
)
def test_an_answer_that_no_server_gives_is_an_error_in_a_line(tmp_path: Path, answer: list[bytes]) -> None:
    liar = Liar(tmp_path / "s", answer)
    with connect_rows(options(tmp_path / "s"), loads=True) as session, pytest.raises(DatabaseError) as raised:
        session.load(b"LOAD", b"")
    liar.end()
    assert "\n" not in str(raised.value)
    liar = Liar(tmp_path / "t", answer)
    with connect_rows(options(tmp_path / "t")) as session, contextlib.suppress(DatabaseError):
        session.read(b"SELECT 1")
    liar.end()


def named(statement: str, value: str | bytes) -> list[bytes]:
    """A row that has what is asked for, with that value for each."""
    shown = {"SHOW GLOBAL": "Variable_name Value", "SHOW REPLICA": "Channel_Name Replica_SQL_Running"}
    names = re.findall(r" AS (\w+)", statement)
    names += next((more.split() for words, more in shown.items() if statement.startswith(words)), [])
    return row(**dict.fromkeys([*names, "File", "Position", "TABLE_NAME", "ENGINE"], value))


VARIABLES = {
    "version": "9.7.4",
    "server_uuid": "u",
    "datadir": "/srv/d/",
    "log_bin_basename": "/srv/d/binlog",
}

LIES: list[Callable[[str], list[bytes]]] = [
    lambda _: [OK],
    lambda _: row(unasked="1"),
    lambda statement: named(statement, "x"),
    lambda statement: named(statement, ""),
    lambda statement: named(statement, b"\xff\xfe"),
]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("beyond", range(18))
def test_whatever_a_server_answers_to_the_questions_of_a_job_is_an_error_in_a_line(
    tmp_path: Path, lie: Callable[[str], list[bytes]], beyond: int
) -> None:
    """The first answers are those of a server, so that all later questions are asked, too."""
    asked = 0

    def answer(statement: str) -> list[bytes]:
        nonlocal asked
        if statement.startswith("SET"):
            return [OK]
        asked += 1
        truth = {
            "SHOW GLOBAL VARIABLES": rows(("Variable_name", "Value"), *VARIABLES.items()),
            "SHOW BINARY LOG STATUS": row(File="binlog.000001", Position="4"),
            "SHOW REPLICA STATUS": [OK],
        }
        return truth.get(statement, named(statement, "1")) if asked < beyond else lie(statement)

    liar = Liar(path := tmp_path / "s", answer)
    engine = MysqlEngine(instance="shop", connect=options(path), lock=Lock(), run_dir=tmp_path)
    said = ""
    try:
        engine.inspect()
        assert beyond > 5  # what a server may say, too
    except ZbackupError as raised:
        said = str(raised)
    liar.end()
    assert "\n" not in said


def test_bytes_that_are_no_text_are_read(tmp_path: Path) -> None:
    liar = Liar(path := tmp_path / "s", row(Info=b"SELECT _binary'\xff\xfe' \xc3\xa4"))
    with connect(options(path)) as session:
        assert session.one("SHOW FULL PROCESSLIST") == {"Info": "SELECT _binary'\ufffd\ufffd' ä"}
    liar.end()
