"""A server that is none: whatever it answers, a job ends with an error in a line."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import pytest

from zbackup.config.lock import Lock
from zbackup.engines.mongodb.engine import MongoEngine
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import connect
from zbackup.model.errors import DatabaseError, ZbackupError

HEAD = struct.Struct("<4i")
OLD_QUESTION, OLD_ANSWER, MESSAGE = 2004, 1, 2013
HELLO = {"ismaster": True, "isWritablePrimary": True, "maxWireVersion": 17, "minWireVersion": 0, "ok": 1}


class Liar:
    """Greets as a mongod does, and has one answer to all other commands, in its encoded form."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self.answer = answer
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self.listener.accept()[0],), daemon=True).start()

    def _serve(self, there: socket.socket) -> None:
        with there, contextlib.suppress(OSError, struct.error):
            while head := there.recv(HEAD.size, socket.MSG_WAITALL):
                size, number, _, kind = HEAD.unpack(head)
                asked = there.recv(size - HEAD.size, socket.MSG_WAITALL)
                if kind == OLD_QUESTION:
                    body = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(HELLO)
                    there.sendall(HEAD.pack(HEAD.size + len(body), 1, number, OLD_ANSWER) + body)
                    continue
                greets = any(word in asked[:40] for word in (b"hello\0", b"ismaster\0", b"ping\0"))
                body = struct.pack("<iB", 0, 0) + (bson.encode(HELLO) if greets else self.answer)
                there.sendall(HEAD.pack(HEAD.size + len(body), 1, number, MESSAGE) + body)


@contextlib.contextmanager
def lying(path: Path, answer: bytes) -> Iterator[ConnectOptions]:
    liar = Liar(path, answer)
    try:
        yield ConnectOptions(socket=str(path), user="", password=None)
    finally:
        liar.listener.close()


def of(**said: Any) -> bytes:
    return bson.encode({**said, "ok": 1})


CURSOR: dict[str, Any] = {"id": 0, "ns": "a.b", "firstBatch": []}


@pytest.mark.parametrize(
    "answer",
    [
        of(),
        of(cursor={}),
        of(cursor=CURSOR),
        of(cursor={**CURSOR, "firstBatch": [{"odd": 1}]}),
        of(version="6.0.27", parsed={}, inprog=[{}], storageEngine={}),
        of(version="6.0.27", parsed={"storage": {}}, storageEngine={"name": "wiredTiger"}),
    ],
)
def test_whatever_it_answers_is_an_error_in_a_line(tmp_path: Path, answer: bytes) -> None:
    with lying(tmp_path / "m.sock", answer) as options:
        engine = MongoEngine(instance="docs", connect=options, lock=Lock(), run_dir=tmp_path)
        with pytest.raises(ZbackupError) as raised:
            engine.inspect()
        assert "\n" not in str(raised.value)


def test_what_an_answer_lacks_is_named_at_any_depth(tmp_path: Path) -> None:
    with lying(tmp_path / "m.sock", of(a={"b": [{}]})) as options, connect(options) as connection:
        answer = connection.command({"x": 1})
    with pytest.raises(DatabaseError, match='an answer without "c"'):
        answer["a"]["b"][0]["c"]


def test_bytes_that_are_no_text_are_read(tmp_path: Path) -> None:
    answer = of(said="aXXb").replace(b"XX", b"\xff\xfe")
    with lying(tmp_path / "m.sock", answer) as options, connect(options) as connection:
        assert connection.command({"x": 1})["said"] == "a\ufffd\ufffdb"
