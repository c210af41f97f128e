"""Writes binlog files byte by byte, from the manuals' description of the format."""

import struct
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from zbackup.engines.mysql.binlog import events

MAGIC = b"\xfebin"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SERVER = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")


def at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


@dataclass(kw_only=True)
class Written:
    """A transaction as the builder knows it."""

    start: int
    end: int
    micros: int
    gtid: str


@dataclass
class Builder:
    """One binlog file under construction."""

    checksum: bool = True
    mariadb: bool = False
    data: bytearray = field(default_factory=lambda: bytearray(MAGIC))
    written: list[Written] = field(default_factory=list)
    version: bytes = b""
    lengths: bytes = b""
    began: int = 1_700_000_000

    def __post_init__(self) -> None:
        self.describe()

    def event(
        self, kind: int, body: bytes, *, seconds: int = 1_700_000_000, flags: int = 0, server: int = 1
    ) -> bytes:
        size = 19 + len(body) + (4 if self.checksum else 0)
        behind = (len(self.data) + size) & 0xFFFFFFFF
        if (
            self.mariadb
            and not self.checksum
            and kind in (events.QUERY, events.TABLE_MAP, events.ANNOTATE_ROWS)
        ):
            behind = 0  # as MariaDB 11.8 does
        event = struct.pack("<IBIIIH", seconds, kind, server, size, behind, flags) + body
        if self.checksum:
            event += struct.pack("<I", zlib.crc32(event))
        self.data += event
        return event

    def describe(self, *, in_use: bool = False) -> None:
        """A format description: always with a checksum of its own."""
        version = self.version or (b"10.11.6-MariaDB-log" if self.mariadb else b"8.4.0")
        lengths = self.lengths or bytes(171 if self.mariadb else 42)
        body = struct.pack("<H50sIB", 4, version, 0, 19) + lengths + bytes((1 if self.checksum else 0,))
        size = 19 + len(body) + 4
        event = struct.pack("<IBIIIH", self.began, 15, 1, size, len(self.data) + size, 0) + body
        event += struct.pack("<I", zlib.crc32(event))
        if in_use:
            event = event[:17] + b"\x01" + event[18:]
        self.data += event

    def query(
        self,
        text: bytes,
        *,
        seconds: int = 1_700_000_000,
        database: bytes = b"shop",
        status: bytes = b"\0" * 5,
    ) -> None:
        head = struct.pack("<IIBHH", 7, 0, len(database), 0, len(status))
        self.event(events.QUERY, head + status + database + b"\0" + text, seconds=seconds)

    def rows(self, count: int, size: int) -> None:
        for _ in range(count):
            self.event(events.TABLE_MAP, b"\x11" * 30)
            self.event(30, b"\x22" * size)

    def xid(self, number: int = 9) -> None:
        self.event(events.XID, struct.pack("<Q", number))

    def mysql(
        self,
        micros: int,
        number: int,
        *,
        rows: int = 1,
        size: int = 40,
        anonymous: bool = False,
        original: int | None = None,
        tag: str = "",
        before: bytes = b"",
    ) -> Written:
        """A transaction of MySQL 8.0 or later; the GTID event holds the length of the whole."""
        start = len(self.data)
        trailer = 4 if self.checksum else 0
        body = Builder(checksum=self.checksum)
        body.data = bytearray()
        body.query(b"BEGIN")
        body.rows(rows, size)
        body.xid()
        rest = len(body.data)
        length = rest
        for _ in range(4):  # the length counts its own bytes, so it settles in a few rounds
            payload = (
                tagged(micros, original, number, tag, length)
                if tag
                else plain(micros, original, number, length)
            )
            length = rest + 19 + len(payload) + trailer
        kind = events.GTID_TAGGED if tag else events.ANONYMOUS_GTID if anonymous else events.GTID
        self.event(kind, payload)
        self.query(b"BEGIN")
        self.rows(rows, size)
        self.xid()
        gtid = "" if anonymous else ":".join([str(SERVER), *([tag] if tag else []), str(number)])
        return self.note(start, original if original is not None else micros, gtid)

    def mysql57(
        self, seconds: int, number: int, *, rows: int = 1, size: int = 40, ddl: bool = False
    ) -> Written:
        """A transaction of MySQL 5.7: no length, no time but the header's."""
        start = len(self.data)
        body = struct.pack("<B16sqBqq", 1, SERVER.bytes, number, 2, 0, 1)
        self.event(events.GTID, body, seconds=seconds)
        if ddl:
            self.event(events.INTVAR, b"\x01" + bytes(8))
            self.query(b"create table t (a int)")
        else:
            self.query(b"BEGIN")
            self.rows(rows, size)
            self.xid()
        return self.note(start, seconds * 1_000_000, f"{SERVER}:{number}")

    def maria(
        self,
        seconds: int,
        number: int,
        *,
        rows: int = 1,
        size: int = 40,
        standalone: bool = False,
        ending: bytes = b"",
        inside: bytes = b"",
        domain: int = 0,
        server: int = 1,
    ) -> Written:
        """A MariaDB group: one statement, or rows ended by an XID event or by the statement `ending`."""
        start = len(self.data)
        flags = 1 if standalone else 4
        body = struct.pack("<QIB", number, domain, flags) + bytes(6)
        self.event(events.MARIADB_GTID, body, seconds=seconds, server=server)
        if standalone:
            self.event(events.USER_VAR, b"\x01\0\0\0x\x01")
            self.query(b"CREATE TABLE t (a INT)")
        else:
            if inside:
                self.query(inside)
            self.event(events.ANNOTATE_ROWS, b"insert into t values (1)")
            self.rows(rows, size)
            self.query(ending) if ending else self.xid()
        return self.note(start, seconds * 1_000_000, f"{domain}-{server}-{number}")

    def rotate(self, to: str = "binlog.000002") -> None:
        self.event(events.ROTATE, struct.pack("<Q", 4) + to.encode())

    def note(self, start: int, micros: int, gtid: str) -> Written:
        written = Written(start=start, end=len(self.data), micros=micros, gtid=gtid)
        self.written.append(written)
        return written


