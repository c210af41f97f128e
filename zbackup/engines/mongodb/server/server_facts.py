"""Tell what is recorded with every snapshot (Record.server), for the mongod that will open its files.

All values are text. Optimes are SECONDS,INCREMENT@TERM, times are ISO 8601 in UTC.

dbpath                  the data directory, without symbolic links
options                 the server's own settings (getCmdLineOpts), as JSON, less what is no business of files
                        or of the other members of its set
flags                   which options its command line had, by name; of a server that has a file of settings
storage_engine, fcv     the storage engine's name; the feature compatibility version
uid, gid                who owns the files
mongod                  the program the server ran from, when that could be seen
authorization           "enabled" when the server asks its users to log in
encryption              what is encrypted, when something is
replica_set, set_id     name and id of the replica set; not there for a server that runs alone
member_state            such as PRIMARY or SECONDARY
hidden, delay_s         "true" for a hidden member; by how much a delayed one lags on purpose
stable_checkpoint       where crash recovery would begin (its term is not known: -1)
oplog_bytes             how large the oplog may grow
oplog_terms             the last entries of earlier primaries' terms in the oplog, newest first
needs_lock              why an unlocked snapshot of this server would not be exact
oplog_wall              (locked) the latest wall-clock time near the oplog's end at Record.position
oplog_durable_wall      (lock "none") up to when everything was on disk before the snapshot
oplog_after(_wall)      (lock "none") the oplog's end, and its time, read once the snapshot was there
oplog_first(_wall)      the oldest entry of the oplog; (locked) or once the snapshot was there"""

import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zbackup.engines.mongodb.optime import OplogEntry
from zbackup.engines.mongodb.server.status import MongoStatus, OplogEnd, SetMembership

# Parts of the settings that say nothing about the files; some hold names of secrets' places.
NOT_OF_FILES = ("net", "processManagement", "systemLog", "auditLog")
# Of "net", what a new member of the set must have as this one has it.
OF_MEMBERS = ("bindIp", "ipv6", "tls")
MASK = "<password>"


def recorded(status: MongoStatus, data: Path) -> dict[str, str]:
    """The facts above that are known before the server is locked."""
    options = {key: value for key, value in status.options.items() if key not in NOT_OF_FILES}
    net = {key: _masked(value) for key, value in status.options.get("net", {}).items() if key in OF_MEMBERS}
    if net and status.membership:
        options["net"] = net
    facts = {
        "dbpath": str(data),
        "options": json.dumps(options, default=str, sort_keys=True),
        "storage_engine": status.engine,
        "fcv": status.fcv,
    }
    with contextlib.suppress(OSError):
        owner = data.stat()
        facts |= {"uid": str(owner.st_uid), "gid": str(owner.st_gid)}
    if program := _program(status.pid):
        facts["mongod"] = program
    if asks_for_login(status.options):
        facts["authorization"] = "enabled"
    if status.encrypted:
        facts["encryption"] = "all files, by the storage engine"
    if "config" in options and status.flags:
        facts["flags"] = " ".join(status.flags)
    return facts | (_of_member(status.membership) if status.membership else {})


def _masked(value: Any) -> Any:
    """Servers do that themselves; nothing here may depend on it."""
    if not isinstance(value, Mapping):
        return value
    return {key: MASK if "password" in key.lower() else part for key, part in value.items()}


def end_under_lock(end: OplogEnd | None, durable: datetime | None = None) -> dict[str, str]:
    """What is known when the server is locked: Record.position is the position of the same end."""
    facts = {"oplog_wall": _time(end.wall)} if end else {}
    return facts | ({"oplog_durable_wall": _time(durable)} if durable else {})


def end_after_snapshot(end: OplogEnd | None) -> dict[str, str]:
    """What is known when an unlocked snapshot is there: nothing after this end is inside."""
    return {"oplog_after": str(end.at), "oplog_after_wall": _time(end.wall)} if end else {}


def first_in_snapshot(first: OplogEntry | None) -> dict[str, str]:
    """The oldest entry of the oplog that is certainly inside."""
    return {"oplog_first": str(first.at), "oplog_first_wall": _time(first.wall)} if first else {}


def asks_for_login(options: Mapping[str, Any]) -> bool:
    """Whether access control is on: said outright, or implied by how members know each other."""
    security = options.get("security", {})
    implied = "keyFile" in security or security.get("clusterAuthMode", "keyFile") != "keyFile"
    return bool(security.get("authorization") == "enabled" or implied)


def _of_member(member: SetMembership) -> dict[str, str]:
    facts = {
        "replica_set": member.name,
        "set_id": member.set_id,
        "member_state": member.state,
        "oplog_bytes": str(member.oplog_bytes),
        **first_in_snapshot(member.first),
    }
    if member.term_ends:
        facts["oplog_terms"] = " ".join(map(str, member.term_ends))
    if member.stable:
        facts["stable_checkpoint"] = str(member.stable)
    if member.hidden:
        facts["hidden"] = "true"
    if member.delay_s:
        facts["delay_s"] = str(member.delay_s)
    return facts


def _program(pid: int) -> str:
    """The running server's executable, "" if that cannot be seen or is only its dynamic loader."""
    try:
        # A package upgrade below a running server leaves " (deleted)" behind the path.
        program = str(Path(f"/proc/{pid}/exe").readlink()).removesuffix(" (deleted)")
    except OSError:
        return ""
    # Inside a container the number is another process's here; a server run by its loader shows as that.
    return program if Path(program).name.startswith("mongod") else ""


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
