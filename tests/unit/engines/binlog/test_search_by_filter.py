"""The search of binlog files: what transactions did, and what is said of files that are cut or damaged."""

import struct
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder, at, packed, plain
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.find_unreplayable import SeenStops, find_unreplayable
from zbackup.engines.mysql.binlog.reader import begun
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.engines.mysql.binlog.transaction_events import transaction_events
from zbackup.model.log import LogPosition
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.table_name import separated

SECOND = 1_700_000_000_000_000


def table_map(number: int, schema: str, table: str) -> bytes:
    names = b"".join(bytes((len(n.encode()),)) + n.encode() + b"\0" for n in (schema, table))
    return number.to_bytes(6, "little") + b"\1\0" + names + b"\1\3\0\1"


def rows(number: int) -> bytes:
    return number.to_bytes(6, "little") + b"\1\0\2\0" + b"\1\1\0\7\0\0\0"


def group(builder: Builder, *changes: tuple[int, str]) -> bytes:
    """The events of a transaction: for each change its kind of rows event and its table."""
    start = len(builder.data)
    builder.query(b"BEGIN")
    for number, (kind, name) in enumerate(changes, 7):
        builder.event(events.TABLE_MAP, table_map(number, *separated(name)))
        builder.event(kind, rows(number))
    builder.xid()
    made = bytes(builder.data[start:])
    del builder.data[start:]
    return made


def transaction(builder: Builder, number: int, *changes: tuple[int, str], packed_up: bool = False) -> None:
    """A transaction of MySQL; the GTID event says how long the whole is."""
    trailer = 4 if builder.checksum else 0
    body = group(builder, *changes)
    if packed_up:
        inner = Builder(checksum=False)
        plain_events = group(inner, *changes)
        squeezed = zstandard.ZstdCompressor().compress(plain_events)
        payload = b"\2\1\0" + b"\3" + packed(len(packed(len(plain_events)))) + packed(len(plain_events))
        payload += b"\1" + packed(len(packed(len(squeezed)))) + packed(len(squeezed)) + b"\0" + squeezed
        body = b"\0" * (19 + len(payload) + trailer)
    length = len(body)
    for _ in range(4):
        gtid = plain(SECOND + number, None, number, length)
        length = len(body) + 19 + len(gtid) + trailer
    builder.event(events.GTID, gtid)
    if packed_up:
        builder.event(events.TRANSACTION_PAYLOAD, payload)
        return
    builder.query(b"BEGIN")
    for ident, (kind, name) in enumerate(changes, 7):
        builder.event(events.TABLE_MAP, table_map(ident, *separated(name)))
        builder.event(kind, rows(ident))
    builder.xid()


def statement(builder: Builder, number: int, text: bytes, status: bytes = b"\0" * 5) -> None:
    """A statement that stands alone, in the schema shop."""
    trailer = 4 if builder.checksum else 0
    start = len(builder.data)
    builder.query(text, status=status)
    rest = len(builder.data) - start
    del builder.data[start:]
    length = rest
    for _ in range(4):
        gtid = plain(SECOND + number, None, number, length)
        length = rest + 19 + len(gtid) + trailer
    builder.event(events.GTID, gtid)
    builder.query(text, status=status)


def story(checksum: bool = True) -> Builder:
    builder = Builder(checksum=checksum)
    transaction(builder, 1, (30, "shop.orders"))
    transaction(builder, 2, (31, "shop.orders"), (32, "crm.people"))
    transaction(builder, 3, (32, "shop.orders"), packed_up=True)
    statement(builder, 4, b"TRUNCATE TABLE orders")
    statement(builder, 5, b"DROP DATABASE shop")
    transaction(builder, 6, (39, "crm.people"))
    return builder


def found(path: Path, **wanted: object) -> list[LogEntry]:
    return [each for each in search([path], LogFilter(**wanted)) if isinstance(each, LogEntry)]  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(story().data)
    return path


