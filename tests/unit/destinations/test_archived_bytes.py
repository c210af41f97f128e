"""What is read out of a log archive is what one server's log was, or nothing is given."""

from itertools import pairwise

import pytest

from tests.destinations.archives import chunk_of, named
from zbackup.destinations.archived_bytes import proven
from zbackup.model.archive import TAIL
from zbackup.model.errors import VerificationFailed

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
