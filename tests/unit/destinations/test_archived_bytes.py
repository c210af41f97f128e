"""Bytes that are read out of a log archive are what one server's log was, or none are given."""

import hashlib
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.destinations.archives import chunk_of, named
from zbackup.destinations.archived_bytes import paced, proven
from zbackup.model.archive import TAIL
from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Meter

ONE, OTHER = b"one" * 50_000, b"other" * 30_000


@pytest.mark.parametrize("begin", [0, 100, TAIL, TAIL + 100])
def test_what_continues_another_log_is_not_given(begin: int) -> None:
    cuts = (0, 100, TAIL, TAIL + 100, 2 * TAIL, 2 * TAIL + 50)
    pairs = [pair for pair in pairwise(cuts) if pair[1] > begin]
    whole = [(chunk_of(ONE, b, e), ONE[b:e]) for b, e in pairs]
    assert b"".join(proven(named(), begin, cuts[-1], whole)) == ONE[begin : cuts[-1]]
    b, e = pairs[-1]
    mixed = [*whole[:-1], (chunk_of(OTHER, b, e), OTHER[b:e])]
    if e - pairs[0][0] >= TAIL:
        with pytest.raises(VerificationFailed, match="another log's"):
            list(proven(named(), begin, cuts[-1], mixed))


def test_chunks_that_lie_over_each_other_are_one_log() -> None:
    cuts = [(0, 100), (50, 300), (300, 300), (200, 500)]
    chunks = [(chunk_of(ONE, b, e), ONE[b:e]) for b, e in cuts]
    assert b"".join(proven(named(), 0, 500, chunks)) == ONE[:500]


def given(begin: int, end: int, *spans: tuple[int, int], data: bytes = ONE) -> bytes:
    chunks = [(chunk_of(data, b, e), data[b:e]) for b, e in spans]
    return b"".join(proven(named(), begin, end, chunks))


def test_a_chunk_that_is_not_what_was_appended_is_not_given() -> None:
    chunk = chunk_of(ONE, 0, 100)
    for wrong in (ONE[:99], OTHER[:100], ONE[:101]):
        with pytest.raises(VerificationFailed, match="from 0 to 100 are not what was archived"):
            list(proven(named(), 0, 100, [(chunk, wrong)]))
    short = replace(chunk, sha256=hashlib.sha256(ONE[:99]).hexdigest())
    with pytest.raises(VerificationFailed, match="are not what was archived"):
        list(proven(named(), 0, 99, [(short, ONE[:99])]))


def test_a_hole_and_an_early_end_are_no_log() -> None:
    with pytest.raises(VerificationFailed, match="has a hole from 100 to 101"):
        given(0, 200, (0, 100), (101, 200))
    with pytest.raises(VerificationFailed, match="ends at 100, before 101"):
        given(0, 101, (0, 100))
    assert given(0, 100, (0, 100), (100, 300)) == ONE[:100]
    assert given(40, 60, (0, 50), (50, 100)) == ONE[40:60]
    assert given(50, 50, (0, 100)) == b""


def test_only_pieces_that_have_something_of_it_are_given() -> None:
    chunks = [(chunk_of(ONE, b, e), ONE[b:e]) for b, e in ((0, 50), (50, 50), (50, 100), (100, 150))]
    assert list(proven(named(), 0, 100, chunks)) == [ONE[:50], ONE[50:100]]


@pytest.mark.parametrize(("size", "known"), [(TAIL - 1, False), (TAIL, True)])
def test_what_a_file_ended_with_is_compared_where_enough_of_it_was_read(size: int, known: bool) -> None:
    begin = 100
    chunk = replace(chunk_of(ONE, begin, begin + size), tail="0" * 32)
    chunks = [(chunk, ONE[begin : begin + size])]
    if known:
        with pytest.raises(VerificationFailed, match="another log's"):
            list(proven(named(), begin, begin + size, chunks))
    else:
        assert b"".join(proven(named(), begin, begin + size, chunks)) == ONE[begin : begin + size]
    first = replace(chunk_of(ONE, 0, 10), tail="0" * 32)
    with pytest.raises(VerificationFailed, match="another log's"):
        list(proven(named(), 0, 10, [(first, ONE[:10])]))
    oplog = replace(named(), name="1000-1-1.oplog")
    assert list(proven(oplog, 0, 10, [(first, ONE[:10])])) == [ONE[:10]], "its entries tell"


def test_the_meter_hears_of_every_piece_and_may_end_it() -> None:
    passed: list[int] = []
    assert list(paced([b"12", b"345"], Meter(moved=passed.append))) == [b"12", b"345"]
    assert passed == [2, 5]
