"""Whatever bytes a log has, reading it ends, and raises no other errors than zbackup's own."""

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog import find_unreplayable as unreplayable
from zbackup.engines.mysql.binlog.continuity import break_between
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogTooOld
from zbackup.engines.mysql.binlog.events import FIRST_EVENT, TRANSACTION_PAYLOAD
from zbackup.engines.mysql.binlog.find_by_name import earlier, find
from zbackup.engines.mysql.binlog.find_stop import find_stop
from zbackup.engines.mysql.binlog.reader import check_events, last_begun, last_in_file, opened, transactions
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.engines.mysql.binlog.temporary_tables import find_doubtful, find_foreign
from zbackup.engines.mysql.binlog.torn_end import torn_at
from zbackup.engines.mysql.binlog.transaction_events import transaction_events
from zbackup.engines.mysql.recovery.packets import NONE, steps_of
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.features.undo.mysql.changes import touched_tables
from zbackup.model.errors import ZbackupError
from zbackup.model.log import LogPosition
from zbackup.model.log_entry import LogFilter, LogRead
from zbackup.model.target import Time
from zbackup.model.transaction_name import parse_transaction

HERE = Path(__file__).parent
REAL = sorted([*(HERE / "odd_statements").iterdir(), *(HERE / "with_passwords").iterdir()])
SMALL = [path for path in REAL if path.stat().st_size < 4096]
MOMENT = datetime(2026, 11, 28, tzinfo=UTC)
NAMES = ("0-1-5", "3e11fa47-71ca-11e1-9e33-c80aa9429562:5", "binlog.000001:700")


def mysql_log() -> bytes:
    """One with compressed transactions, tags and rows, which the real ones here have not."""
    builder = Builder()
    builder.event(35, struct.pack("<Q", 0))
    for number in range(3):
        builder.mysql(1_700_000_000_000_000 + number, number + 1, rows=2)
    builder.mysql(1_700_000_000_000_009, 9, tag="batch")
    builder.event(TRANSACTION_PAYLOAD, b"\2\1\xff\1\1\x40\0" + b"\x11" * 64)
    return bytes(builder.data)


BYTES = [*(path.read_bytes() for path in SMALL), mysql_log()]


def walk(path: Path) -> LogRange:
    end = LogPosition.of(path.name, path.stat().st_size)
    return LogRange(files=(path,), start=LogPosition.of(path.name, FIRST_EVENT), stop=end, ends_file=True)


def images(path: Path) -> None:
    for each in transactions(path):
        with suppress(ZbackupError):
            touched_tables(transaction_events(path, each.start, each.end))


def foreign(path: Path) -> None:
    log = walk(path)
    find_foreign([path], (log.start, log.stop), lambda: [path], None, drops_fail=True)
    find_doubtful([path], (log.start, log.stop), lambda: [path], None)


