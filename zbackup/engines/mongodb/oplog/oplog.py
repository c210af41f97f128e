"""The oplog in a clone's files, read and written through a mongod that only we use.

What an oplog holds is not all for certain. A primary writes in parallel, so the entries behind its newest
ones may have holes where a write was still under way. It keeps in local.replset.oplogTruncateAfterPoint up to
where there are none, and after a crash drops whatever is behind that (seen with 6.0 also in snapshots taken
under fsyncLock). A server that starts without its replica set's name drops nothing. So `sure` is asked, and
nothing behind it is read from a log source.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog.stored import decoded
from zbackup.engines.mongodb.optime import OPLOG
from zbackup.engines.mongodb.server.connection import ANSWER_LIMIT_S, INSERT_LIMIT_S, Connection
from zbackup.model.errors import NotRecoverable

TRUNCATE_AFTER = ("local", "replset.oplogTruncateAfterPoint")
TRUNCATE_ID = "oplogTruncateAfterPoint"
MIB = 1024**2

# replSetResizeOplog takes no less (MongoDB manual), in MiB.
SMALLEST_MIB = 990

FIELDS = ("ts", "t", "wall", "op", "ns", "o", "ui")

BEFORE_ALL = Timestamp(0, 0)

Entry = dict[str, Any]


class Oplog(Protocol):
    """An oplog that can be read. `wanted` is a filter of MongoDB's; what it says of other fields than "ts"
    and "wall" may go unheeded."""

    def find(self, wanted: Mapping[str, Any], *, backwards: bool = False) -> Entry | None:
        """The first entry like that in the order of the log, or the last one; FIELDS of it at least."""

    def raw(self, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        """Entries in the order of the log, as they are stored (BSON)."""

    def count(self, wanted: Mapping[str, Any]) -> int: ...

    def sure(self) -> Timestamp | None:
        """Up to where there are no holes; None when that is the very end."""

    def size(self) -> tuple[int, int]:
        """How many bytes it holds, and how many it may hold."""

    def replica_set(self) -> tuple[str, str]:
        """Name and id of the replica set it belongs to; ("", "") for a server that was in none."""


@dataclass(frozen=True, slots=True)
class ServerOplog:
    """The one that a server has. See Oplog."""

    connection: Connection

    def find(self, wanted: Mapping[str, Any], *, backwards: bool = False) -> Entry | None:
        # A position is found at once; what else is asked for may take a walk through all of it.
        limit = None if "wall" in wanted else ANSWER_LIMIT_S
        found = self.connection.find(OPLOG, wanted, fields=FIELDS, backwards=backwards, limit_s=limit)
        return found[0] if found else None

    def raw(self, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        for batch in self.connection.raw_batches(OPLOG, wanted):
            yield from documents(batch)

    def count(self, wanted: Mapping[str, Any]) -> int:
        asked = {"count": OPLOG[1], "query": dict(wanted)}
        return int(self.connection.run(OPLOG[0], asked, limit_s=INSERT_LIMIT_S)["n"])

    def sure(self) -> Timestamp | None:
        found = self.connection.find(TRUNCATE_AFTER, {"_id": TRUNCATE_ID})
        point: Timestamp | None = found[0].get(TRUNCATE_ID) if found else None
        return point if point and point.time else None

    def size(self) -> tuple[int, int]:
        said = self.connection.run(OPLOG[0], {"collStats": OPLOG[1]})
        return int(said["size"]), int(said["maxSize"])

    def replica_set(self) -> tuple[str, str]:
        found = self.connection.find(("local", "system.replset"), {})
        if not found:
            return "", ""
        return str(found[0]["_id"]), str(found[0].get("settings", {}).get("replicaSetId", ""))


def end_at(connection: Connection, last: Timestamp) -> None:
    """Let the server drop everything behind `last` when it starts the next time to replay."""
    update = {"q": {"_id": TRUNCATE_ID}, "u": {"$set": {TRUNCATE_ID: last}}, "upsert": True}
    connection.run(TRUNCATE_AFTER[0], {"update": TRUNCATE_AFTER[1], "updates": [update]})


def make_room(connection: Connection, more: int) -> None:
    """Let the oplog grow by `more` bytes before it drops its oldest entries."""
    wanted = (ServerOplog(connection).size()[1] + more) // MIB + 1
    connection.command({"replSetResizeOplog": 1, "size": float(max(wanted, SMALLEST_MIB))})


def first(log: Oplog) -> Entry:
    """The oldest entry. Raise NotRecoverable if there is none."""
    return _only(log.find({}))


def last(log: Oplog, upto: Timestamp | None = None) -> Entry:
    """The newest entry, or the newest one not behind `upto`. Raise NotRecoverable if there is none."""
    return _only(log.find({"ts": {"$lte": upto}} if upto else {}, backwards=True))


def before(log: Oplog, stop: Timestamp) -> Entry:
    """The newest entry before `stop`. Raise NotRecoverable if there is none."""
    return _only(log.find({"ts": {"$lt": stop}}, backwards=True))


def at(log: Oplog, position: Timestamp) -> Entry | None:
    """The entry with that timestamp."""
    return log.find({"ts": {"$gte": position, "$lte": position}})


def last_behind(log: Oplog, skipped: Entry, moment: datetime, upto: Timestamp) -> Entry | None:
    """The last entry behind the first one left out, and not behind `upto`, that says it is from before."""
    wanted = {"ts": {"$gt": skipped["ts"], "$lte": upto}, "wall": {"$lt": moment}}
    return log.find(wanted, backwards=True)


def count_behind(log: Oplog, skipped: Entry, target: datetime) -> int:
    """How many entries behind the first one left out carry an earlier time than the target all the
    same."""
    return log.count({"ts": {"$gt": skipped["ts"]}, "wall": {"$lt": target}})


def two_phase(
    log: Oplog, upto: Timestamp, fields: Sequence[str], *, after: Timestamp = BEFORE_ALL
) -> Iterator[Entry]:
    """The entries that prepare, commit or abort a transaction in two phases, in the order of the log."""
    kinds = ("prepare", "commitTransaction", "abortTransaction")
    asked = [{f"o.{name}": {"$exists": True}} for name in kinds]
    wanted = {"ts": {"$gt": after, "$lte": upto}, "op": "c", "ns": "admin.$cmd", "$or": asked}
    if isinstance(log, ServerOplog):
        yield from log.connection.in_order(OPLOG, wanted, fields)
        return
    for data in log.raw(wanted):
        entry = decoded(data)
        if (entry["op"], entry.get("ns")) == ("c", "admin.$cmd") and any(k in entry["o"] for k in kinds):
            yield entry


def documents(batch: bytes) -> Iterator[bytes]:
    """The single documents of a batch: each begins with its length, four bytes, little-endian (BSON)."""
    begin = 0
    while begin < len(batch):
        end = begin + int.from_bytes(batch[begin : begin + 4], "little")
        yield batch[begin:end]
        begin = end


def _only(found: Entry | None) -> Entry:
    if found is None:
        raise NotRecoverable("the oplog is empty: the server was in no replica set, or had just joined one")
    return found
