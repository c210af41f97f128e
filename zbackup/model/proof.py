"""Words for the proof that a search found the right transaction: what a recovered server shows before and
behind it.
"""

from dataclasses import dataclass
from typing import Final, Literal

from zbackup.model.table_name import TableName

NEXT: Final = "next-transaction"
"""In a clone's home while it is made: the log of the first transaction that was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofSubject:
    """What was searched for: the last drop or truncate of `table`, or (None) a transaction by its name."""

    kind: Literal["drop", "truncate"] | None = None
    table: TableName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a server shows of a subject.

    `tables` are the tables of that name that are there, each with what tells it from another of the same
    name; or, for a truncate, those that have rows, each with a partition that has some. `holds`: it has the
    transaction. `unclear` says why this cannot be told, "" where it can.
    """

    tables: frozenset[tuple[str, str]] = frozenset()
    holds: bool = False
    unclear: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof, and what was seen, for people.

    open: it takes a look one transaction later, or that could not be had. absent: there was nothing that the
    transaction could have done this to. remains: it was done to something else.
    """

    result: Literal["proved", "open", "absent", "remains"]
    text: str
