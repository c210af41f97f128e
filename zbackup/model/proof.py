"""Types for the check that a search of the log found the right transaction: what a recovered server shows
before and after it.
"""

from dataclasses import dataclass
from typing import Final, Literal

from zbackup.model.table_name import TableName

NEXT: Final = "next-transaction"
"""The directory in a clone's home for the log of the first skipped transaction, during a restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofSubject:
    """The subject of a search: the last drop or truncate of `table`, or (None) a transaction by its name."""

    kind: Literal["drop", "truncate"] | None = None
    table: TableName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The state of a subject on a server.

    `tables` are the existing tables with that name, each with an identity that differs after a drop and
    create; for a truncate, those with rows, each with a partition that has some. `holds`: the server has the
    transaction. `unclear` is the reason why the state is unknown, else "".
    """

    tables: frozenset[tuple[str, str]] = frozenset()
    holds: bool = False
    unclear: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a check, with a text for people.

    open: the state one transaction later is needed, or could not be checked. absent: the table (or its rows)
    did not exist before the transaction. remains: the transaction did not remove it.
    """

    result: Literal["proved", "open", "absent", "remains"]
    text: str
