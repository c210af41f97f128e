"""Servers that are none: no password in the clear for them, nothing for who is another, and no waiting."""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from zbackup.engines.mysql.administrator import MysqlAdministrator
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import connect
from zbackup.engines.mysql.server.greeting import greeting
from zbackup.model.errors import DatabaseError

SECRET = "the-DBA-s"
ME = (os.getpid(), os.geteuid())


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


def options(path: Path, peer: tuple[int, int] | None = ME) -> ConnectOptions:
    return ConnectOptions(socket=str(path), user="root", password=lambda: SECRET, peer=peer, limit_s=0.5)


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog"])
@pytest.mark.parametrize("peer", [ME, None])
def test_no_password_is_sent_in_the_clear(
    tmp_path: Path, plugin: bytes, peer: tuple[int, int] | None
) -> None:
    rogue = Rogue(tmp_path / "s", plugin)
    with pytest.raises(DatabaseError, match="in the clear"):
        connect(options(tmp_path / "s", peer))
    heard = rogue.end()
    assert b"root" in heard and SECRET.encode() not in heard


@pytest.mark.parametrize("other", [(ME[0] + 1, ME[1]), (ME[0], ME[1] + 1)])
def test_nothing_is_sent_to_another_process_than_was_found(tmp_path: Path, other: tuple[int, int]) -> None:
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
            MysqlAdministrator(connect=options(tmp_path / "s"), flavor="mysql").look()
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