def test_what_each_did(log: Path) -> None:
    done = [[(t.name, t.kinds) for t in entry.tables] for entry in found(log)]
    assert done == [
        [("shop.orders", ("insert",))],
        [("shop.orders", ("update",)), ("crm.people", ("delete",))],
        [("shop.orders", ("delete",))],
        [("shop.orders", ("ddl", "truncate"))],
        [("shop.*", ("ddl", "drop"))],
        [("crm.people", ("update",))],
    ]
    assert {entry.thread for entry in found(log)} == {7}
    assert [entry.events for entry in found(log)] == [5, 7, 6, 2, 2, 5]
    assert sum(entry.size for entry in found(log)) == log.stat().st_size - story_head()


def story_head() -> int:
    return len(Builder().data)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"tables": ("shop.orders",)}, [1, 2, 3, 4, 5]),
        ({"tables": ("shop",)}, [1, 2, 3, 4, 5]),
        ({"tables": ("crm.*",)}, [2, 6]),
        ({"tables": ("shop.order",)}, [5]),
        ({"tables": ("shop.orders",), "kinds": frozenset({"drop"})}, [5]),
        ({"tables": ("shop.orders",), "kinds": frozenset({"delete"})}, [3]),
        ({"kinds": frozenset({"ddl"})}, [4, 5]),
        ({"grep": "drop data"}, [5]),
        ({"tables": ("SHOP.Orders",), "fold": True}, [1, 2, 3, 4, 5]),
        ({"since": at(SECOND + 3), "until": at(SECOND + 5)}, [3, 4]),
    ],
)
def test_what_is_wanted(log: Path, wanted: dict[str, object], numbers: list[int]) -> None:
    assert [int(e.transaction.gtid.rpartition(":")[2]) for e in found(log, **wanted)] == numbers


def test_search_goes_on_where_it_ended(log: Path) -> None:
    entries = found(log)
    assert found(log, after=entries[2].transaction.end) == entries[3:]
    end = next(each for each in search([log], LogFilter()) if isinstance(each, LogRead))
    assert (end.end, end.problem) == (f"binlog.000001:{log.stat().st_size}", "")


@settings(max_examples=examples(60))
@given(cut=st.integers(0, len(story().data)), checksum=st.booleans())
def test_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, cut: int, checksum: bool) -> None:
    """What is whole is found, and what is not is told of, unless the server may still be writing it."""
    data = story(checksum).data[:cut]
    directory = tmp_path_factory.mktemp("cut")
    cut_off, newer = directory / "binlog.000001", directory / "binlog.000002"
    cut_off.write_bytes(data)
    newer.write_bytes(Builder(checksum=checksum).data)
    whole = directory / "whole.000001"
    whole.write_bytes(story(checksum).data)
    every = found(whole)
    told = list(search([cut_off, newer], LogFilter()))
    entries = [each for each in told if isinstance(each, LogEntry)]
    behind = [LogPosition.parse(e.transaction.end).offset for e in every]
    assert len(entries) == sum(end <= len(data) for end in behind)
    reads = [each for each in told if isinstance(each, LogRead)]
    assert [r.name for r in reads] == ["binlog.000001", "binlog.000002"]
    assert not reads[0].damaged
    reached = max([story_head() if cut >= story_head() else 4, *(end for end in behind if end <= cut)])
    assert reads[0].torn == (reached < len(data)), reads[0]


@settings(max_examples=examples(100))
@given(place=st.integers(4, len(story().data) - 1), mask=st.integers(1, 255))
def test_damaged_anywhere(tmp_path_factory: pytest.TempPathFactory, place: int, mask: int) -> None:
    """A wrong byte makes no transaction say what it did not do, or is told of."""
    data = bytearray(story().data)
    directory = tmp_path_factory.mktemp("damage")
    whole, damaged = directory / "binlog.000001", directory / "d" / "binlog.000001"
    damaged.parent.mkdir()
    whole.write_bytes(data)
    data[place] ^= mask
    damaged.write_bytes(data)
    every = {(e.transaction.start, e.tables, e.text) for e in found(whole)}
    told = list(search([damaged, whole.rename(damaged.with_name("binlog.000002"))], LogFilter()))
    here = [e for e in told if isinstance(e, LogEntry) and e.transaction.start.startswith("binlog.000001")]
    seen = {(e.transaction.start, e.tables, e.text) for e in here}
    [first, _] = [each for each in told if isinstance(each, LogRead)]
    if not first.problem:
        assert {row[0] for row in seen} == {row[0] for row in every}
    assert seen <= every


