"""Proof that a log source's oplog continues a base's own, and where it does.

Names and times prove nothing: after a failover another history may stand at the same timestamps. So the
replica set's id must be the same, the base's last sure entry must stand in the log source with the same term,
and everything both oplogs hold around there must be the same, byte by byte.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import bson
from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.oplog import Oplog, ServerOplog
from zbackup.engines.mongodb.oplog.oplog_entry import wall_time
from zbackup.engines.mongodb.optime import OPLOG
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.errors import NotRecoverable
from zbackup.model.oplog_position import OplogPosition

# How many of the base's last entries are compared with the log source's.
OVERLAP = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """`anchor` is the base's last sure entry, which the log source has too, `sure` the last one that may be
    read from the log source. `missing` are entries between `anchor` and `tail` that the base lacks; behind
    `tail` it has none at all.
    """

    anchor: OplogPosition
    sure: OplogPosition
    missing: tuple[bytes, ...]
    tail: OplogPosition


def continuation(base: Connection, log: Oplog, *, whole: bool = False) -> Continuation:
    """Raise NotRecoverable when the log source does not continue the base.

    `whole` says that nobody was writing when the log source was taken, so that its oplog has no holes.
    """
    ours = ServerOplog(base)
    _require_same_set(ours, log)
    anchor = oplog.last(ours, ours.sure())
    sure = oplog.last(log, None if whole else log.sure())
    _require_reached(anchor, log, sure)
    begin, tail = anchor["ts"], oplog.last(ours)["ts"]
    _require_same_before(base, log, begin)
    between = {"ts": {"$gt": begin, "$lte": tail}}
    missing = holes(_by_time(ours, between), _by_time(log, between))
    return Continuation(
        anchor=OplogPosition.of(anchor),
        sure=OplogPosition.of(sure),
        missing=missing,
        tail=OplogPosition.of(oplog.last(ours)),
    )


def holes(base: Mapping[Timestamp, bytes], log: Mapping[Timestamp, bytes]) -> tuple[bytes, ...]:
    """Entries of the log that the base lacks, where both should be the same. Pure.

    Raise NotRecoverable when the base has an entry that the log source has not, or has otherwise.
    """
    for position, document in base.items():
        if log.get(position) != document:
            raise NotRecoverable(
                f"the base's oplog entry at {position.time},{position.inc} is not the log source's: what was "
                "written then was rolled back; start from an older backup (--base), or go further back"
            )
    return tuple(document for position, document in log.items() if position not in base)


def needed_bytes(stored: int, span: tuple[datetime, datetime], since: datetime) -> int:
    """How large an oplog would have to be to reach back to `since`, written at the pace seen. Pure.

    It holds `stored` bytes, written in the time of `span`.
    """
    seconds = max((span[1] - span[0]).total_seconds(), 1.0)
    return int(stored / seconds * max((span[1] - since).total_seconds(), seconds))


def _require_same_set(base: Oplog, log: Oplog) -> None:
    ours, theirs = base.replica_set(), log.replica_set()
    if not ours[0]:
        raise NotRecoverable(
            "the base is of a server that was in no replica set: it has no oplog to go on from"
        )
    if ours != theirs:
        raise NotRecoverable(
            f"the log source is of another replica set: {_named(theirs)}, but the base is of {_named(ours)}"
        )


def _named(replica_set: tuple[str, str]) -> str:
    name, identity = replica_set
    return f"{name} ({identity})" if name else "none"


def _require_reached(anchor: oplog.Entry, log: Oplog, sure: oplog.Entry) -> None:
    earliest = oplog.first(log)
    wanted = OplogPosition.of(anchor)
    if earliest["ts"] > anchor["ts"]:
        stored, most = log.size()
        span = wall_time(earliest), wall_time(sure)
        enough = max(most, needed_bytes(stored, span, wall_time(anchor)))
        raise NotRecoverable(
            f"the oplog has a gap: the base ends at {wanted} ({_text(anchor)}), but the log source begins at "
            f"{OplogPosition.of(earliest)} ({_text(earliest)}). Its oplog may hold {_mib(most)}; about "
            f"{_mib(enough)} would have been enough: take snapshots more often, or let it "
            "grow (replSetResizeOplog)"
        )
    found = oplog.at(log, anchor["ts"])
    if found is None or OplogPosition.of(found) != wanted or sure["ts"] < anchor["ts"]:
        raise NotRecoverable(
            f"the base's last entry, {wanted} ({_text(anchor)}), is not in the log source: what the base "
            "holds was rolled back later; start from an older backup (--base), or go further back"
        )


def _require_same_before(base: Connection, log: Oplog, begin: Timestamp) -> None:
    """The last entries both hold up to the anchor. The log source may have dropped the older ones."""
    newest = base.find(OPLOG, {"ts": {"$lte": begin}}, fields=("ts",), backwards=True, most=OVERLAP)
    since = max(newest[-1]["ts"], oplog.first(log)["ts"])
    both = {"ts": {"$gte": since, "$lte": begin}}
    if lacking := holes(_digests(ServerOplog(base), both), _digests(log, both)):
        raise NotRecoverable(
            f"the base's oplog lacks {len(lacking)} entries before {begin.time},{begin.inc} which the log "
            "source has: do not trust it"
        )


def _digests(log: Oplog, wanted: Mapping[str, object]) -> dict[Timestamp, bytes]:
    """Map each entry's timestamp to its hash: a thousand of the largest entries would be 16 GiB."""
    return {bson.decode(document)["ts"]: hashlib.sha256(document).digest() for document in log.raw(wanted)}


def _by_time(log: Oplog, wanted: Mapping[str, object]) -> dict[Timestamp, bytes]:
    return {bson.decode(document)["ts"]: document for document in log.raw(wanted)}


def _text(entry: oplog.Entry) -> str:
    return wall_time(entry).isoformat(timespec="milliseconds")


def _mib(size: int) -> str:
    return f"{size / oplog.MIB:.0f} MiB"
