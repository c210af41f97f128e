"""Tell where in an oplog the terms of its primaries end: what proves that two oplogs are of one history.

As in Raft, on which replica sets are built: all entries of a term come from one primary, in their order, and
whoever has one of them has all before it. So an entry is in an oplog if that reaches at least as far in the
entry's term; an oplog from which it was rolled back leaves that term before it.
"""

from collections.abc import Callable, Iterable

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.optime import OPLOG
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.errors import DatabaseError
from zbackup.model.oplog_position import OplogPosition

# A new primary begins a term. More of them than this between two backups is no history to be relied on.
MOST = 16

FIELDS = ("ts", "t")

FromThereOn = Callable[[Timestamp], OplogPosition]


def term_ends(connection: Connection, first: OplogPosition, last: OplogPosition) -> tuple[OplogPosition, ...]:
    """The last entries of all terms but the last one's, newest first, of an oplog between these entries."""

    def from_there_on(position: Timestamp) -> OplogPosition:
        # mongod finds a position in its oplog without reading what is before it.
        return _only(connection, {"ts": {"$gte": position}}, backwards=False)

    found: list[OplogPosition] = []
    while (upper := found[-1] if found else last).term > first.term and len(found) < MOST:
        began = begin_of_term(first, upper, from_there_on)
        found.append(_only(connection, {"ts": {"$lt": began}}, backwards=True))
    return tuple(found)


def begin_of_term(first: OplogPosition, upper: OplogPosition, from_there_on: FromThereOn) -> Timestamp:
    """A position with no entry of `upper`'s term before it, and no other from it on. Pure.

    By halving, as terms only grow along an oplog.
    `from_there_on` tells the first entry at or behind a position.
    """
    low, high = _number(first), _number(upper)
    while low < high:
        middle = (low + high) // 2
        entry = from_there_on(Timestamp(middle >> 32, middle & 0xFFFFFFFF))
        if entry.term >= upper.term:
            high = middle
        else:
            low = _number(entry) + 1
    return Timestamp(low >> 32, low & 0xFFFFFFFF)


def covers(last: OplogPosition, ends: Iterable[OplogPosition], wanted: OplogPosition) -> bool:
    """Whether the oplog that ends at `last`, with terms that end so before, holds or held the entry.

    Pure.
    """
    return any(end.term == wanted.term and end >= wanted for end in (last, *ends))


def _number(position: OplogPosition) -> int:
    return position.seconds << 32 | position.increment


def _only(connection: Connection, wanted: dict[str, object], *, backwards: bool) -> OplogPosition:
    found = connection.find(OPLOG, wanted, fields=FIELDS, backwards=backwards)
    if not found:
        raise DatabaseError(f"the oplog of {connection.where} changed while it was read: try again")
    return OplogPosition.of(found[0])
