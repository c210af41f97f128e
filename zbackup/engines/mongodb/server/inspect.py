"""Look at a running mongod: everything a job needs to know of it. Changes nothing."""

from pathlib import Path

from zbackup.engines.mongodb.server import assess
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.engines.mongodb.server.directories import data_paths, dbpath, works_there
from zbackup.engines.mongodb.server.server_facts import recorded
from zbackup.engines.mongodb.server.status import MongoStatus, status
from zbackup.model.errors import Refused
from zbackup.model.server import OplogFacts, ServerFacts

HOUR_S = 3600.0


def inspect(connection: Connection) -> ServerFacts:
    """Raise DatabaseError, naming the privilege, when the account may not see what it has to.

    Raise Refused when the server is not the one that works on this machine's files.
    """
    found = status(connection)
    data = dbpath(found.options, found.pid)
    _require_here(connection, found, data)
    member = found.membership
    problem = assess.needs_lock(found)
    return ServerFacts(
        flavor="mongodb",
        version=found.version,
        server_uuid=identity(found, data),
        role="replica" if member and member.state != "PRIMARY" else "primary",
        applier_running=bool(member and member.state == "SECONDARY"),
        data_paths=data_paths(data),
        position=str(found.end.at) if found.end else "",
        gtid="",
        server=recorded(found, data) | ({"needs_lock": problem} if problem else {}),
        blockers=assess.blockers(found),
        warnings=assess.warnings(found),
        oplog=_oplog(found, data),
    )


def _oplog(found: MongoStatus, data: Path) -> OplogFacts | None:
    member, end = found.membership, found.end
    if member is None or end is None:
        return None
    kept = found.options.get("storage", {}).get("oplogMinRetentionHours") or 0
    return OplogFacts(
        used=member.oplog_used,
        most=member.oplog_bytes,
        span_s=(end.wall - member.first.wall).total_seconds(),
        kept_s=float(kept) * HOUR_S,
        data_directory=str(data),
    )


def _require_here(connection: Connection, status: MongoStatus, data: Path) -> None:
    if not works_there(data, status.pid):
        raise Refused(
            f"the server at {connection.where} (process {status.pid}) does not use {data} of this "
            "machine: give its own address"
        )


def identity(status: MongoStatus, data: Path) -> str:
    """What tells this server's log from all others: all members of a replica set keep the same one."""
    member = status.membership
    return f"replica set {member.name} {member.set_id}" if member else f"standalone at {data}"
