"""Prove that two binlog files of the same name are the same log."""

from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.errors import DifferentLog
from zbackup.engines.mysql.binlog.events import FIRST_EVENT, FLAG_IN_USE, FLAGS_AT, HEADER_SIZE, SHAPE
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.model.archive import head_hash, server_key
from zbackup.proc import secure_files

HEAD: Final = 4096
"""Holds the format description with the time the file was begun, and what came before it in GTIDs."""

TAIL: Final = 1 << 16
"""Bytes in front of a position that show that all before it is the same."""

_HEAD_EVENTS: Final = 2
"""A file begins with what it is and when it was begun, and with the GTIDs of all files before it."""

_IN_USE_AT: Final = FIRST_EVENT + FLAGS_AT


def require_same_log(base_file: Path, source_file: Path, upto: int) -> None:
    """Prove that the first `upto` bytes of both files are the same log, by their start and by their end.

    Names prove nothing: after RESET or a failover another log carries the same ones. What a file begins with
    is compared also where `upto` lies before it, as nothing was committed in it yet. The flag that says a
    file is being written may differ. Raise DifferentLog naming the cause.
    """
    for file in (base_file, source_file):
        if (size := secure_files.size(file)) < upto:
            raise _different(source_file.name, f"one copy ends at {size}, before {upto}")
    head = head_to_compare(base_file, upto)
    if _read(base_file, 0, head) != _read(source_file, 0, head):
        raise _different(source_file.name, "the two copies begin differently")
    tail = max(0, upto - TAIL)
    if _read(base_file, tail, upto) != _read(source_file, tail, upto):
        raise _different(source_file.name, f"the two copies differ before {upto}")


def file_head(scanner: Scanner, server: str) -> str:
    """What tells a file from all others of its name: see LogFileId.head; "" where its beginning is not there
    yet."""
    end = scanner.head_end()
    return head_hash(server_key(server), without_flag(scanner.beginning(end), 0)) if end else ""


def head_to_compare(path: Path, upto: int) -> int:
    """How many bytes at a file's beginning another has to have, to be the same file up to there."""
    return min(max(upto, _head_end(path)), HEAD)


def _head_end(path: Path) -> int:
    """Behind the events that a file begins with, as far as they are there."""
    with secure_files.open_regular(path) as file:
        data = file.read(HEAD)
    at = FIRST_EVENT
    for _ in range(_HEAD_EVENTS):
        if at + HEADER_SIZE > len(data):
            break
        _, length, _ = SHAPE.unpack_from(data, at)
        if length < HEADER_SIZE or at + length > len(data):
            break
        at += length
    return at


def _read(path: Path, start: int, end: int) -> bytes:
    with secure_files.open_regular(path) as file:
        file.seek(start)
        return without_flag(file.read(end - start), start)


def without_flag(data: bytes, start: int) -> bytes:
    """A file's bytes from `start` on without the flag that says that it is being written."""
    if not start <= _IN_USE_AT < start + len(data):
        return data
    changed = bytearray(data)
    changed[_IN_USE_AT - start] &= ~FLAG_IN_USE
    return bytes(changed)


def _different(name: str, why: str) -> DifferentLog:
    return DifferentLog(f"{name}: {why}; the log was reset or belongs to another server")
