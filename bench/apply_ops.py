"""The fastest client of applyOps there can be: its commands are ready before the clock starts."""

import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import bson

# MongoDB manual, "MongoDB Wire Protocol": OP_MSG, with one section that is the command.
OP_MSG = 2013
HEADER = struct.Struct("<iiii")
KEPT = ("op", "ns", "o", "o2")


def commands(entries: Iterable[Mapping[str, Any]], in_one: int) -> list[bytes]:
    """Messages that apply the entries, so many in each; no-ops and the server's own notes are left out."""
    ready: list[bytes] = []
    batch: list[dict[str, Any]] = []
    for entry in entries:
        if entry["op"] == "n" or entry["ns"].startswith("config."):
            continue
        batch.append({key: entry[key] for key in KEPT if key in entry})
        if len(batch) == in_one:
            ready.append(_message(batch))
            batch = []
    return [*ready, _message(batch)] if batch else ready


def send(address: Path, messages: Sequence[bytes]) -> None:
    """One after the other, each when the one before is answered. Raise RuntimeError when one is refused."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(str(address))
        for message in messages:
            server.sendall(message)
            answer = _answer(server)
            # Looking for the field is enough: "ok" is a double, and 0 in an error.
            if b"\x01ok\x00" + struct.pack("<d", 1) not in answer:
                raise RuntimeError(f"applyOps was refused: {bson.decode(answer[5:])}")


def _message(batch: Sequence[Mapping[str, Any]]) -> bytes:
    body = bson.encode({"applyOps": batch, "$db": "admin"})
    return HEADER.pack(HEADER.size + 5 + len(body), 1, 0, OP_MSG) + b"\x00\x00\x00\x00\x00" + body


def _answer(server: socket.socket) -> bytes:
    """Read what is behind the header: flags, kind of section, document."""
    size = HEADER.unpack(_exactly(server, HEADER.size))[0]
    return _exactly(server, size - HEADER.size)


def _exactly(server: socket.socket, size: int) -> bytes:
    said = b""
    while len(said) < size:
        part = server.recv(size - len(said))
        if not part:
            raise RuntimeError("the server ended the connection")
        said += part
    return said
