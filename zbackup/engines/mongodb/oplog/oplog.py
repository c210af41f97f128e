"""The oplog in a clone's files, read and written through a mongod that only we use.

What an oplog holds is not all for certain. A primary writes in parallel, so the entries behind its newest
ones may have holes where a write was still under way. It keeps in local.replset.oplogTruncateAfterPoint up to
where there are none, and after a crash drops whatever is behind that (seen with 6.0 also in snapshots taken
under fsyncLock). A server that starts without its replica set's name drops nothing. So `sure` is asked, and
nothing behind it is read from a log source.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.optime import OPLOG, OpTime
from zbackup.engines.mongodb.server.connection import INSERT_LIMIT_S, Connection
from zbackup.model.errors import NotRecoverable

TRUNCATE_AFTER = ("local", "replset.oplogTruncateAfterPoint")
TRUNCATE_ID = "oplogTruncateAfterPoint"
MIB = 1024**2

# replSetResizeOplog takes no less (MongoDB manual), in MiB.
SMALLEST_MIB = 990

FIELDS = ("ts", "t", "wall", "op", "ns", "o")

Entry = dict[str, Any]


def sure(connection: Connection) -> Timestamp | None:
    """Up to where the oplog has no holes; None when that is its very end."""
    found = connection.find(TRUNCATE_AFTER, {"_id": TRUNCATE_ID})
    point: Timestamp | None = found[0].get(TRUNCATE_ID) if found else None
    return point if point and point.time else None


def end_at(connection: Connection, last: Timestamp) -> None:
    """Let the server drop everything behind `last` when it starts the next time to replay."""
    update = {"q": {"_id": TRUNCATE_ID}, "u": {"$set": {TRUNCATE_ID: last}}, "upsert": True}
    connection.run(TRUNCATE_AFTER[0], {"update": TRUNCATE_AFTER[1], "updates": [update]})


def first(connection: Connection) -> Entry:
    """The oldest entry. Raise NotRecoverable if there is none."""
    return _only(connection.find(OPLOG, {}, fields=FIELDS))


def last(connection: Connection, upto: Timestamp | None = None) -> Entry:
    """The newest entry, or the newest one not behind `upto`. Raise NotRecoverable if there is none."""
    wanted = {"ts": {"$lte": upto}} if upto else {}
    return _only(connection.find(OPLOG, wanted, fields=FIELDS, backwards=True))


def before(connection: Connection, stop: Timestamp) -> Entry:
    """The newest entry before `stop`. Raise NotRecoverable if there is none."""
    return _only(connection.find(OPLOG, {"ts": {"$lt": stop}}, fields=FIELDS, backwards=True))


def at(connection: Connection, place: Timestamp) -> Entry | None:
    """The entry with that timestamp."""
    found = connection.find(OPLOG, {"ts": place}, fields=FIELDS)
    return found[0] if found else None


def find_first(connection: Connection, wanted: Mapping[str, Any]) -> Entry | None:
    """The first entry, in the order of the log, that is like that."""
    found = connection.find(OPLOG, wanted, fields=FIELDS, limit_s=None)
    return found[0] if found else None


def raw(connection: Connection, wanted: Mapping[str, Any]) -> Iterator[bytes]:
    """Entries in the order of the log, as they are stored (BSON)."""
    for batch in connection.raw_batches(OPLOG, wanted):
        yield from documents(batch)


def two_phase(connection: Connection, upto: Timestamp, fields: Sequence[str]) -> Iterator[Entry]:
    """The entries that prepare, commit or abort a transaction in two phases, in the order of the log."""
    kinds = [
        {f"o.{name}": {"$exists": True}} for name in ("prepare", "commitTransaction", "abortTransaction")
    ]
    wanted = {"ts": {"$lte": upto}, "op": "c", "ns": "admin.$cmd", "$or": kinds}
    yield from connection.in_order(OPLOG, wanted, fields)


def documents(batch: bytes) -> Iterator[bytes]:
    """The single documents of a batch: each begins with its length, four bytes, little-endian (BSON)."""
    begin = 0
    while begin < len(batch):
        end = begin + int.from_bytes(batch[begin : begin + 4], "little")
        yield batch[begin:end]
        begin = end


def replica_set(connection: Connection) -> tuple[str, str]:
    """Name and id of the replica set these files belong to; ("", "") for a server that was in none."""
    found = connection.find(("local", "system.replset"), {})
    if not found:
        return "", ""
    return str(found[0]["_id"]), str(found[0].get("settings", {}).get("replicaSetId", ""))


def size(connection: Connection) -> tuple[int, int]:
    """Tell how many bytes the oplog holds, and how many it may hold."""
    said = connection.run(OPLOG[0], {"collStats": OPLOG[1]})
    return int(said["size"]), int(said["maxSize"])


def make_room(connection: Connection, more: int) -> None:
    """Let the oplog grow by so many bytes before it drops its oldest entries."""
    wanted = (size(connection)[1] + more) // MIB + 1
    connection.command({"replSetResizeOplog": 1, "size": float(max(wanted, SMALLEST_MIB))})


def place(entry: Entry) -> OpTime:
    return OpTime.of(entry)


def _only(found: list[Entry]) -> Entry:
    if not found:
        raise NotRecoverable("the oplog is empty: the server was in no replica set, or had just joined one")
    return found[0]


def last_behind(connection: Connection, skipped: Entry, moment: datetime, upto: Timestamp) -> Entry | None:
    """The last entry behind the first one left out, and not behind `upto`, that says it is from before."""
    wanted = {"ts": {"$gt": skipped["ts"], "$lte": upto}, "wall": {"$lt": moment}}
    found = connection.find(OPLOG, wanted, fields=FIELDS, backwards=True, limit_s=None)
    return found[0] if found else None


def count_behind(connection: Connection, skipped: Entry, at: datetime) -> int:
    """Tell how many entries behind the first one left out carry an earlier time than the target all the
    same."""
    wanted = {"ts": {"$gt": skipped["ts"]}, "wall": {"$lt": at}}
    return int(connection.run(OPLOG[0], {"count": OPLOG[1], "query": wanted}, limit_s=INSERT_LIMIT_S)["n"])
