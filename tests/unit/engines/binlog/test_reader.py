"""Transactions out of binlog files, whole and torn."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import SERVER, Builder, at
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogEncrypted, BinlogTooOld
from zbackup.engines.mysql.binlog.events import START_ENCRYPTION
from zbackup.engines.mysql.binlog.reader import check_events, last_in_file, microseconds, opened, transactions
from zbackup.engines.mysql.binlog.scan import Scanner

NOW = 1_700_000_000_123_456

Shape = Callable[[Builder, int, int, int], object]
"""Adds something to the builder, given microseconds, number and row size."""

SHAPES: dict[str, Shape] = {
    "gtid": lambda b, micros, number, size: b.mysql(micros, number, size=size),
    "anonymous": lambda b, micros, number, size: b.mysql(micros, number, size=size, anonymous=True),
    "tagged": lambda b, micros, number, size: b.mysql(micros, number, size=size, tag="nightly"),
    "replica": lambda b, micros, number, size: b.mysql(micros + 9, number, size=size, original=micros),
    "5.7": lambda b, micros, number, size: b.mysql57(micros // 10**6, number, size=size),
    "5.7 ddl": lambda b, micros, number, _: b.mysql57(micros // 10**6, number, ddl=True),
}
MARIADB_SHAPES: dict[str, Shape] = {
    "xid": lambda b, micros, number, size: b.maria(micros // 10**6, number, size=size, rows=2),
    "standalone": lambda b, micros, number, _: b.maria(micros // 10**6, number, standalone=True),
    **{
        text.decode(): partial(
            lambda b, micros, number, size, ending: b.maria(
                micros // 10**6, number, size=size, ending=ending
            ),
            ending=text,
        )
        for text in (b"COMMIT", b"ROLLBACK", b"XA COMMIT X'61',X'',1")
    },
    "savepoint": lambda b, micros, number, size: b.maria(
        micros // 10**6, number, size=size, inside=b"ROLLBACK TO `commit`"
    ),
}
BETWEEN: dict[str, Shape] = {
    "rotate": lambda b, *_: b.rotate(),
    "format again": lambda b, *_: b.describe(),
}


def build(steps: list[tuple[Shape, int, int]], *, mariadb: bool, checksum: bool) -> Builder:
    builder = Builder(checksum=checksum, mariadb=mariadb)
    for number, (add, later, size) in enumerate(steps, 1):
        add(builder, NOW + later, number, size)
    return builder


def steps(shapes: dict[str, Shape]) -> st.SearchStrategy[list[tuple[Shape, int, int]]]:
    shape = st.sampled_from([*shapes.values(), *BETWEEN.values()])
    return st.lists(
        st.tuples(shape, st.integers(0, 10**9), st.integers(0, 300) | st.integers(0, 70_000)), max_size=6
    )


FILES = st.booleans().flatmap(
    lambda mariadb: st.builds(
        build,
        steps(MARIADB_SHAPES if mariadb else SHAPES),
        mariadb=st.just(mariadb),
        checksum=st.booleans(),
    )
)


def spans(data: bytes, limit: int | None = None) -> list[tuple[int, int, int]]:
    return list(Scanner(data, "binlog.000001", len(data) if limit is None else limit).spans())


@given(FILES)
@settings(max_examples=examples(200), deadline=None)
def test_finds_what_was_written(builder: Builder) -> None:
    data = bytes(builder.data)
    scanner = Scanner(data, "binlog.000001", len(data))
    assert [(s, e, m, scanner.gtid(s)) for s, e, m in scanner.spans()] == [
        (w.start, w.end, w.micros, w.gtid) for w in builder.written
    ]
    assert scanner.check(4) == len(data)


@given(FILES, st.data())
@settings(max_examples=examples(400), deadline=None)
def test_a_torn_file_gives_its_complete_prefix(builder: Builder, draw: st.DataObject) -> None:
    """Cut off anywhere, or followed by zeros: the transactions whose bytes are all there, and no error."""
    data = bytes(builder.data)
    tear = draw.draw(st.integers(0, len(data)))
    expected = [(w.start, w.end, w.micros) for w in builder.written if w.end <= tear]
    assert spans(data[:tear]) == expected
    assert spans(data, tear) == expected


@given(FILES.filter(lambda builder: builder.checksum), st.data())
@settings(max_examples=examples(400), deadline=None)
def test_a_tail_of_zeros_gives_the_complete_prefix(builder: Builder, draw: st.DataObject) -> None:
    data = bytes(builder.data)
    tear = draw.draw(st.integers(0, len(data)))
    torn = data[:tear] + bytes(draw.draw(st.integers(0, 5000)) + len(data) - tear)
    expected = [(w.start, w.end, w.micros) for w in builder.written if torn[: w.end] == data[: w.end]]
    assert spans(torn) == expected


@given(FILES.filter(lambda builder: builder.checksum and len(builder.written) > 1), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_a_flipped_bit_is_never_taken_for_a_transaction(builder: Builder, draw: st.DataObject) -> None:
    """Either the damage is named, or it lies in rows that are not read here, which change nothing."""
    data = bytearray(builder.data)
    data[draw.draw(st.integers(4, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    expected = [(w.start, w.end, w.micros) for w in builder.written]
    try:
        found = spans(bytes(data))
    except (BinlogDamaged, BinlogTooOld):  # of a damaged first event it is not known how old it is
        return
    assert found == expected[: len(found)]
    if len(found) < len(expected):
        with pytest.raises(BinlogDamaged):
            scanner = Scanner(bytes(data), "binlog.000001", len(data))
            if scanner.check(4) == len(data):
                pytest.fail("a damaged file was found whole")
            raise BinlogDamaged


def test_reads_a_file(tmp_path: Path) -> None:
    builder = Builder()
    first = builder.mysql(NOW, 1)
    second = builder.mysql(NOW + 7, 2, tag="nightly")
    third = builder.mysql(NOW + 9, 3, anonymous=True)
    builder.rotate()
    path = tmp_path / "my.log.000001"
    path.write_bytes(builder.data)
    found = list(transactions(path))
    assert [t.gtid for t in found] == [f"{SERVER}:1", f"{SERVER}:nightly:2", ""]
    assert [t.committed for t in found] == [at(NOW), at(NOW + 7), at(NOW + 9)]
    assert [(t.start.offset, t.end.offset) for t in found] == [
        (w.start, w.end) for w in (first, second, third)
    ]
    assert str(found[0].end) == f"my.log.000001:{first.end}"
    assert list(transactions(path, start=second.start, end=third.end - 1)) == [found[1]]
    assert last_in_file(path) == found[2]
    assert last_in_file(path, start=third.end) is None
    assert check_events(path) == len(builder.data)


def test_microseconds_are_exact() -> None:
    assert microseconds(at(NOW)) == NOW


@pytest.mark.parametrize("content", [b"", b"\xfe", b"\xfebin", bytes(100)])
def test_a_file_that_was_just_created_has_no_transactions(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(content)
    assert list(transactions(path)) == []


def test_something_else_is_no_binlog(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"./binlog.000001\n")
    with pytest.raises(BinlogDamaged, match=r"binlog\.000001 is not a binlog"):
        list(transactions(path))


def test_an_encrypted_mysql_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"\xfdbin" + b"\x01" * 600)
    with pytest.raises(BinlogEncrypted, match="binlog_encryption"):
        list(transactions(path))


def test_an_encrypted_mariadb_file_is_refused(tmp_path: Path) -> None:
    builder = Builder(mariadb=True)
    builder.event(START_ENCRYPTION, b"\x01" * 17)
    builder.data += b"\x99" * 500
    path = tmp_path / "binlog.000001"
    path.write_bytes(builder.data)
    with pytest.raises(BinlogEncrypted, match="encrypt_binlog"), opened(path):
        pass


@pytest.mark.parametrize("mariadb", [False, True])
def test_damage_in_the_middle_is_an_error(tmp_path: Path, mariadb: bool) -> None:
    builder = Builder(mariadb=mariadb)
    make = builder.maria if mariadb else builder.mysql
    make(NOW if not mariadb else NOW // 10**6, 1)
    second = make(NOW if not mariadb else NOW // 10**6, 2)
    make(NOW if not mariadb else NOW // 10**6, 3)
    builder.data[second.start + 30] ^= 0xFF
    path = tmp_path / "binlog.000001"
    path.write_bytes(builder.data)
    with pytest.raises(BinlogDamaged, match=f"offset {second.start}"):
        list(transactions(path))


def test_damaged_rows_are_found_when_every_event_is_checked(tmp_path: Path) -> None:
    builder = Builder()
    first = builder.mysql(NOW, 1)
    builder.mysql(NOW, 2)
    builder.data[first.end - 60] ^= 0xFF
    path = tmp_path / "binlog.000001"
    path.write_bytes(builder.data)
    assert len(list(transactions(path))) == 2
    with pytest.raises(BinlogDamaged):
        check_events(path)


def test_a_start_inside_a_transaction_is_an_error(tmp_path: Path) -> None:
    builder = Builder()
    first = builder.mysql(NOW, 1)
    gtid_size = int.from_bytes(builder.data[first.start + 9 : first.start + 13], "little")
    path = tmp_path / "binlog.000001"
    path.write_bytes(builder.data)
    with pytest.raises(BinlogDamaged, match="where a transaction should start"):
        list(transactions(path, start=first.start + gtid_size))


def test_the_in_use_flag_does_not_matter(tmp_path: Path) -> None:
    builder = Builder()
    builder.describe(in_use=True)
    builder.mysql(NOW, 1)
    assert len(spans(bytes(builder.data))) == 1
