"""The writes of one transaction to documents, as the oplog's entries have it.

Source: MongoDB's documentation of applyOps and of change events, and what a 6.0 wrote. An update is logged as
a difference, and a deletion by its _id alone: what documents were stands elsewhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import bson
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.oplog_entry import describe, transaction, wall_time
from zbackup.engines.mongodb.optime import OPLOG, timestamp
from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.engines.mongodb.server.transacted import RAW
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.table_name import TableName

_WRITES: Final = frozenset({"i", "u", "d"})
_SERVERS_OWN: Final = ("admin", "config", "local")
_BUCKETS: Final = "system.buckets."


@dataclass(frozen=True, slots=True)
class Write:
    """One document that was inserted ("i"), updated ("u") or deleted ("d"), as the oplog has it."""

    name: TableName
    kind: str
    key: bytes
    operation: RawBSONDocument

    @property
    def id(self) -> Any:
        """Its _id."""
        return bson.decode(self.key, RAW)["_id"]

    @property
    def collection(self) -> Any:
        """The identity of its collection; None where it was not logged."""
        return self.operation.get("ui")


def find_transaction(connection: Connection, at: ClusterTime) -> Transaction:
    """Look up the entry with that cluster time. Raise NotRecoverable where the oplog has none."""
    found = connection.find(OPLOG, {"ts": Timestamp(at.seconds, at.increment)})
    if not found:
        first = oplog.first(oplog.ServerOplog(connection))
        raise NotRecoverable(
            f"no entry at {at} is in the oplog of {connection.where}, which reaches back to "
            f"{OplogPosition.of(first)} ({wall_time(first).isoformat(timespec='milliseconds')})"
        )
    return transaction(found[0])


def writes(connection: Connection, subject: Transaction) -> Iterator[Write]:
    """Each document that the transaction wrote, in its order.

    Raise Refused for what is no write of documents, NotRecoverable where a part has left the oplog.
    """
    for entry in reversed(_chain(connection, OplogPosition.parse(subject.start))):
        operations = entry["o"]["applyOps"] if entry["op"] == "c" else [entry]
        for operation in operations:
            yield _write(operation)


def _chain(connection: Connection, at: OplogPosition) -> list[RawBSONDocument]:
    """The entries of the transaction, the last one first: a large one has several."""
    last = _entry(connection, at)
    if last["op"] == "n":
        raise Refused("it changed nothing")
    if last["op"] != "c":
        return [last]
    if "applyOps" not in last["o"]:
        raise Refused(f"it is no change of documents, but {describe(bson.decode(last.raw))}")
    if last["o"].get("partialTxn"):
        raise Refused("it is a part of a transaction: name that by its last entry, as zbackup log does")
    if last["o"].get("prepare"):
        raise Refused("it is a part of a transaction of several shards")
    found = [last]
    # Outside of a transaction the entry before is another write of the same session.
    while found[-1].get("txnNumber") is not None and (before := _before(found[-1])):
        found.append(_entry(connection, before))
    return found


def _before(entry: Mapping[str, Any]) -> OplogPosition | None:
    position = entry.get("prevOpTime")
    if not position or not position["ts"].time or entry.get("multiOpType"):
        return None
    return OplogPosition.of(position)


def _entry(connection: Connection, at: OplogPosition) -> RawBSONDocument:
    found = next(connection.documents(OPLOG, {"ts": timestamp(at)}), None)
    if found is None or OplogPosition.of(found) != at:
        raise NotRecoverable(f"the entry at {at} is not in the oplog of {connection.where} any more")
    return found


def _write(operation: RawBSONDocument) -> Write:
    kind, name = str(operation["op"]), TableName(*str(operation["ns"]).split(".", 1))
    if kind not in _WRITES:
        raise Refused(f"it is no change of documents alone, but {describe(bson.decode(operation.raw))}, too")
    if name.table.startswith(_BUCKETS):
        series = name.table.removeprefix(_BUCKETS)
        raise Refused(f"{name.schema}.{series} is a time series, which the oplog holds in buckets")
    if name.schema in _SERVERS_OWN or name.table.startswith("system."):
        raise Refused(f"{name} is the server's own")
    told = operation["o2"] if kind == "u" else operation["o"]
    return Write(name, kind, collections.key(told), operation)


def by_collection(found: Sequence[Write]) -> dict[TableName, list[Write]]:
    """The writes of each collection, in their order."""
    grouped: dict[TableName, list[Write]] = {}
    for each in found:
        grouped.setdefault(each.name, []).append(each)
    return grouped
