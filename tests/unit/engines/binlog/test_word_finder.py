"""The next place of any of some words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.binlog import word_finder
from zbackup.engines.mysql.binlog.word_finder import WordFinder

WORDS = (b"ab", b"bcd", b"d")


@given(
    data=st.binary().map(lambda b: bytes(b"abcdABCD."[n % 9] for n in b)), steps=st.lists(st.integers(0, 9))
)
def test_each_place_is_found_once_and_in_order_wherever_chunks_end(data: bytes, steps: list[int]) -> None:
    low = data.lower()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_finder, "_CHUNK", 7)
        finder, start = WordFinder(data, WORDS), 0
        for step in steps:
            start += step
            places = [n for n in range(start, len(low)) if low.startswith(WORDS, n)]
            assert finder.at(start) == (places[0] if places else len(data) + 1)