@pytest.mark.parametrize("after", ["binlog.000007:4", "binlog.000001:99999"])
def test_a_log_that_was_begun_anew_is_read_from_its_beginning(log: Path, after: str) -> None:
    assert found(log, after=after) == found(log)


HOUR = timedelta(hours=1)


@pytest.mark.parametrize("backwards", [False, True])
def test_files_that_are_missing_between_two_are_log_that_was_not_read(log: Path, backwards: bool) -> None:
    """No snapshot holds them, and the server has purged them: what is looked for may have been there."""
    files = [log, *(log.with_name(f"binlog.{number:06}") for number in (2, 5, 6))]
    for path in files[1:]:
        path.write_bytes(log.read_bytes())
    left = begun(log)
    assert left

    def said(**wanted: Any) -> list[str]:
        reads = [e for e in search(files, LogFilter(backwards=backwards, **wanted)) if isinstance(e, LogRead)]
        return [each.problem or each.name for each in (reversed(reads) if backwards else reads)]

    gone = "what the log held between binlog.000002 and binlog.000005 (2 files) is gone"
    names = [path.name for path in files]
    assert said() == [*names[:2], gone, *names[2:]]
    assert said(since=left - HOUR, until=left + HOUR) == said()
    # All of it is from before what is wanted, or from after that.
    assert said(since=left + HOUR) == names[-1:]
    assert said(until=left - HOUR) == names
    assert said(after="binlog.000002:4") == [names[1], gone, *names[2:]]
    assert said(after="binlog.000005:4") == names[2:]


def test_events_of_one_transaction_are_opened(log: Path) -> None:
    third = found(log)[2].transaction
    start, end = LogPosition.parse(third.start), LogPosition.parse(third.end)
    kinds = [event.kind for event in transaction_events(log, start, end)]
    assert kinds == [events.GTID, events.QUERY, events.TABLE_MAP, 32, events.XID]


def test_a_file_of_4_kib(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(story().data.ljust(4096, b"\0"))
    assert len(found(path)) == 6


def test_an_encrypted_file_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"\xfdbin" + struct.pack("<Q", 1) * 600)
    [read] = list(search([path], LogFilter()))
    assert isinstance(read, LogRead) and "encrypted" in read.problem and not read.damaged


@pytest.mark.parametrize(
    "text",
    [b"ALTER TABLE orders IMPORT TABLESPACE", b"alter /* now */ table `shop`.`orders` import  TableSpace"],
)
def test_what_cannot_be_replayed_is_found(tmp_path: Path, text: bytes) -> None:
    builder = Builder()
    transaction(builder, 1, (30, "shop.tablespace"))
    statement(builder, 2, b"ALTER TABLE orders DISCARD TABLESPACE")
    statement(builder, 3, text)
    transaction(builder, 4, (30, "shop.orders"))
    path = tmp_path / "binlog.000001"
    path.write_bytes(builder.data)
    begin = LogPosition.of(path.name, 4)
    [stop] = find_unreplayable([path], begin)
    assert stop.named.endswith(":3") and "IMPORT TABLESPACE" in stop.why
    place = LogPosition.parse(stop.transaction.start)
    assert find_unreplayable([path], begin, place) == []
    assert find_unreplayable([path], LogPosition.parse(stop.transaction.end)) == []
    assert [bool(e.stops_replay) for e in found(path)] == [False, False, True, False]


IMPORT = b"ALTER TABLE a IMPORT TABLESPACE"


def looked_at(builder: Builder, path: Path, seen: SeenStops, start: int = 4) -> list[str]:
    """The stops that a look finds in the log as it is now, by the number of the transaction."""
    path.write_bytes(builder.data)
    found = find_unreplayable([path], LogPosition.of(path.name, start), seen=seen)
    return [stop.named.rpartition(":")[2] for stop in found]


