"""Privileges: what zbackup's account must be allowed to do, and which command of the server asks for what.

MongoDB manual, "Privilege Actions" and "Resource Document".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zbackup.model.record import LockKind

ROLE = "zbackup"

# Everything else that zbackup asks (hello, ping, connectionStatus, buildInfo) anybody may.
CLUSTER_ACTIONS = (
    "fsync",
    "unlock",
    "inprog",
    "replSetGetStatus",
    "replSetGetConfig",
    "getCmdLineOpts",
    "getParameter",
    "serverStatus",
)
OPLOG_ACTIONS = ("collStats", "find")

# Only the lock itself needs these.
LOCKING = {"fsync": ("fsync", "unlock", "inprog"), "none": ()}

CLUSTER: Mapping[str, Any] = {"cluster": True}
OPLOG: Mapping[str, Any] = {"db": "local", "collection": "oplog.rs"}

# What a command is called where that is not its privilege's name.
_ACTION_OF = {"fsyncUnlock": "unlock", "currentOp": "inprog"}


def role_document() -> dict[str, Any]:
    """The least that a role for zbackup must hold, as createRole takes it."""
    return {
        "privileges": [
            {"resource": dict(CLUSTER), "actions": list(CLUSTER_ACTIONS)},
            {"resource": dict(OPLOG), "actions": list(OPLOG_ACTIONS)},
        ],
        "roles": [],
    }


def needed(kind: LockKind) -> list[tuple[Mapping[str, Any], str]]:
    """Pairs of a resource and an action without which a snapshot with this lock would fail."""
    locking = {action for actions in LOCKING.values() for action in actions}
    wanted = [a for a in CLUSTER_ACTIONS if a not in locking or a in LOCKING.get(kind, ())]
    return [*((CLUSTER, action) for action in wanted), *((OPLOG, action) for action in OPLOG_ACTIONS)]


def missing(
    granted: Iterable[Mapping[str, Any]], kind: LockKind, *, oplog: bool
) -> list[tuple[Mapping[str, Any], str]]:
    """The privileges that are needed and not in `granted`, as connectionStatus lists them.

    A server without an oplog needs none on it.
    """
    privileges = list(granted)
    return [
        (resource, action)
        for resource, action in needed(kind)
        if (oplog or resource is CLUSTER) and not any(_covers(one, resource, action) for one in privileges)
    ]


def grant(lacking: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """The mongosh command that gives the role of zbackup what is `lacking`."""
    privileges = [
        {"resource": dict(resource), "actions": [action for r, action in lacking if r is resource]}
        for resource in (CLUSTER, OPLOG)
        if any(r is resource for r, _ in lacking)
    ]
    return f'db.getSiblingDB("admin").grantPrivilegesToRole("{ROLE}", {json.dumps(privileges)})'


def advice(doing: str) -> str:
    """What to grant for a command that was refused; "" if it cannot be told."""
    if doing.startswith("reading local.oplog.rs"):
        return ": " + grant([(OPLOG, "find")])
    action = _ACTION_OF.get(doing, doing)
    if action in CLUSTER_ACTIONS:
        return ": " + grant([(CLUSTER, action)])
    return ": " + grant([(OPLOG, action)]) if action in OPLOG_ACTIONS else ""


def _covers(granted: Mapping[str, Any], resource: Mapping[str, Any], action: str) -> bool:
    if action not in granted["actions"]:
        return False
    has = granted["resource"]
    if has.get("anyResource") or (resource is CLUSTER and has.get("cluster")):
        return True
    # An empty name stands for all; "find" on all databases leaves out those of the server itself.
    return resource is OPLOG and has.get("db") == OPLOG["db"] and has.get("collection") in ("", "oplog.rs")
