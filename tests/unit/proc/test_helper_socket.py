"""Asking somebody who may more, and what root makes of files that others could have put there."""

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from zbackup.model.errors import Refused
from zbackup.proc.helper_socket import LONGEST, answer, ask, hear
from zbackup.proc.lock import exclusive
from zbackup.proc.secure_files import read_own, write_new


def listening(path: Path, serve: Callable[[socket.socket], None]) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    def run() -> None:
        with listener, listener.accept()[0] as connection:
            serve(connection)

    threading.Thread(target=run, daemon=True).start()


def test_a_question_and_its_answer(tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        line, uid, said = hear(connection.fileno())
        answer(line, {"uid": uid, "said": said})

    listening(tmp_path / "helper", serve)
    found = ask(tmp_path / "helper", {"clone": "half"})
    assert found == {"uid": os.getuid(), "said": '{"clone": "half"}\n'}


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"no JSON\n",
        b"x" * (LONGEST + 1),
        b'{"refused": "no such verb"}\n',
        b"5\n",
        b'["refused"]\n',
        b"[" * 4000 + b"\n",
    ],
)
def test_no_answer_that_makes_sense(tmp_path: Path, reply: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(LONGEST)
        connection.sendall(reply)

    listening(tmp_path / "helper", serve)
    with pytest.raises(Refused, match=r"does not answer|refuses: no such verb"):
        ask(tmp_path / "helper", {})


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="does not answer"):
        ask(tmp_path / "helper", {})


def test_who_says_a_byte_now_and_then_is_not_heard_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zbackup.proc.helper_socket.HEAR_LIMIT_S", 0.3)
    ours, theirs = socket.socketpair()
    heard = threading.Event()

    def drip() -> None:
        while not heard.is_set():
            theirs.sendall(b"x")
            time.sleep(0.1)

    sender = threading.Thread(target=drip, daemon=True)
    with ours, theirs:
        sender.start()
        with pytest.raises(Refused, match="timed out"):
            hear(ours.fileno())
        heard.set()
        sender.join()


def test_what_is_no_connection_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file, pytest.raises(Refused, match="a connection"):
        hear(file.fileno())


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "shadow"
    target.write_text("precious")
    (tmp_path / "shop.lock").symlink_to(target)
    with pytest.raises(Refused), exclusive(tmp_path / "shop.lock", "zbackup snapshot"):
        pass
    assert target.read_text() == "precious"


def test_a_note_is_read_only_from_a_file_of_our_own(tmp_path: Path) -> None:
    note = tmp_path / "note"
    write_new(note, "12 34", mode=0o644)
    assert read_own(note) == "12 34"
    (tmp_path / "link").symlink_to(note)
    with pytest.raises(ValueError, match="not the file it should be"):
        read_own(tmp_path / "link")
    with pytest.raises(FileNotFoundError):
        read_own(tmp_path / "none")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ValueError, match="is a FIFO"):  # nobody is waited for
        read_own(tmp_path / "fifo")
