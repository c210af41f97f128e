"""Search an oplog for what happened to which collection.

Source: MongoDB's documentation of change events and of applyOps, and what a 6.0 wrote. A transaction is one
entry, or several of which the last completes it; a prepared one takes effect with commitTransaction.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from typing import Any, Final

import bson
from bson import json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.oplog import Oplog, ServerOplog
from zbackup.engines.mongodb.oplog.oplog_entry import wall_time
from zbackup.engines.mongodb.optime import timestamp
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import connect
from zbackup.engines.mongodb.server.named_collections import BUCKETS
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.log_entry import KINDS, Kind, LogEntry, LogFilter, LogRead, Lost, Touched
from zbackup.model.oplog_position import OplogPosition

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
            f"{OplogPosition.of(begin)} ({wall_time(begin).isoformat(timespec='milliseconds')})"
        )
    return RawBSONDocument(found)


_ROWS: Final[dict[str, Kind]] = {"i": "insert", "u": "update", "d": "delete"}
_DDL: Final[tuple[Kind, ...]] = ("ddl",)
_DROP: Final[tuple[Kind, ...]] = ("ddl", "drop")
_TRUNCATE: Final[tuple[Kind, ...]] = ("ddl", "truncate")
_SHOWN: Final = 1 << 14
_MARGIN: Final = timedelta(minutes=10)
"""Wall-clock times may go back by as much from one entry to the next."""

Tables = dict[str, set[Kind]]


@dataclass(slots=True)
class _Open:
    """A transaction that is not decided yet, as far as it is known."""

    tables: Tables = field(default_factory=dict)
    events: int = 0
    size: int = 0


def live_history(options: ConnectOptions, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
    """The same of a running server's. Raise DatabaseError when it cannot be asked."""
    with connect(options) as connection:
        yield from search(ServerOplog(connection), wanted, f"the oplog of {connection.where}")


Pending = dict[tuple[bytes, int], _Open]
"""Transactions of which not all entries were read yet, by session and number."""


def search(
    log: Oplog,
    wanted: LogFilter,
    name: str,
    before: Oplog | None = None,
    pending: Pending | None = None,
) -> Iterator[LogEntry | LogRead]:
    """The transactions of an oplog that are wanted, in its order, and behind them what was read of it.

    Nothing that another one holds, if there is one that goes on `before` this one ends. `pending` is handed
    from the one to the other. What is lost between its beginning and `wanted.follows` is told where it lay.
    """
    size, end = log.size()[0], OplogPosition.of(oplog.last(log))
    if before:
        first = OplogPosition.of(oplog.first(before))
        end = min(end, OplogPosition(first.seconds, max(0, first.increment - 1), first.term))
    lost = _lost(log, wanted, name)
    if not wanted.backwards:
        yield from lost
    for entry in entries(log.raw(_question(wanted, end)), pending):
        if wanted.admits(entry):
            yield entry
    yield LogRead(name=name, size=size, end=str(end))
    if wanted.backwards:
        yield from lost


def _lost(log: Oplog, wanted: LogFilter, name: str) -> list[LogRead]:
    """The entries behind `wanted.follows` that the oplog has no more, unless all are from before what is
    wanted."""
    if not wanted.follows:
        return []
    begin, end = OplogPosition.of(oplog.first(log)), OplogPosition.parse(wanted.follows)
    too_old = wanted.since and begin.seconds < (wanted.since - _MARGIN).timestamp()
    if begin.cluster_time <= end.cluster_time or too_old:
        return []
    said = f"what the oplog held between {end} and {begin} is gone"
    lost = Lost(since=timestamp(end).as_datetime(), until=timestamp(begin).as_datetime())
    return [LogRead(name=name, size=0, end="", problem=said, lost=lost)]


def entries(documents: Iterator[bytes], pending: Pending | None = None) -> Iterator[LogEntry]:
    """What each entry did, but for those that do nothing; parts of a transaction together. Pure."""
    pending = {} if pending is None else pending
    for document in documents:
        if (found := _entry(RawBSONDocument(document), len(document), pending)) is not None:
            yield found


