"""Logs as each series of MySQL and Percona Server writes them, made by hand from the manual's format.

Stands in for those that no package registry has: `make test-versions` runs the real ones where they are
brought along. The header lengths are those of a format description event (MySQL source documentation,
"Format_description_event", post_header_len): 8.0 has 41 types of events, 8.4 a 42nd for tagged GTIDs.
"""

import struct
from pathlib import Path

import pytest

from tests.unit.engines.binlog.builder import SERVER, Builder, at, plain
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.events import LogDialect, parse_format
from zbackup.engines.mysql.binlog.reader import transactions

LENGTHS = bytes.fromhex(
    "38 0d 00 08 00 00 00 00 04 00 04 00 00 00 62 00 04 1a 08 00 00"
    "00 08 08 08 02 00 00 00 0a 0a 0a 2a 2a 00 12 34 00 0a 28 00"
)
SERIES = [
    (b"5.7.44-log", 38),
    (b"8.0.26", 41),
    (b"8.0.36-28", 41),
    (b"8.0.42-0ubuntu0.22.04.1", 41),
    (b"8.4.5", 42),
    (b"8.4.5-5", 42),
]
NOON = 1_700_000_000_000_000


def log(version: bytes, types: int) -> Builder:
    return Builder(version=version, lengths=LENGTHS.ljust(42, b"\0")[:types])


@pytest.mark.parametrize(("version", "types"), SERIES)
def test_its_format_is_read(version: bytes, types: int) -> None:
    size = struct.unpack_from("<I", log(version, types).data, 4 + 9)[0]
    found = parse_format(bytes(log(version, types).data[4 : 4 + size]))
    assert (found.dialect, found.server_version, found.checksum) == (LogDialect.MYSQL, version.decode(), True)


@pytest.mark.parametrize(("version", "types"), SERIES[1:])
@pytest.mark.parametrize("original", [None, NOON - 5_000_000], ids=["own", "replicated"])
def test_its_transactions_are_found(version: bytes, types: int, original: int | None, tmp_path: Path) -> None:
    file = log(version, types)
    file.event(events.PREVIOUS_GTIDS, bytes(8))
    for number in range(1, 4):
        file.mysql(NOON + number, number, original=original)
    file.mysql(NOON + 9, 9, anonymous=True)
    if types == 42:
        file.mysql(NOON + 10, 10, tag="batch")
    path = tmp_path / "binlog.000001"
    path.write_bytes(file.data)
    found = [(t.start.offset, t.end.offset, t.gtid, t.committed) for t in transactions(path)]
    assert found == [(w.start, w.end, w.gtid, at(w.micros)) for w in file.written]


def test_a_ticket_behind_the_versions_is_no_part_of_the_length(tmp_path: Path) -> None:
    """From 8.1 a GTID event may end with the ticket of its group commit."""
    file = log(b"8.4.5", 42)
    start = len(file.data)
    inner = Builder(data=bytearray())
    inner.data.clear()
    inner.query(b"BEGIN")
    inner.rows(1, 40)
    inner.xid()
    ticket = struct.pack("<Q", 4711)
    length = len(inner.data)
    for _ in range(4):
        length = len(inner.data) + 19 + len(plain(NOON, None, 7, length) + ticket) + 4
    file.event(events.GTID, plain(NOON, None, 7, length) + ticket)
    file.query(b"BEGIN")
    file.rows(1, 40)
    file.xid()
    path = tmp_path / "binlog.000001"
    path.write_bytes(file.data)
    (found,) = transactions(path)
    assert (found.start.offset, found.end.offset) == (start, len(file.data))
    assert (found.gtid, found.committed) == (f"{SERVER}:7", at(NOON))
