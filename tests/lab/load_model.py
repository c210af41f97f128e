"""The write load as pure functions: transaction N of thread T, and what T's rows are after it.

Every thread owns its rows and numbers its transactions from 1, and transaction N depends on T and N alone.
So the last number that arrived says exactly what must be in the tables, whichever moment was recovered.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

SCHEMA = "workload"
TABLES = (
    "CREATE TABLE IF NOT EXISTS progress (thread INT PRIMARY KEY, seq BIGINT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS ledger (thread INT, seq BIGINT, part INT, note VARCHAR(200) NOT NULL,"
    " PRIMARY KEY (thread, seq, part)) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS balance (thread INT, slot INT, amount BIGINT NOT NULL,"
    " PRIMARY KEY (thread, slot)) ENGINE=InnoDB",
)

SLOTS = 8
_OLDEST, _NEWEST = 60, 30
"""A clean-up deletes the ledger rows of transactions this far back, from and up to."""


@dataclass(frozen=True, slots=True)
class Add:
    """Insert one ledger row."""

    part: int
    note: str


@dataclass(frozen=True, slots=True)
class Move:
    """Change one balance."""

    slot: int
    amount: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete the ledger rows of the transactions `first` to `last`."""

    first: int
    last: int


Change = Add | Move | Forget
Statement = tuple[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction; `single` ones are one statement under autocommit, the others name their number."""

    thread: int
    seq: int
    changes: tuple[Change, ...]

    @property
    def single(self) -> bool:
        """Whether one autocommitted insert is all, which leaves its number in the ledger row alone."""
        return len(self.changes) == 1 and isinstance(self.changes[0], Add)

    def statements(self) -> list[Statement]:
        """The SQL, without BEGIN and COMMIT."""
        found = [_statement(self, change) for change in self.changes]
        if not self.single:
            progress = "INSERT INTO progress VALUES (%s, %s) ON DUPLICATE KEY UPDATE seq = %s"
            found.append((progress, (self.thread, self.seq, self.seq)))
        return found


@dataclass(slots=True)
class Content:
    """All rows of one thread: its number in `progress`, ledger notes and balances."""

    progress: int | None = None
    ledger: dict[tuple[int, int], str] = field(default_factory=dict)
    balance: dict[int, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """Number of the last transaction whose effect is here, 0 for none."""
        return max(self.progress or 0, max((seq for seq, _ in self.ledger), default=0))

    def apply(self, transaction: Transaction) -> None:
        """What the database does with the transaction."""
        for change in transaction.changes:
            match change:
                case Add(part, note):
                    self.ledger[transaction.seq, part] = note
                case Move(slot, amount):
                    self.balance[slot] = self.balance.get(slot, 0) + amount
                case Forget(first, last):
                    for key in [key for key in self.ledger if first <= key[0] <= last]:
                        del self.ledger[key]
        if not transaction.single:
            self.progress = transaction.seq


def transaction(thread: int, seq: int) -> Transaction:
    """Transaction number `seq` (from 1) of `thread`."""
    chance = zlib.crc32(f"{thread}:{seq}".encode())
    kind, slot, amount = chance % 10, chance // 16 % SLOTS, chance // 256 % 1000
    changes: tuple[Change, ...]
    if kind < 4:
        changes = (Add(0, _note(thread, seq, 0)),)
    elif kind < 7:
        other = (slot + 1 + chance // 4096 % (SLOTS - 1)) % SLOTS
        rows = (Add(part, _note(thread, seq, part)) for part in range(3))
        changes = (*rows, Move(slot, -amount), Move(other, amount))
    elif kind < 9:
        changes = (Move(slot, amount),)
    else:
        changes = (Forget(seq - _OLDEST, seq - _NEWEST),)
    return Transaction(thread, seq, changes)


def content(thread: int, last: int) -> Content:
    """The rows `thread` must have when its transactions 1 to `last` are in, and no other."""
    state = Content()
    for seq in range(1, last + 1):
        state.apply(transaction(thread, seq))
    return state


def contents(
    progress: Iterable[tuple[int, int]],
    ledger: Iterable[tuple[int, int, int, str]],
    balance: Iterable[tuple[int, int, int]],
) -> dict[int, Content]:
    """The rows of the three tables, by thread."""
    found: dict[int, Content] = {}
    for thread, seq in progress:
        found.setdefault(thread, Content()).progress = seq
    for thread, seq, part, note in ledger:
        found.setdefault(thread, Content()).ledger[seq, part] = note
    for thread, slot, amount in balance:
        found.setdefault(thread, Content()).balance[slot] = amount
    return found


def _note(thread: int, seq: int, part: int) -> str:
    return f"thread {thread} wrote {seq}.{part} " + "x" * (seq * 7 % 120)


def _statement(of: Transaction, change: Change) -> Statement:
    match change:
        case Add(part, note):
            return "INSERT INTO ledger VALUES (%s, %s, %s, %s)", (of.thread, of.seq, part, note)
        case Move(slot, amount):
            return (
                "INSERT INTO balance VALUES (%s, %s, %s) ON DUPLICATE KEY UPDATE amount = amount + %s",
                (of.thread, slot, amount, amount),
            )
        case Forget(first, last):
            return "DELETE FROM ledger WHERE thread = %s AND seq BETWEEN %s AND %s", (of.thread, first, last)