def packed(number: int) -> bytes:
    """MySQL's length-encoded integer."""
    if number < 251:
        return bytes((number,))
    for prefix, width in ((252, 2), (253, 3), (254, 8)):
        if number < 1 << 8 * width:
            return bytes((prefix,)) + number.to_bytes(width, "little")
    raise ValueError(number)


def times(micros: int, original: int | None) -> bytes:
    if original is None:
        return micros.to_bytes(7, "little")
    return (micros | 1 << 55).to_bytes(7, "little") + original.to_bytes(7, "little")


def plain(micros: int, original: int | None, number: int, length: int) -> bytes:
    fixed = struct.pack("<B16sqBqq", 0, SERVER.bytes, number, 2, 0, 1)
    return fixed + times(micros, original) + packed(length) + struct.pack("<I", 80400)


def varlen(number: int) -> bytes:
    """A number of the mysql::serialization library: low one-bits count the bytes that follow."""
    width = next((w for w in range(1, 9) if number < 1 << 7 * w), 9)
    if width == 9:
        return b"\xff" + number.to_bytes(8, "little")
    return (number << width | (1 << width - 1) - 1).to_bytes(width, "little")


def signed(number: int) -> bytes:
    return varlen(number << 1 if number >= 0 else (-number << 1) - 1)


def tagged(micros: int, original: int | None, number: int, tag: str, length: int) -> bytes:
    fields = [
        varlen(0) + varlen(0),
        varlen(1) + b"".join(varlen(byte) for byte in SERVER.bytes),
        varlen(2) + signed(number),
        varlen(3) + varlen(len(tag)) + tag.encode(),
        varlen(4) + signed(0),
        varlen(5) + signed(1),
        varlen(6) + varlen(micros),
        *([varlen(7) + varlen(original)] if original is not None else []),
        varlen(8) + varlen(length),
        varlen(9) + varlen(80400),
    ]
    body = varlen(0) + b"".join(fields)
    size = 1 + 2 + len(body)  # version and size count too; the size takes two bytes at these lengths
    return varlen(1) + varlen(size) + body
