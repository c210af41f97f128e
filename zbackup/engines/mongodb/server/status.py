"""Tell what a mongod says of itself, its replica set and its oplog.

Commands: MongoDB manual, "Database Commands" (hello, serverStatus, getCmdLineOpts, getParameter,
replSetGetStatus, replSetGetConfig, currentOp, collStats).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from zbackup.engines.mongodb.optime import OPLOG, OplogEntry
from zbackup.engines.mongodb.server.connection import Connection, Document
from zbackup.engines.mongodb.server.terms import term_ends
from zbackup.model.errors import DatabaseError, NotInService
from zbackup.model.oplog_position import OplogPosition

# Among so many of the newest entries the latest wall-clock time is looked for: clocks step back at times, and
# writers that run side by side get their times in another order than their positions.
NEWEST_ENTRIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OplogEnd:
    """The end of the oplog now: its newest entry's position, and the latest wall-clock time near its end."""

    at: OplogPosition
    wall: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMembership:
    """The membership of a server in its replica set. `set_id` tells sets of the same name apart.

    `stable` is the checkpoint that crash recovery would begin from, None when there is none yet. `first` is
    the oldest entry of the oplog, which holds `oplog_used` bytes, and `oplog_bytes` how large it may grow.
    `term_ends` are the last entries in it of the terms before the present one, newest first: see terms.
    """

    name: str
    set_id: str
    state: str
    members: int
    hidden: bool
    delay_s: int
    majority_journal: bool
    stable: OplogPosition | None
    first: OplogEntry
    oplog_used: int
    oplog_bytes: int
    term_ends: tuple[OplogPosition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoStatus:
    """One look at a server; `membership` is None for one that runs alone.

    `flags` are the names of the options on its command line, without values.
    """

    version: str
    fcv: str
    pid: int
    options: Mapping[str, Any] = field(hash=False)
    engine: str
    encrypted: bool
    membership: SetMembership | None
    end: OplogEnd | None
    flags: tuple[str, ...] = ()


def status(connection: Connection) -> MongoStatus:
    """Look at a server. Raise DatabaseError when it is no mongod, or one that holds no data yet."""
    hello = connection.command({"hello": 1})
    _require_mongod(hello, connection.where)
    server = connection.command({"serverStatus": 1, "metrics": 0, "locks": 0, "tcmalloc": 0})
    fcv = connection.command({"getParameter": 1, "featureCompatibilityVersion": 1})
    encryption = server.get("encryptionAtRest") or {}
    options = connection.command({"getCmdLineOpts": 1})
    end = oplog_end(connection) if hello.get("setName") else None
    member = _membership(connection, hello, end) if end else None
    return MongoStatus(
        version=str(server["version"]),
        fcv=str(fcv["featureCompatibilityVersion"]["version"]),
        pid=int(server["pid"]),
        options=options["parsed"],
        engine=str(server["storageEngine"]["name"]),
        encrypted=bool(encryption.get("encryptionEnabled")),
        membership=member,
        end=end,
        flags=_names(options["argv"]),
    )


def _names(argv: Sequence[str]) -> tuple[str, ...]:
    """mongod takes long names behind one dash, too."""
    return tuple(word.lstrip("-").partition("=")[0] for word in argv[1:] if word.startswith("-"))


def other_members(connection: Connection) -> tuple[str, ...]:
    """Return the other data-bearing members of the server's set, also hidden ones; () without a set."""
    if not connection.command({"hello": 1}).get("setName"):
        return ()
    members = connection.command({"replSetGetStatus": 1}).get("members") or ()
    return tuple(str(m.get("name")) for m in members if not m.get("self") and m.get("stateStr") != "ARBITER")


def oplog_end(connection: Connection) -> OplogEnd:
    """The end of the oplog now. Raise DatabaseError when it has no entry."""
    newest = connection.find(OPLOG, {}, fields=("ts", "t", "wall"), backwards=True, most=NEWEST_ENTRIES)
    if not newest:
        raise _no_oplog(connection)
    return OplogEnd(at=OplogPosition.of(newest[0]), wall=max(entry["wall"] for entry in newest))


def oplog_first(connection: Connection) -> OplogEntry:
    """The oldest entry of the oplog now. Raise DatabaseError when it has none."""
    first = connection.find(OPLOG, {}, fields=("ts", "t", "wall"))
    if not first:
        raise _no_oplog(connection)
    return OplogEntry.of(first[0])


def durable_wall(connection: Connection) -> datetime | None:
    """When the newest entry was written that is in the journal on disk, with all before it; None: not
    told.

    MongoDB manual, "replSetGetStatus" (optimes.lastDurableWallTime): there are no holes up to it.
    """
    told: datetime | None = connection.command({"replSetGetStatus": 1})["optimes"].get("lastDurableWallTime")
    return told


def is_locked(connection: Connection) -> bool:
    """Whether anybody's fsyncLock holds the server now."""
    return bool(operations(connection, {"desc": "fsyncLockWorker"}).get("fsyncLock"))


def stillness(connection: Connection) -> str:
    """What does not change while one and the same fsyncLock is held, and is changed by any write."""
    server = connection.command({"serverStatus": 1, "locks": 0, "tcmalloc": 0})
    if server.get("repl"):
        return str(oplog_end(connection).at)
    written = server["metrics"]["document"]
    count = sum(int(written[change]) for change in ("inserted", "updated", "deleted"))
    return f"{count} writes of process {server['pid']}"


def operations(connection: Connection, wanted: Mapping[str, Any]) -> Document:
    """currentOp's answer with the operations of all users that match `wanted`."""
    return connection.command({"currentOp": 1, "$all": True, **wanted})


def _require_mongod(hello: Document, where: str) -> None:
    if hello.get("msg") == "isdbgrid":
        raise DatabaseError(
            f"{where} is a mongos, which has no data: name the mongods of the shards and config servers"
        )
    if hello.get("isreplicaset"):
        raise NotInService(
            f"{where} was started with a replica set's name but is in no set: rs.initiate(); or it is no "
            f"member of the set that it knows: rs.reconfig() with its address"
        )
    if hello.get("arbiterOnly"):
        raise DatabaseError(f"{where} is an arbiter, which has no data")


def _no_oplog(connection: Connection) -> DatabaseError:
    return DatabaseError(f"the oplog of {connection.where} is empty: is the member still being built?")


def _membership(connection: Connection, hello: Document, end: OplogEnd) -> SetMembership:
    state = connection.command({"replSetGetStatus": 1})
    config = connection.command({"replSetGetConfig": 1})["config"]
    me: Document = next((m for m in config["members"] if m["host"] == hello.get("me")), {})
    own: Document = next((m for m in state["members"] if m.get("self")), {})
    first = oplog_first(connection)
    size = connection.run(OPLOG[0], {"collStats": OPLOG[1]})
    stable = state.get("lastStableRecoveryTimestamp")
    return SetMembership(
        name=str(state["set"]),
        set_id=str(config.get("settings", {}).get("replicaSetId", "")),
        state=str(own.get("stateStr", state["myState"])),
        members=len(config["members"]),
        hidden=bool(me.get("hidden")),
        delay_s=int(me.get("secondaryDelaySecs") or me.get("slaveDelay") or 0),
        majority_journal=bool(config.get("writeConcernMajorityJournalDefault", True)),
        stable=OplogPosition(stable.time, stable.inc, -1) if stable else None,
        first=first,
        oplog_used=int(size["size"]),
        oplog_bytes=int(size["maxSize"]),
        term_ends=term_ends(connection, first.at, end.at),
    )