@pytest.mark.parametrize("word", [b"tablespace", b"other word"])
def test_what_was_looked_at_is_not_read_again(tmp_path: Path, word: bytes) -> None:
    path, seen = tmp_path / "binlog.000001", SeenStops()
    first, changed = Builder(), Builder()
    for builder, text in ((first, b"INSERT INTO t VALUES ('" + word + b"')"), (changed, IMPORT)):
        transaction(builder, 9, (30, "shop.orders"))
        statement(builder, 1, text.ljust(60))
        statement(builder, 2, b"INSERT INTO t VALUES (2)")
    assert looked_at(first, path, seen) == []
    statement(changed, 3, IMPORT)
    assert looked_at(changed, path, seen) == ["3"]
    assert looked_at(changed, path, seen) == ["3"]
    assert looked_at(changed, path, SeenStops()) == ["1", "3"]


@settings(max_examples=examples(60))
@given(cuts=st.lists(st.integers(0, 1500), max_size=5), start=st.integers(0, 2))
def test_looks_while_it_is_written_see_what_one_look_does(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], start: int
) -> None:
    path, seen = tmp_path_factory.mktemp("looks") / "binlog.000001", SeenStops()
    builder = Builder()
    places = [4]
    for number, text in enumerate((b"DROP TABLE a", IMPORT, b"SELECT 'tablespace'", IMPORT), 1):
        statement(builder, number, text)
        transaction(builder, number + 10, (30, "shop.tablespace"))
        places.append(len(builder.data))
    for cut in sorted(cuts):
        part = Builder()
        part.data = builder.data[:cut]
        looked_at(part, path, seen)
    expected = ["2", "4"] if start < 2 else ["4"]
    assert looked_at(builder, path, seen, places[start]) == expected
    assert looked_at(builder, path, seen, places[1]) == ["2", "4"]


@pytest.mark.parametrize(
    ("collation", "written"),
    [
        (8, "latin-1"),
        (8, "utf-8"),
        (1032, "cp1252"),
        (255, "utf-8"),
        (0, "utf-8"),
        (95, "cp932"),
        (28, "gbk"),
    ],
)
def test_a_name_is_read_as_its_session_wrote_it(tmp_path: Path, collation: int, written: str) -> None:
    name = "\u8868" if written in ("cp932", "gbk") else "b\u00fccher"
    builder, path = Builder(), tmp_path / "binlog.000001"
    client = b"\4" + struct.pack("<HHH", collation, 255, 255)
    statement(builder, 1, f"DROP TABLE `{name}`".encode(written), status=b"\0" * 5 + client)
    path.write_bytes(builder.data)
    [entry] = found(path, tables=(f"shop.{name}",))
    assert [touched.name for touched in entry.tables] == [f"shop.{name}"]


@pytest.mark.parametrize(
    ("table", "numbers"),
    [
        ("`my.db`.ta`ble x", [1, 3, 4, 5]),
        ("`my.db`.*", [1, 3, 4, 5]),
        ("my.db", [2]),
        ("my.*", [2]),
        ("my.db.ta`ble x", []),
    ],
)
def test_names_with_dots_quotes_and_blanks(tmp_path: Path, table: str, numbers: list[int]) -> None:
    builder, path = Builder(), tmp_path / "binlog.000001"
    transaction(builder, 1, (30, "`my.db`.ta`ble x"), (30, "shop.orders"))
    transaction(builder, 2, (30, "my.db"), (30, "shop.orders"))
    statement(builder, 3, b"TRUNCATE TABLE `my.db`.`ta``ble x`")
    statement(builder, 4, b"DROP TABLE shop.orders, `my.db` . `ta``ble x`")
    statement(builder, 5, b"DROP DATABASE `my.db`")
    path.write_bytes(builder.data)
    assert [int(e.transaction.gtid.rpartition(":")[2]) for e in found(path, tables=(table,))] == numbers
