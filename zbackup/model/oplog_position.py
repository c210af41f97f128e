"""Words for archived oplog: its files are called by the entry they begin with, and their ends are known.

An archived file of an oplog (see model.archive) is its entries one behind another, as the server has them
(BSON). It is called SECONDS-INCREMENT-TERM.oplog by the position of its first entry, and the `tail` of a
chunk is the position of the last entry up to its end. All files of an epoch but the first begin with the
entry that the one before ends with: so the names alone say from where to where it goes without a hole.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

OPLOG: Final = ".oplog"
_NAME = re.compile(r"([0-9]{1,10})-([0-9]{1,10})-(-1|[0-9]{1,19})\.oplog")
_TEXT = re.compile(r"([0-9]{1,10}),([0-9]{1,10})@(-1|[0-9]{1,19})")
_WORD: Final = 1 << 32
_LONG: Final = 1 << 64


@dataclass(frozen=True, slots=True, order=True)
class OplogPosition:
    """The position of an entry: its cluster time, and the term of the primary that wrote it (-1: not known,
    or before the first one). Who has one entry of a term has all entries of that term before it. Two entries
    with the same time but other terms are different ones: the history split there."""

    seconds: int
    increment: int
    term: int

    def __post_init__(self) -> None:
        """Raise ValueError for what no oplog has."""
        if max(self.seconds, self.increment) >= _WORD or not -1 <= self.term < _LONG // 2:
            raise ValueError(f"{self} is no position in an oplog")

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "OplogPosition":
        """The position of an oplog entry, or of what replSetGetStatus calls an optime."""
        return cls(entry["ts"].time, entry["ts"].inc, int(entry.get("t", -1)))

    @classmethod
    def parse(cls, text: str) -> "OplogPosition":
        """Read SECONDS,INCREMENT@TERM. Raise ValueError for anything else."""
        found = _TEXT.fullmatch(text)
        if not found:
            raise ValueError(f"{text[:60]!a} is not SECONDS,INCREMENT@TERM")
        return cls(*map(int, found.groups()))

    @property
    def cluster_time(self) -> tuple[int, int]:
        """Without the term."""
        return self.seconds, self.increment

    @property
    def name(self) -> str:
        """Return the name of a file that begins here."""
        return f"{self.seconds}-{self.increment}-{self.term}{OPLOG}"

    @property
    def tail(self) -> str:
        """The position as Chunk.tail has it: 32 hexadecimal digits."""
        return f"{self.seconds:08x}{self.increment:08x}{self.term % _LONG:016x}"

    def __str__(self) -> str:
        return f"{self.seconds},{self.increment}@{self.term}"


def begin_of(name: str) -> OplogPosition | None:
    """The position of the first entry in an archived file of that name; None for what is of no oplog."""
    found = _NAME.fullmatch(name)
    try:
        position = OplogPosition(*map(int, found.groups())) if found else None
    except ValueError:
        return None
    return position if position and position.name == name else None


def end_of(tail: str) -> OplogPosition:
    """The position that OplogPosition.tail wrote. Raise ValueError for what it never writes."""
    term = int(tail[16:], 16)
    return OplogPosition(int(tail[:8], 16), int(tail[8:16], 16), term - _LONG if term >= _LONG // 2 else term)
