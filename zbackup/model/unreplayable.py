"""Hold a transaction at which every replay of its log ends, and write it into a record."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from zbackup.model.log import Transaction

MOST: Final = 16
"""Stops that are written down, at most; no log is led across the first."""


@dataclass(frozen=True, slots=True)
class Unreplayable:
    """A transaction that cannot be replayed on a clone, and why, in a clause. `of_base`: from an older base
    it can be, perhaps."""

    transaction: Transaction
    why: str
    of_base: bool = False

    @property
    def named(self) -> str:
        """The transaction's name, for people and for --before."""
        return self.transaction.gtid or self.transaction.start


def to_lines(stops: Sequence[Unreplayable]) -> str:
    """Write the first of them, one a line."""
    return "\n".join(map(_line, stops[:MOST]))


def from_lines(text: str) -> tuple[Unreplayable, ...]:
    """Read back what to_lines() wrote; lines that make no sense are none."""
    return tuple(stop for line in text.splitlines() if (stop := _stop(line)))


def _line(stop: Unreplayable) -> str:
    subject = stop.transaction
    return "\t".join((subject.start, subject.end, subject.committed.isoformat(), subject.gtid, stop.why))


def _stop(line: str) -> Unreplayable | None:
    try:
        start, end, committed, gtid, why = line.split("\t")
        at = datetime.fromisoformat(committed)
    except ValueError:
        return None
    if at.tzinfo is None:
        return None
    return Unreplayable(Transaction(start=start, end=end, committed=at, gtid=gtid), why)