READERS: list[Callable[[Path], object]] = [
    lambda path: list(transactions(path)),
    last_in_file,
    last_begun,
    check_events,
    torn_at,
    earlier,
    lambda path: list(search([path], LogFilter())),
    lambda path: list(search([path], LogFilter(tables=("shop.orders",), backwards=True))),
    lambda path: [find(parse_transaction(name), [path]) for name in NAMES],
    lambda path: find_stop([path], LogPosition.of(path.name, FIRST_EVENT), Time(MOMENT)),
    lambda path: unreplayable.find_unreplayable([path], LogPosition.of(path.name, FIRST_EVENT)),
    lambda path: break_between(path, path),
    lambda path: steps_of(walk(path), {}) or NONE,
    foreign,
    images,
]


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A log with some bytes changed, or cut off; with checksums that are right, as a liar writes them."""
    data = bytearray(draw(st.sampled_from(BYTES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        new = draw(st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from((b"\xff" * 4, bytes(4)))))
        data[at : at + len(new)] = new
    if draw(st.booleans()):
        del data[draw(st.integers(4, len(data))) :]
    if draw(st.booleans()):
        sum_again(data)
    return bytes(data)


def sum_again(data: bytearray) -> None:
    at = FIRST_EVENT
    while at + 23 <= len(data):
        (size,) = struct.unpack_from("<I", data, at + 9)
        if size < 23 or at + size > len(data):
            return
        event = bytearray(data[at : at + size - 4])
        event[17] &= 0xFE if event[4] == 15 else 0xFF
        data[at + size - 4 : at + size] = struct.pack("<I", zlib.crc32(event))
        at += size


@settings(max_examples=examples(500), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=spoilt())
def test_only_typed_errors_come_from_bytes_that_make_no_sense(data: bytes) -> None:
    with TemporaryDirectory() as room:
        path = Path(room) / "binlog.000001"
        path.write_bytes(data)
        for reader in READERS:
            with suppress(ZbackupError):
                reader(path)


@pytest.mark.parametrize("reader", READERS)
def test_a_sound_log_is_read_by_each(reader: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(SMALL[0].read_bytes())
    reader(path)


INSIDE = 788
"""In the rows of the transaction at 588."""

FILTERS = {
    "none": LogFilter(),
    "another table": LogFilter(tables=("shop.other",)),
    "a kind": LogFilter(kinds=frozenset({"drop"})),
    "an earlier time": LogFilter(until=datetime(2000, 1, 1, tzinfo=UTC)),
    "backwards": LogFilter(tables=("a.b",), kinds=frozenset({"truncate"}), backwards=True),
}


@pytest.mark.parametrize("wanted", FILTERS.values(), ids=FILTERS)
def test_damage_on_the_way_is_reported_whatever_is_looked_for(wanted: LogFilter, tmp_path: Path) -> None:
    """In the rows of a transaction of several events, which need not be looked into."""
    data = bytearray((HERE / "odd_statements" / "view_mysql.000003").read_bytes())
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    assert not any(each.problem for each in search([path], wanted) if isinstance(each, LogRead))
    data[INSIDE] ^= 1
    path.write_bytes(data)
    (read,) = [each for each in search([path], wanted) if isinstance(each, LogRead)]
    assert read.damaged and "is damaged at offset" in read.problem


@pytest.mark.parametrize("wanted", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("mariadb", [False, True])
def test_no_event_is_passed_over_unread(wanted: LogFilter, mariadb: bool, tmp_path: Path) -> None:
    """One byte wrong in a header, a body or a checksum, in transactions of any size and between them."""
    builder, path = Builder(mariadb=mariadb), tmp_path / "binlog.000001"
    for number, (rows, size) in enumerate(
        ((1, 40), (4, 900), (1, 9000), (300, 40), (2, 2 << 20), (1, 40)), 1
    ):
        if mariadb:
            builder.maria(1_700_000_000, number, rows=rows, size=size, standalone=number == 2)
        else:
            builder.mysql(1_700_000_000_000_000, number, rows=rows, size=size)
    builder.rotate()
    path.write_bytes(builder.data)
    assert check_events(path) == len(builder.data)
    wrong, at = [], FIRST_EVENT
    while at < len(builder.data):
        (length,) = struct.unpack_from("<I", builder.data, at + 9)
        wrong += [at + 4, at + 9, at + length // 2, at + length - 1]
        at += length
    # Of three hundred pairs of small events a few do.
    for spoilt in sorted({*wrong[:80], *wrong[80:-60:97], *wrong[-60:]}):
        with path.open("r+b") as file:
            file.seek(spoilt)
            file.write(bytes([builder.data[spoilt] ^ 1]))
            file.flush()
            *_, read = search([path], wanted)
            assert isinstance(read, LogRead) and (
                read.damaged or LogPosition.parse(read.end).offset <= spoilt
            )
            file.seek(spoilt)
            file.write(bytes([builder.data[spoilt]]))


def described(version: bytes, types: int, *, checksum: bool, binlog_version: int = 4) -> bytes:
    body = (
        struct.pack("<H50sIB", binlog_version, version, 0, 19) + bytes(types) + (b"\1" if checksum else b"")
    )
    size = 19 + len(body) + (4 if checksum else 0)
    event = struct.pack("<IBIIIH", 1_400_000_000, 15, 1, size, 4 + size, 0) + body
    return event + (struct.pack("<I", zlib.crc32(event)) if checksum else b"")


def begun_by(kind: int, body: bytes) -> bytes:
    size = 19 + len(body)
    return struct.pack("<IBIIIH", 1_100_000_000, kind, 1, size, 4 + size, 0) + body


OLD = {
    "MySQL 3.23": struct.pack("<IBII", 1_000_000_000, 1, 1, 69) + struct.pack("<H50sI", 1, b"3.23.58-log", 0),
    "MySQL 4.1": begun_by(1, struct.pack("<H50sI", 3, b"4.1.22-log", 0)),
    "MySQL 5.0": described(b"5.0.96-log", 27, checksum=False),
    "MySQL 5.5": described(b"5.5.62-log", 27, checksum=False),
    "MySQL 5.6": described(b"5.6.51-log", 35, checksum=True),
    "MariaDB 5.2": described(b"5.2.14-MariaDB", 27, checksum=False),
    "MariaDB 5.5": described(b"5.5.68-MariaDB", 160, checksum=True),
}


@pytest.mark.parametrize("first", OLD.values(), ids=OLD)
def test_a_log_of_an_old_server_is_too_old_and_not_damaged(first: bytes, tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    text = b"shop\0CREATE TABLE t (a INT)"
    path.write_bytes(b"\xfebin" + first + begun_by(2, struct.pack("<IIBHH", 7, 0, 4, 0, 0) + text) * 3)
    with pytest.raises(BinlogTooOld, match="older than MySQL 5"), opened(path):
        pass
    (read,) = search([path], LogFilter())
    assert isinstance(read, LogRead) and not read.damaged and "was written by a server older" in read.problem
    assert earlier(path) is None
    assert unreplayable.find_unreplayable([path], LogPosition.of(path.name, FIRST_EVENT)) == []


def test_a_damaged_first_event_is_damage(tmp_path: Path) -> None:
    data = bytearray(SMALL[0].read_bytes())
    data[100] ^= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    with pytest.raises(BinlogDamaged), opened(path):
        pass