def _question(wanted: LogFilter, end: OplogPosition) -> dict[str, Any]:
    """What the server is asked, so that it sends no more of its oplog than may be wanted."""
    within: dict[str, Any] = {"$lte": timestamp(end)}
    if wanted.after:
        within["$gt"] = timestamp(OplogPosition.parse(wanted.after))
    elif wanted.since:
        within["$gte"] = Timestamp(max(0, int((wanted.since - _MARGIN).timestamp())), 0)
    asked: dict[str, Any] = {"ts": within, "op": {"$ne": "n"}}
    if wanted.kinds and wanted.kinds.isdisjoint(_ROWS.values()):
        # A transaction, too, is a command.
        asked["op"] = "c"
    elif wanted.tables:
        asked["$or"] = [{"op": "c"}, *({"ns": {"$regex": _pattern(table)}} for table in wanted.tables)]
    return asked


def _pattern(table: str) -> str:
    database, _, name = table.partition(".")
    if name in ("", "*"):
        return rf"^{re.escape(database)}\."
    return rf"^{re.escape(database)}\.({re.escape(BUCKETS)})?{re.escape(name)}$"


def _entry(entry: Mapping[str, Any], size: int, pending: Pending) -> LogEntry | None:
    operation, namespace = str(entry.get("op", "")), str(entry.get("ns", ""))
    if operation in _ROWS:
        return _logged(entry, {_table(namespace): {_ROWS[operation]}}, 1, size)
    if operation != "c":
        return None
    command, argument = next(iter(entry["o"].items()), ("", None))
    if command == "applyOps":
        return _transaction(entry, argument, size, pending)
    if command in ("commitTransaction", "abortTransaction"):
        known = pending.pop(_session(entry), _Open())
        if command == "abortTransaction":
            return None
        return _logged(entry, known.tables, known.events + 1, known.size + size, text=command)
    tables = _command(command, argument, entry["o"], namespace)
    renames: tuple[tuple[str, str], ...] = ()
    if command == "renameCollection":
        renames = ((_table(str(argument)), _table(str(entry["o"].get("to", "")))),)
    return replace(_logged(entry, tables, 1, size, text=_text(entry["o"])), renames=renames)


def _transaction(entry: Mapping[str, Any], operations: Any, size: int, pending: Pending) -> LogEntry | None:
    """The transaction that the entry completes; None when another one does."""
    session = _session(entry)
    known = pending.pop(session, None) or _Open()
    known.size += size
    for one in operations:
        known.events += 1
        kind = _ROWS.get(str(one.get("op", "")))
        if kind:
            known.tables.setdefault(_table(str(one["ns"])), set()).add(kind)
        elif one.get("op") == "c":
            command, argument = next(iter(one["o"].items()), ("", None))
            for name, kinds in _command(command, argument, one["o"], str(one["ns"])).items():
                known.tables.setdefault(name, set()).update(kinds)
    content = entry["o"]
    if content.get("partialTxn") or content.get("prepare"):
        pending[session] = known
        return None
    return _logged(entry, known.tables, known.events, known.size)


def _session(entry: Mapping[str, Any]) -> tuple[bytes, int]:
    session = entry.get("lsid")
    return bytes(session["id"]) if session else b"", int(entry.get("txnNumber", 0))


def _command(command: str, argument: Any, content: Mapping[str, Any], namespace: str) -> Tables:
    """What a command does to which collections."""
    database = namespace.removesuffix(".$cmd")
    if command == "dropDatabase":
        return {f"{database}.*": set(_DROP)}
    if command == "renameCollection":
        replaced = _DROP if content.get("dropTarget") else _DDL
        return {_table(str(argument)): set(_DDL), _table(str(content.get("to", ""))): set(replaced)}
    kinds = _DROP if command == "drop" else _TRUNCATE if command == "emptycapped" else _DDL
    return {_table(f"{database}.{argument}") if isinstance(argument, str) else "": set(kinds)}


def _table(namespace: str) -> str:
    """A collection's name; of a time series that which people know it by."""
    database, _, name = namespace.partition(".")
    return f"{database}.{name.removeprefix(BUCKETS)}"


def _logged(entry: Mapping[str, Any], tables: Tables, events: int, size: int, text: str = "") -> LogEntry:
    position = str(OplogPosition.of(entry))
    return LogEntry(
        transaction=Transaction(start=position, end=position, committed=wall_time(entry)),
        tables=tuple(Touched(name, _in_order(kinds)) for name, kinds in tables.items()),
        events=events,
        size=size,
        text=text,
    )


def _in_order(kinds: set[Kind]) -> tuple[Kind, ...]:
    return tuple(kind for kind in KINDS if kind in kinds)


def _text(content: Mapping[str, Any]) -> str:
    return json_util.dumps(content)[:_SHOWN]
