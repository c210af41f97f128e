"""The events that open a transaction: its length, commit time and global id.

Sources: MySQL source documentation of Gtid_event and of the mysql::serialization library (tagged GTIDs, MySQL
8.3 and later); MariaDB knowledge base, GTID_EVENT. Times are microseconds since 1970 in UTC.
"""

from struct import Struct
from typing import Final
from uuid import UUID

from zbackup.engines.mysql.binlog import events

_MICROS: Final = 1_000_000
_TIMES_AT: Final = 61
_MYSQL_TIMES: Final = Struct("<61x Q")
_MYSQL_OPENS: Final = Struct("<61x Q H")
_MOST_OFTEN: Final = 252 << 1
"""What is above the time in most such events: the byte that says that the length takes two, no flag."""
_ORIGINAL_FOLLOWS: Final = 1 << 55
_TIME: Final = _ORIGINAL_FOLLOWS - 1
_MARIADB: Final = Struct("<5x I 10x Q I B")
_MARIADB_OPENS: Final = Struct("<I 27x B")
_COMMIT_ID, _DDL, _XA = 2, 32, 64 | 128
_COMMIT_ID_SIZE: Final = 8
_START_ALTER, _ROLLBACK_ALTER = 2, 8
_SHORTEST_PREFIX: Final = 251
_WIDTHS: Final = {252: 2, 253: 3, 254: 8}

_UUID, _GNO, _TAG, _IMMEDIATE, _ORIGINAL, _LENGTH = 1, 2, 3, 6, 7, 8
_SIGNED_FIELDS: Final = frozenset({_GNO, 4, 5})
_UUID_SIZE: Final = 16


Opening = tuple[int, int, bool | None]
"""Facts of a transaction that its first event says: commit time, length, whether it stands alone.

The length in bytes counts this event too; 0 means that the log does not say and the events must be walked.
Standing alone is having exactly one statement behind it; None when only the events can tell. (No class with
named fields: making one for every transaction costs a quarter of the reader's speed.)
"""


def read_opening(kind: int, event: bytes) -> Opening:
    """Read an event of events.BEGINS, given without its checksum. Raise ValueError if it makes no sense.

    The time of MySQL 8.0 and later is the original commit time: on a replica that is the source's. It is
    recorded as 0 when the source was too old to tell; then, as for MySQL 5.7, the event's own whole seconds
    are used. MariaDB logs nothing finer than the second in which the committing statement started, and
    `SET timestamp` moves it, so these times need not rise along the log.
    """
    if kind == events.MARIADB_GTID:
        seconds, flags = _MARIADB_OPENS.unpack_from(event)
        return seconds * _MICROS, 0, bool(flags & events.MARIADB_STANDALONE)
    if kind == events.GTID_TAGGED:
        fields = _tagged_fields(event)
        original = fields.get(_ORIGINAL, fields.get(_IMMEDIATE, 0))
        return original or _header_time(event), fields.get(_LENGTH, 0), None
    if len(event) >= _MYSQL_OPENS.size:
        immediate, length = _MYSQL_OPENS.unpack_from(event)
        if immediate >> 55 == _MOST_OFTEN:
            return immediate & _TIME or _header_time(event), length, None
    if len(event) < _MYSQL_TIMES.size:
        return _header_time(event), 0, None
    # MySQL 8.0: two 7-byte times, the second only if the highest bit of the first says so, then the length.
    (immediate,) = _MYSQL_TIMES.unpack_from(event)
    at = _TIMES_AT + 7
    if immediate & _ORIGINAL_FOLLOWS:
        committed = int.from_bytes(event[at : at + 7], "little")
        at += 7
    else:
        committed = immediate & _TIME
    length = event[at]
    if length >= _SHORTEST_PREFIX:
        length = int.from_bytes(event[at + 1 : at + 1 + _WIDTHS[length]], "little")
    return committed or _header_time(event), length, None


def only_tries(event: bytes) -> bool:
    """Whether a GTID event of MariaDB opens an ALTER TABLE that has only begun, or was rolled back.

    With binlog_alter_two_phase the statement is logged when it begins and again when it ends, by COMMIT ALTER
    or ROLLBACK ALTER with the number of the former (log_event.h, Gtid_log_event, flags_extra).
    """
    at = events.MARIADB_FLAGS_AT
    flags, at = event[at], at + 1
    if not flags & _DDL or flags & _XA:
        return False
    at += _COMMIT_ID_SIZE if flags & _COMMIT_ID else 0
    return at < len(event) and bool(event[at] & (_START_ALTER | _ROLLBACK_ALTER))


def read_gtid(kind: int, event: bytes) -> str:
    """The global id as the server writes it: uuid:number, uuid:tag:number, domain-server-number, or ""."""
    if kind == events.ANONYMOUS_GTID:
        return ""
    if kind == events.MARIADB_GTID:
        server, number, domain, _ = _MARIADB.unpack_from(event)
        return f"{domain}-{server}-{number}"
    if kind == events.GTID_TAGGED:
        return _tagged_gtid(event)
    return f"{UUID(bytes=event[20:36])}:{int.from_bytes(event[36:44], 'little')}"


def _tagged_gtid(event: bytes) -> str:
    fields = _tagged_fields(event)
    tag = fields.get(_TAG, 0)
    name = tag.to_bytes((tag.bit_length() + 7) // 8, "big").decode("ascii")
    return ":".join((str(UUID(int=fields[_UUID])), *((name,) if name else ()), str(fields[_GNO])))


def _header_time(event: bytes) -> int:
    return int.from_bytes(event[:4], "little") * _MICROS


def _tagged_fields(event: bytes) -> dict[int, int]:
    """Every field of a tagged GTID event by its number; the UUID and the tag as big-endian integers.

    The body is a version (1), its size, the last field a reader must know, then pairs of field number and
    value. All integers have variable length. Fields beyond those known here are optional and come last.
    """
    version, at = _varlen(event, events.HEADER_SIZE)
    if version != 1:
        raise ValueError(f"tagged GTID event in unknown format {version}")
    size, at = _varlen(event, at)
    end = min(len(event), events.HEADER_SIZE + size)
    _, at = _varlen(event, at)
    fields: dict[int, int] = {}
    while at < end:
        field, at = _varlen(event, at)
        if field > _LENGTH:
            break
        fields[field], at = _field(event, field, at)
    return fields


def _field(event: bytes, field: int, at: int) -> tuple[int, int]:
    count = _UUID_SIZE
    if field == _TAG:
        count, at = _varlen(event, at)
    if field in (_UUID, _TAG):
        value = 0
        for _ in range(count):
            byte, at = _byte(event, field, at)
            value = value << 8 | byte
        return value, at
    value, at = _varlen(event, at)
    if field in _SIGNED_FIELDS:
        value = value >> 1 ^ -(value & 1)
    return value, at


def _byte(event: bytes, field: int, at: int) -> tuple[int, int]:
    """One byte of a UUID (written as an integer each) or of a string (plain)."""
    return _varlen(event, at) if field == _UUID else (event[at], at + 1)


def _varlen(event: bytes, at: int) -> tuple[int, int]:
    """A number and the offset behind it: as many further bytes as the first has low one-bits."""
    try:
        first = event[at]
    except IndexError:
        raise ValueError("tagged GTID event ends too early") from None
    more = (~first & first + 1).bit_length() - 1
    value = int.from_bytes(event[at : at + 1 + more], "little")
    return value >> min(more + 1, 8), at + 1 + more
