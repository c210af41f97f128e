"""Descriptions of archived files are read back as they were written, and anything else is refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.archive import (
    TAIL,
    ArchiveInventory,
    Chunk,
    LogFileId,
    complete_of,
    head_hash,
    server_key,
    tail_hash,
    whole,
)

NOW = datetime(2026, 5, 1, 12, 0, 0, 5, tzinfo=UTC)
DIGEST = "ab" * 32
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def chunk(begin: int, end: int, *, closed: bool = False, complete_to: datetime | None = None) -> Chunk:
    return Chunk(
        begin=begin, end=end, sha256=DIGEST, tail="0" * 32, read=NOW, closed=closed, complete_to=complete_to
    )


def file(number: int = 7, epoch: int = 0, follows: int | None = None) -> LogFileId:
    return LogFileId(
        server=UUID,
        epoch=epoch,
        number=number,
        follows=follows,
        head=head_hash(UUID, b"head"),
        name=f"binlog.{number:06}",
    )


@given(st.integers(0, 10**8 - 1), st.integers(0, 10**10 - 1), st.none() | st.integers(0, 10**8 - 1))
def test_a_file_is_read_back_from_its_key(epoch: int, number: int, follows: int | None) -> None:
    wanted = file(number, epoch, follows)
    found = LogFileId.parse(UUID, wanted.key)
    assert found == wanted
    assert found.follows == follows


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "a\0b", "a\nb", "../binlog.000001", "x" * 200, "bin log.000001"]
)
def test_a_file_is_not_called_what_no_path_should_hold(name: str) -> None:
    with pytest.raises(ValueError):
        LogFileId(server=UUID, epoch=0, number=1, follows=None, head="0" * 32, name=name)


@pytest.mark.parametrize("server", ["", "..", "a/b", "-rf", "x" * 65, "a\nb"])
def test_a_server_is_not_called_what_no_path_should_hold(server: str) -> None:
    with pytest.raises(ValueError):
        LogFileId(server=server, epoch=0, number=1, follows=None, head="0" * 32, name="binlog.000001")


@given(st.text(max_size=200))
def test_every_server_has_a_key(uuid: str) -> None:
    key = server_key(uuid)
    LogFileId(server=key, epoch=0, number=1, follows=None, head="0" * 32, name="binlog.000001")
    assert server_key(UUID) == UUID


@given(
    st.integers(0, 10**14), st.integers(0, 1 << 24), st.none() | st.timedeltas(timedelta(), timedelta(9999))
)
def test_a_chunk_is_read_back(begin: int, size: int, ago: timedelta | None) -> None:
    said = chunk(begin, begin + size, complete_to=None if ago is None else NOW - ago, closed=size % 2 == 0)
    assert Chunk.parse(str(said)) == said


@given(st.text(alphabet="0123456789abcdef.-nopeclsd", max_size=250))
def test_a_stranger_is_no_chunk_and_no_file(text: str) -> None:
    for parse in (Chunk.parse, lambda it: LogFileId.parse(UUID, it)):
        with pytest.raises(ValueError):
            parse(text)


@pytest.mark.parametrize("size", [-1, (16 << 20) + 1])
def test_a_chunk_is_bounded(size: int) -> None:
    with pytest.raises(ValueError):
        chunk(1000, 1000 + size)


@given(st.lists(st.integers(0, 9), max_size=12), st.randoms())
def test_whole_gives_the_chunks_from_the_beginning_without_a_hole(sizes: list[int], order: Random) -> None:
    chunks, end = [], 0
    for size in sizes:
        chunks.append(chunk(end, end + size))
        end += size
    # What was folded lies beside what it was folded from, until that is taken away.
    folded = [chunk(0, chunks[len(chunks) // 2].end)] if chunks else []
    beyond = [chunk(end + 1, end + 5)]
    mixed = [*chunks, *folded, *beyond]
    order.shuffle(mixed)
    found = whole(mixed)
    assert (found[-1].end if found else 0) == end
    assert all(one.end == other.begin for one, other in pairwise(found))


def test_nothing_counts_behind_a_closed_end() -> None:
    assert whole([chunk(0, 5, closed=True), chunk(5, 9)]) == (chunk(0, 5, closed=True),)


def test_an_inventory_goes_along_with_what_is_appended() -> None:
    empty = ArchiveInventory(address="here")
    one = empty.with_append(file(7), chunk(0, 5, complete_to=NOW), 3)
    two = one.with_append(file(7), chunk(5, 9, closed=True), 2).with_append(file(8, 0, 0), chunk(0, 4), 4)
    first, second = two.files
    assert (first.size, first.closed, first.complete_to, first.stored) == (9, True, NOW, 5)
    assert second.continues(first)
    assert not first.continues(second)
    for late in (chunk(5, 6), chunk(9, 12), chunk(12, 13)):
        with pytest.raises(ValueError):
            two.with_append(file(7), late, 1)


def test_what_was_read_later_bounds_what_a_clock_claimed_that_had_leapt() -> None:
    def said(begin: int, end: int, read: int, complete: int | None) -> Chunk:
        made = chunk(begin, end, complete_to=None if complete is None else NOW + timedelta(seconds=complete))
        return replace(made, read=NOW + timedelta(seconds=read))

    right, ahead = said(0, 5, 1, 1), said(5, 9, 86_400, 86_400)
    for then, upto in ((said(9, 12, 10, 10), 10), (said(9, 12, 20, 7), 7), (said(9, 12, 10, None), 10)):
        chunks = (right, ahead, then)
        assert complete_of(chunks) == NOW + timedelta(seconds=upto)
        inventory = ArchiveInventory(address="here")
        for each in chunks:
            inventory = inventory.with_append(file(), each, 1)
        assert inventory.files[0].complete_to == complete_of(chunks)
    assert complete_of((said(0, 5, 1, 9),)) == NOW + timedelta(seconds=1)
    assert complete_of(()) is None


def test_a_tail_is_of_the_last_bytes_alone() -> None:
    assert tail_hash(b"x" + b"y" * TAIL) == tail_hash(b"y" * TAIL)
    assert tail_hash(b"xy") != tail_hash(b"y")
