"""The bytes of binlog events that matter for finding transactions.

Sources: MySQL source documentation (mysql::binlog::event, "Replication Protocol: Binlog Event", the page of
the mysql::serialization library) and the MariaDB knowledge base ("Replication Protocol: Binlog Event
header, GTID_EVENT, FORMAT_DESCRIPTION_EVENT"). All numbers are little-endian.
"""

import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import accumulate
from mmap import mmap
from typing import Final

from zbackup.engines.mysql.binlog.errors import BinlogTooOld
from zbackup.engines.mysql.binlog.read_in_pieces import Pieces

MAGIC: Final = b"\xfebin"
MAGIC_ENCRYPTED: Final = b"\xfdbin"
FIRST_EVENT: Final = 4
HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4

QUERY: Final = 2
STOP: Final = 3
ROTATE: Final = 4
INTVAR: Final = 5
APPEND_BLOCK: Final = 9
RAND: Final = 13
USER_VAR: Final = 14
FORMAT_DESCRIPTION: Final = 15
XID: Final = 16
BEGIN_LOAD_QUERY: Final = 17
TABLE_MAP: Final = 19
INCIDENT: Final = 26
HEARTBEAT: Final = 27
IGNORABLE: Final = 28
ROWS_QUERY: Final = 29
GTID: Final = 33
ANONYMOUS_GTID: Final = 34
PREVIOUS_GTIDS: Final = 35
XA_PREPARE: Final = 38
PARTIAL_UPDATE_ROWS: Final = 39
TRANSACTION_PAYLOAD: Final = 40
HEARTBEAT_V2: Final = 41
GTID_TAGGED: Final = 42
ANNOTATE_ROWS: Final = 160
BINLOG_CHECKPOINT: Final = 161
MARIADB_GTID: Final = 162
GTID_LIST: Final = 163
START_ENCRYPTION: Final = 164

FLAG_IN_USE: Final = 0x1
"""Set in a format description event while its file is being written; not covered by the checksum."""

FLAG_IGNORABLE: Final = 0x80
FLAGS_AT: Final = 17

BEGINS: Final = frozenset({GTID, ANONYMOUS_GTID, GTID_TAGGED, MARIADB_GTID})
"""Every transaction starts with one of these (MySQL 5.7 and later, MariaDB 10.0 and later)."""

BETWEEN: Final = frozenset(
    {
        STOP,
        ROTATE,
        FORMAT_DESCRIPTION,
        INCIDENT,
        HEARTBEAT,
        HEARTBEAT_V2,
        IGNORABLE,
        PREVIOUS_GTIDS,
        BINLOG_CHECKPOINT,
        GTID_LIST,
        START_ENCRYPTION,
    }
)
"""Events that stand between transactions and belong to none."""

PREFIXES: Final = frozenset(
    {INTVAR, RAND, USER_VAR, TABLE_MAP, ANNOTATE_ROWS, ROWS_QUERY, BEGIN_LOAD_QUERY, APPEND_BLOCK}
)
"""Events that only prepare the statement behind them, so a group never ends with one."""

INSERTS: Final = frozenset({23, 30, 166, 169})
UPDATES: Final = frozenset({24, 31, PARTIAL_UPDATE_ROWS, 167, 170})
DELETES: Final = frozenset({25, 32, 168, 171})
"""Rows events: versions 1 and 2, and MariaDB's compressed ones of both."""

MARIADB_STANDALONE: Final = 1
"""GTID flag of MariaDB: one statement follows, without a COMMIT behind it."""

MARIADB_FLAGS_AT: Final = HEADER_SIZE + 12
"""The offset of the flags in a GTID event: behind its sequence number and its domain."""


Buffer = bytes | mmap
"""A file's bytes, whole or mapped; slices are copies either way."""

Live = Buffer | Pieces
"""The same, or read while its server may cut the file short."""


class LogDialect(Enum):
    MYSQL = "MySQL"
    MARIADB = "MariaDB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The facts that a file's format description event states about all its other events."""

    dialect: LogDialect
    server_version: str
    checksum: bool


HEADER: Final = struct.Struct("<I B I I I H")
"""Time in seconds, type, server id, size with header and checksum, end position modulo 2**32, flags."""

SHAPE: Final = struct.Struct("<4x B 4x I I")
"""The part of HEADER that walking needs: type, size, end position."""

SIZE: Final = struct.Struct("<9x I")

_VERSION: Final = struct.Struct("<H 50s I B")
_QUERY: Final = struct.Struct("<8x B 2x H")
_QUERY_FIXED: Final = 13
_TYPES_ONLY_MARIADB_HAS: Final = 160
_CRC32: Final = 1
_START: Final = 1
_FEWEST_TYPES: Final = 27
"""As MySQL 5.0 has."""
_VERSION_4: Final = 4
TOO_OLD: Final = "written by a server older than MySQL 5.7 or MariaDB 10.0"
_SUMMED: Final = 0x2144DF1C
"""The CRC32 of any bytes that end with their own CRC32, lowest byte first."""

_CHUNK: Final = 1 << 20

TOGETHER: Final = 1 << 13
"""Bytes of events whose checksums are verified at once. In as many, one CRC32 finds any three wrong bits."""


