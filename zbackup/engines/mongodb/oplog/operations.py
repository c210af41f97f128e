"""Show what one transaction of an oplog did, operation by operation, as lines of JSON (MongoDB's relaxed
EJSON).

Source: MongoDB's documentation of applyOps, and what a 6.0 wrote: the entries of a large transaction, and the
two phases of one of several shards, each name the one before in `prevOpTime`.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any, Final

import bson
from bson import json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.oplog import Oplog, ServerOplog
from zbackup.engines.mongodb.oplog.oplog_entry import wall_time
from zbackup.engines.mongodb.optime import OpTime
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import connect
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import ClusterTime

_OWN_DATABASES: Final = frozenset({"admin", "config", "local"})
_CHAINED: Final = frozenset({"applyOps", "commitTransaction"})
_READ: Final = CodecOptions[dict[str, Any]](
    tz_aware=True,
    tzinfo=UTC,
    # Dates that Python cannot have, and text that is none, are somebody's data, too.
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="backslashreplace",
)


def live_operations(options: ConnectOptions, at: ClusterTime) -> Iterator[str]:
    """Give `operations` of a running server's oplog. Raise DatabaseError when it cannot be asked."""
    with connect(options) as connection:
        yield from operations(ServerOplog(connection), at, f"the oplog of {connection.where}")


def operations(log: Oplog, at: ClusterTime, name: str) -> Iterator[str]:
    """Give each operation of the transaction that the entry at `at` completes, in its order; else the entry.

    Raise NotRecoverable, before anything is told, when an entry of it is not in the oplog.
    """
    for position in _chain(log, Timestamp(at.seconds, at.increment), name):
        entry = bson.decode(_stored(log, position, name).raw, _READ)
        applied = entry["o"].get("applyOps") if entry["op"] == "c" else None
        for each in applied if isinstance(applied, list) and applied else [entry]:
            yield json_util.dumps(_shown(each), json_options=json_util.RELAXED_JSON_OPTIONS)


def _shown(operation: Mapping[str, Any]) -> dict[str, Any]:
    """The operation. Of a document of the server's own it shows the _id alone: there is what accounts log
    in with, and keys of the cluster."""
    found = dict(operation)
    content = found.get("o")
    if isinstance(content, Mapping) and isinstance(nested := content.get("applyOps"), list):
        found["o"] = {**content, "applyOps": [_shown(each) for each in nested]}
    elif found.get("op") != "c" and str(found.get("ns", "")).partition(".")[0] in _OWN_DATABASES:
        named = found.pop("o2", None) or content or {}
        found["o"] = {"_id": named["_id"]} if "_id" in named else {}
    return found


def _chain(log: Oplog, last: Timestamp, name: str) -> list[Timestamp]:
    """Find the positions of the transaction's entries, in the order of the oplog."""
    found = [last]
    while (before := _before(_stored(log, found[-1], name))) and before < found[-1]:
        found.append(before)
    return found[::-1]


def _before(entry: RawBSONDocument) -> Timestamp | None:
    """Find the position of the transaction's entry before this one; None for the first, and for what is in
    none."""
    command = next(iter(entry["o"]), "") if entry["op"] == "c" else ""
    # Outside of a transaction the entry before is another write of the same session.
    if command not in _CHAINED or entry.get("txnNumber") is None or entry.get("multiOpType"):
        return None
    before = entry.get("prevOpTime")
    position: Timestamp | None = before["ts"] if before else None
    return position if position and position.time else None


def _stored(log: Oplog, position: Timestamp, name: str) -> RawBSONDocument:
    found = next(log.raw({"ts": {"$gte": position, "$lte": position}}), None)
    if found is None:
        begin = oplog.first(log)
        raise NotRecoverable(
            f"no entry at {position.time},{position.inc} is in {name}, which reaches back to "
            f"{OpTime.of(begin)} ({wall_time(begin).isoformat(timespec='milliseconds')})"
        )
    return RawBSONDocument(found)
