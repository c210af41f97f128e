"""Find the next place of any of some words, whatever the case of their letters. Pure."""

from collections.abc import Sequence
from typing import Final

from zbackup.engines.mysql.binlog.events import Buffer

_CHUNK: Final = 1 << 20


class WordFinder:
    """Goes forward only; each part of the data is put into small letters once, and searched once for each
    word."""

    def __init__(self, data: Buffer, words: Sequence[bytes]) -> None:
        """`words` are in small letters."""
        self._data, self._words = data, words
        self._longest = max(map(len, words))
        self._chunk, self._base = b"", 0
        self._places: list[int] = []
        """The next position of each word, as far as that was asked for; behind the data where it is in no
        rest."""

    def at(self, start: int) -> int:
        """The first place from `start` on; one behind the data's end if there is none."""
        nowhere, start = len(self._data) + 1, max(start, self._base)
        while start < len(self._data):
            behind = self._base + _CHUNK
            if not self._chunk or start >= behind:
                # A word may begin in one chunk, and end in the next.
                self._base, behind = start, start + _CHUNK
                self._chunk = self._data[start : behind + self._longest - 1].lower()
                self._places = [-1] * len(self._words)
            for number, word in enumerate(self._words):
                if self._places[number] < start:
                    found = self._chunk.find(word, start - self._base)
                    self._places[number] = self._base + found if found >= 0 else nowhere
            if (first := min(self._places)) < nowhere:
                return first
            start = behind
        return nowhere