def all_match(data: Live, start: int, second: int, end: int) -> bool:
    """Whether the events between two offsets fill that, each with the CRC32 of its bytes at its end.

    The first of them ends at `second`.
    """
    if isinstance(data, Pieces):
        return False
    size_at, least = SIZE.unpack_from, HEADER_SIZE + CHECKSUM_SIZE
    if (size := end - start) > TOGETHER:
        return _each_matches(data, start, end)
    # Calling for a CRC32 takes longer than it takes to make that of a short event.
    together, contributed, at = data[start:end], _contributed(), second - start
    summed = contributed[size - at]
    while at <= size - least:
        (length,) = size_at(together, at)
        at += length
        if length < least or at > size:
            return False
        summed ^= contributed[size - at]
    return at == size and zlib.crc32(together) == summed


def _each_matches(data: Buffer, at: int, end: int) -> bool:
    size_at, crc32, least = SIZE.unpack_from, zlib.crc32, HEADER_SIZE + CHECKSUM_SIZE
    with memoryview(data) as view:
        while at <= end - least:
            behind = at + size_at(data, at)[0]
            if not at + least <= behind <= end or crc32(view[at:behind]) != _SUMMED:
                return False
            at = behind
    return at == end


def all_match_between(data: Live, bounds: Sequence[int]) -> bool:
    """The same of events that lie between these offsets, no more than TOGETHER bytes."""
    start, end, contributed, summed = bounds[0], bounds[-1], _contributed(), 0
    for at in bounds[1:]:
        summed ^= contributed[end - at]
    return zlib.crc32(data[start:end]) == summed


@cache
def _contributed() -> list[int]:
    """What an event with its CRC32 at its end contributes to that of many, by how many bytes follow it there.

    The CRC32 of all is the exclusive or of what each contributes, for it is linear (crc32_combine of zlib).
    """
    zero = zlib.crc32(b"\0")
    return list(accumulate(range(TOGETHER), lambda crc, _: zlib.crc32(b"\0", crc) ^ zero, initial=_SUMMED))


def checksum_matches(data: Live, start: int, end: int) -> bool:
    """Whether the last four bytes of the event in data[start:end] are the CRC32 of the others.

    The in-use flag of a format description is set and cleared without a new checksum, so the server leaves
    it out, and so does this.
    """
    if data[start + 4] == FORMAT_DESCRIPTION:
        event = bytearray(data[start:end])
        event[FLAGS_AT] &= ~FLAG_IN_USE
        return zlib.crc32(event) == _SUMMED
    if end - start <= _CHUNK:
        return zlib.crc32(data[start:end]) == _SUMMED
    checksum = 0
    for at in range(start, end, _CHUNK):
        checksum = zlib.crc32(data[at : min(at + _CHUNK, end)], checksum)
    return checksum == _SUMMED


def is_of_old_server(event: bytes) -> bool:
    """Whether a file's first event is of a server before MySQL 5.6.2 or MariaDB 5.3, without checksum.

    MySQL before 5.0 began its files with another event (START_EVENT_V3, in format 1 with a shorter header).
    """
    if event[4] != FORMAT_DESCRIPTION:
        return event[4] == _START
    if len(event) < HEADER_SIZE + _VERSION.size:
        return False
    binlog_version, name, *_ = _VERSION.unpack_from(event, HEADER_SIZE)
    number = re.match(rb"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", name)
    oldest = (5, 3, 0) if b"MariaDB" in name else (5, 6, 2)
    return bool(binlog_version < _VERSION_4 or (number and tuple(map(int, number.groups())) < oldest))


def parse_format(event: bytes) -> Format:
    """Read a format description event. Raise ValueError when it makes no sense, BinlogTooOld when no
    supported server wrote it.

    Behind the version come the header lengths of all event types, one byte each; only MariaDB has types from
    160 on, which tells the two apart even where the version text was changed. The last byte before the
    event's own checksum is the checksum algorithm of all events (MySQL 5.6, MariaDB 5.3 and later).
    """
    lengths_at = HEADER_SIZE + _VERSION.size
    types = len(event) - lengths_at - 1 - CHECKSUM_SIZE
    if types < _FEWEST_TYPES:
        raise ValueError("it is too short")
    if types < XA_PREPARE or _TYPES_ONLY_MARIADB_HAS <= types < GTID_LIST:
        raise BinlogTooOld(TOO_OLD)
    binlog_version, name, _, header_size = _VERSION.unpack_from(event, HEADER_SIZE)
    if (binlog_version, header_size) != (_VERSION_4, HEADER_SIZE):
        raise ValueError(f"binlog version {binlog_version} with {header_size} byte headers")
    return Format(
        dialect=LogDialect.MARIADB if types >= _TYPES_ONLY_MARIADB_HAS else LogDialect.MYSQL,
        server_version=name.rstrip(b"\0").decode("ascii", "replace"),
        checksum=event[-CHECKSUM_SIZE - 1] == _CRC32,
    )


def query_text(data: Live, start: int, end: int, limit: int = 64) -> bytes:
    """How the statement in the query event at `start` begins; `end` is where its checksum begins."""
    fixed = start + HEADER_SIZE
    database, status = _QUERY.unpack(data[fixed : fixed + _QUERY.size])
    text = start + HEADER_SIZE + _QUERY_FIXED + status + database + 1
    return data[text : min(end, text + limit)]


def text_at(body: bytes) -> int:
    """Where the statement begins in the body of a query event (without its header)."""
    database, status = _QUERY.unpack_from(body)
    return int(_QUERY_FIXED + status + database + 1)
