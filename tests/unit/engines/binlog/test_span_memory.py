"""A file that was read before gives the transactions that it would give if it were read again."""

import os
import time
from array import array
from itertools import count, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.binlog.test_reader import FILES, NOW
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog import reader, scan
from zbackup.engines.mysql.binlog.errors import BinlogDamaged
from zbackup.engines.mysql.binlog.reader import transactions
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.span_memory import EACH_FILE, Identity, Span, SpanMemory, TransactionRun

NEW = count()


def told(data: bytes, start: int, most: int, identity: Identity | None) -> tuple[list[Span], str, int]:
    """The first `most` transactions from `start` on, what ended the scan, and how far it was read."""
    found: list[Span] = []
    try:
        scanner = Scanner(data, "binlog.000001", len(data), identity)
    except BinlogDamaged as damaged:
        return found, str(damaged), 0
    try:
        found.extend(islice(scanner.spans(start), most))
    except BinlogDamaged as damaged:
        return found, str(damaged), scanner.reached
    return found, "", scanner.reached


@given(FILES, st.data())
@settings(max_examples=examples(300), deadline=None)
def test_what_is_remembered_is_what_is_there(builder: Builder, draw: st.DataObject) -> None:
    """From any place between transactions or within one, read to its end or not, also where the file is
    damaged."""
    data = bytearray(builder.data)
    if draw.draw(st.booleans()):
        data[draw.draw(st.integers(len(data) // 2, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    identity = (next(NEW),)
    between = st.sampled_from([4, *(w.end for w in builder.written)])
    starts = between | st.integers(0, len(data) + 1)
    for start, most in draw.draw(st.lists(st.tuples(starts, st.integers(0, 7)), max_size=6)):
        assert told(bytes(data), start, most, identity) == told(bytes(data), start, most, None)


def written(path: Path, transactions_there: int) -> None:
    builder = Builder(mariadb=True)
    for number in range(1, transactions_there + 1):
        builder.maria(NOW // 10**6, number)
    path.write_bytes(bytes(builder.data))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The transactions that were read and not remembered, by where they begin."""
    read: list[int] = []
    really = Scanner._transaction

    def counted(scanner: Scanner, start: int, kind: int, size: int) -> Span | None:
        read.append(start)
        return really(scanner, start, kind, size)

    monkeypatch.setattr(Scanner, "_transaction", counted)
    monkeypatch.setattr(scan, "READ", SpanMemory())
    return read


def test_a_file_is_read_once(tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "binlog.000001"
    written(path, 5)
    monkeypatch.setattr(reader, "SETTLED_S", 0.0)
    first = list(transactions(path))
    assert len(first) == len(reads) == 5
    assert list(transactions(path)) == first
    assert list(transactions(path, start=first[2].end.offset)) == first[3:]
    assert len(reads) == 5


def test_a_file_that_has_changed_is_read_again(
    tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "binlog.000001"
    written(path, 5)
    monkeypatch.setattr(reader, "SETTLED_S", 0.0)
    assert len(list(transactions(path))) == 5
    written(path, 6)
    assert len(list(transactions(path))) == 6
    assert len(reads) == 11


def test_a_file_is_read_again_that_was_changed_just_now(tmp_path: Path, reads: list[int]) -> None:
    """The kernel's clock may stand still between one change and the next."""
    path = tmp_path / "binlog.000001"
    written(path, 5)
    os.utime(path, (time.time() - 60, time.time() - 60))  # as anybody may say, but of the last change
    assert len(list(transactions(path))) == len(list(transactions(path))) == 5
    assert len(reads) == 10


def run(since: int, *numbers: int) -> TransactionRun:
    return TransactionRun(since, array("q", numbers))


def test_a_place_within_a_transaction_is_none_to_read_from(
    tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is in another server's file of that name, which was looked at as a whole before."""
    path = tmp_path / "binlog.000001"
    written(path, 5)
    monkeypatch.setattr(reader, "SETTLED_S", 0.0)
    third = list(transactions(path))[2]
    assert len(list(transactions(path, start=third.start.offset))) == 3
    with pytest.raises(BinlogDamaged, match=f"at offset {third.start.offset + 5}"):
        list(transactions(path, start=third.start.offset + 5))


def test_what_was_asked_for_longest_ago_is_forgotten() -> None:
    memory = SpanMemory(room=3 * (1 + EACH_FILE))
    for file in (1, 2, 3):
        memory.keep((file,), run(4, 4, 10, 7))
    assert memory.from_((1,), 4).upto == 10
    memory.keep((4,), run(4, 4, 20, 7))
    assert [memory.from_((file,), 4).upto for file in (1, 2, 3, 4)] == [10, 4, 10, 20]
    memory.keep((5,), run(4, *range(6 * EACH_FILE + 12)))
    assert memory.from_((5,), 4).upto == 4, "more than there is room for"


def test_there_is_no_room_for_files_without_end() -> None:
    memory = SpanMemory(room=10 * EACH_FILE)
    for file in range(100):
        memory.keep((file,), run(4, 4, 10, 7))
        memory.keep((-file,), run(4))
    assert 5 < len(memory._runs) < 11


def test_of_more_than_there_is_room_for_the_beginning_is_remembered(
    tmp_path: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "binlog.000001"
    written(path, 5)
    monkeypatch.setattr(reader, "SETTLED_S", 0.0)
    monkeypatch.setattr(scan, "READ", SpanMemory(room=EACH_FILE + 3))
    first = list(transactions(path))
    assert list(transactions(path)) == list(transactions(path)) == first
    assert len(reads) == 5 + 2 + 2


def test_less_is_not_remembered_in_the_place_of_more() -> None:
    memory = SpanMemory()
    memory.keep((1,), run(4, 4, 10, 7, 10, 20, 8))
    memory.keep((1,), run(10, 10, 20, 8))
    assert list(memory.from_((1,), 4).behind(4)) == [(4, 10, 7), (10, 20, 8)]
    assert list(memory.from_((1,), 10).behind(10)) == [(10, 20, 8)]
    assert list(memory.from_((1,), 30).behind(30)) == []
