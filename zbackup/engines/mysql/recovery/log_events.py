"""The events that a MariaDB is given of a log, one by one, as a server that had the log would give them, but
for what it could not read (mended_statements).

MariaDB knowledge base, "Replication Protocol: COM_BINLOG_DUMP", and sql_repl.cc for what a server does with a
file's head: a position within a file is preceded by where it is and by the file's format.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from zbackup.engines.mysql.binlog.events import (
    ANNOTATE_ROWS,
    CHECKSUM_SIZE,
    FIRST_EVENT,
    FLAG_IN_USE,
    FLAGS_AT,
    FORMAT_DESCRIPTION,
    HEADER_SIZE,
    MARIADB_FLAGS_AT,
    MARIADB_GTID,
    MARIADB_STANDALONE,
    ROTATE,
)
from zbackup.engines.mysql.recovery.mended_statements import mended_event
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import LogPosition
from zbackup.proc import secure_files

_ARTIFICIAL: Final = 0x20
_CREATED_AT: Final = HEADER_SIZE + 52
"""The offset in a format description of when its server was started; 0 there means that it was not."""
_LENGTH_AT, _POSITION_AT = 9, 13
_ALGORITHM_BEFORE_END: Final = 5
_CRC32: Final = 1


@dataclass(slots=True)
class _File:
    """A file's format as it stands at its head, and whether its events end with a checksum."""

    format: bytes = b""

    @property
    def summed(self) -> bool:
        return bool(self.format) and self.format[-_ALGORITHM_BEFORE_END] == _CRC32


def events(log: LogRange, begin: LogPosition, *, annotated: bool) -> Iterator[bytes]:
    """All of the range from `begin` on, and one event more, at which an applier sees that it is at the end.

    Raise NotRecoverable where a file is not what a log is, or cannot be read. `annotated`: with the texts of
    statements.
    """
    try:
        yield from _events(log, begin, annotated=annotated)
    except OSError as failure:
        raise NotRecoverable(f"the log cannot be read: {failure}") from failure


def _events(log: LogRange, begin: LogPosition, *, annotated: bool) -> Iterator[bytes]:
    before = _File()
    for path in (file for file in log.files if LogPosition.of(file.name, 0).sequence >= begin.sequence):
        first = path.name == begin.file
        at = max(FIRST_EVENT, begin.offset) if first else FIRST_EVENT
        yield _rotation(path.name, at, before)
        with secure_files.open_regular(path) as file:
            now = _File(_format(file, path))
            yield now.format if at == FIRST_EVENT else _going_on(now.format)
            start = max(at, FIRST_EVENT + len(now.format))
            alone = True
            for event in _read(file, path, start, log):
                if event[4] == MARIADB_GTID:
                    alone = len(event) <= MARIADB_FLAGS_AT or bool(
                        event[MARIADB_FLAGS_AT] & MARIADB_STANDALONE
                    )
                if annotated or event[4] != ANNOTATE_ROWS:
                    yield mended_event(event, alone=alone, summed=now.summed)
        before = now
    if log.ends_file:
        # Of the file that a server would have begun then.
        yield _rotation(_following(log.stop.file), FIRST_EVENT, before)
        yield _going_on(before.format, FIRST_EVENT + len(before.format))


def _read(file: IO[bytes], path: Path, start: int, log: LogRange) -> Iterator[bytes]:
    """The file's events from there on; in the last file up to the first behind the stop."""
    at, last = start, path.name == log.stop.file and not log.ends_file
    size = log.size(path)
    file.seek(start)
    while at < size:
        behind = last and at >= log.stop.offset
        event = _one(file, path, at)
        at += len(event)
        yield event
        if behind:
            return


def _one(file: IO[bytes], path: Path, at: int) -> bytes:
    head = file.read(HEADER_SIZE)
    length = struct.unpack_from("<I", head, _LENGTH_AT)[0] if len(head) == HEADER_SIZE else 0
    rest = file.read(length - HEADER_SIZE) if length >= HEADER_SIZE else b""
    if length < HEADER_SIZE or len(rest) != length - HEADER_SIZE:
        raise NotRecoverable(f"{path.name} holds no whole event at {at}")
    return head + rest


def _format(file: IO[bytes], path: Path) -> bytes:
    """The event that every file begins with, as of a file that is no longer written."""
    file.seek(FIRST_EVENT)
    event = _one(file, path, FIRST_EVENT)
    if event[4] != FORMAT_DESCRIPTION or len(event) < _CREATED_AT + 4 + _ALGORITHM_BEFORE_END:
        raise NotRecoverable(f"{path.name} does not begin as a binary log does")
    flags = struct.unpack_from("<H", event, FLAGS_AT)[0] & ~FLAG_IN_USE
    return _changed(event, FLAGS_AT, struct.pack("<H", flags))


def _going_on(event: bytes, position: int = 0) -> bytes:
    """The same for a replica that is in the midst of a log: neither an event of its own, nor a start."""
    return _changed(_changed(event, _CREATED_AT, bytes(4)), _POSITION_AT, struct.pack("<I", position))


def _changed(event: bytes, at: int, data: bytes) -> bytes:
    """With these bytes there, and the checksum of that: this event has one, whatever the others have."""
    body = (event[:at] + data + event[at + len(data) :])[:-CHECKSUM_SIZE]
    return body + struct.pack("<I", zlib.crc32(body))


def _rotation(name: str, position: int, before: _File) -> bytes:
    """Say in which file and where what follows stands, with a checksum if what came before has them."""
    body = struct.pack("<Q", position) + name.encode("utf-8", "surrogateescape")
    length = HEADER_SIZE + len(body) + (CHECKSUM_SIZE if before.summed else 0)
    event = struct.pack("<IBIIIH", 0, ROTATE, 1, length, 0, _ARTIFICIAL) + body
    return event + struct.pack("<I", zlib.crc32(event)) if before.summed else event


def _following(name: str) -> str:
    stem, _, digits = name.rpartition(".")
    return f"{stem}.{int(digits) + 1:0{len(digits)}d}"
