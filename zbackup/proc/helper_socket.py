"""Ask the helper that runs as root, over its socket: one line there, one line back."""

import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zbackup.model.errors import Postponed, Refused

LONGEST = 4096
"""Bytes of a question or an answer."""
ASK_LIMIT_S = 300.0
HEAR_LIMIT_S = 10.0


def ask(path: Path, question: Mapping[str, str]) -> dict[str, Any]:
    """The helper's answer. Raise Refused when there is none, or when it refuses, with its reason."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ASK_LIMIT_S)
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            answer = _object(_read(connection))
    except (OSError, ValueError) as failure:
        raise Refused(f"the helper at {path} does not answer: {failure}") from failure
    if "refused" in answer:
        raise Refused(f"the helper refuses: {answer['refused']}")
    return answer


def ask_much(path: Path, question: Mapping[str, str], *, longest: int, limit_s: float) -> bytes:
    """A long answer: all that comes until the line is closed. Raise Refused when there is none, when it takes
    longer than `limit_s` or is more than `longest` bytes."""
    end = time.monotonic() + limit_s
    said = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(limit_s)
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            while more := connection.recv(1 << 16):
                said += more
                if len(said) > longest or time.monotonic() > end:
                    raise ValueError("it is too long, or takes too long")
    except (OSError, ValueError) as failure:
        raise Refused(f"nobody answers at {path}: {failure}") from failure
    if not said:
        raise Refused(f"nobody answers at {path}: it hung up")
    return bytes(said)


def answer_much(connection: socket.socket, content: bytes) -> None:
    """The other side of ask_much. Whoever asked may have gone."""
    try:
        connection.settimeout(ASK_LIMIT_S)
        connection.sendall(content)
    except OSError:
        return
    finally:
        connection.close()


def ask_patiently(path: Path, question: Mapping[str, str], stop: Callable[[], bool]) -> dict[str, Any]:
    """The same where the answer may take hours; hung up, which the helper notices, when `stop` says so.

    Raise Postponed then.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(HEAR_LIMIT_S)
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            while not _readable(connection):
                if stop():
                    raise Postponed("the daemon is told to end")
            answer = _object(_read(connection))
    except (OSError, ValueError) as failure:
        raise Refused(f"the helper at {path} does not answer: {failure}") from failure
    if "refused" in answer:
        raise Refused(f"the helper refuses: {answer['refused']}")
    return answer


def hung_up(connection: socket.socket) -> bool:
    """Whether whoever asked is gone."""
    try:
        return _readable(connection, 0) and connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


def _readable(connection: socket.socket, seconds: float = 1.0) -> bool:
    return bool(select.select([connection], [], [], seconds)[0])


def hear(descriptor: int) -> tuple[socket.socket, int, str]:
    """The helper's side: the connection that somebody opened, his user id, and the line that he sent.

    Raise Refused when it is none, or no line comes in time.
    """
    try:
        connection = socket.socket(fileno=os.dup(descriptor))
        connection.settimeout(HEAR_LIMIT_S)
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return connection, uid, _read(connection)
    except (OSError, ValueError) as failure:
        raise Refused(f"this is for a connection to the helper's socket: {failure}") from failure


def answer(connection: socket.socket, content: Mapping[str, object]) -> None:
    """Send the answer. Whoever asked may have gone: what was done is done."""
    try:
        connection.sendall(json.dumps(content).encode()[: LONGEST - 1] + b"\n")
    except OSError:
        return
    finally:
        connection.close()


def _read(connection: socket.socket) -> str:
    """A line, all of it within the connection's timeout: who sends a byte now and then holds nobody up."""
    limit, said = connection.gettimeout(), b""
    end = time.monotonic() + (ASK_LIMIT_S if limit is None else limit)
    try:
        while not said.endswith(b"\n"):
            connection.settimeout(max(0.001, end - time.monotonic()))
            more = connection.recv(LONGEST)
            if not more or len(said) + len(more) > LONGEST:
                raise ValueError("no line, or one that is too long")
            said += more
    finally:
        connection.settimeout(limit)
    return said.decode()


def _object(said: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(said)
    except RecursionError as deep:
        raise ValueError("it is nested too deeply") from deep
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found
