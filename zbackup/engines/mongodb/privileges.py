"""What zbackup's account must be allowed to do, and what the server's refusals mean.

MongoDB manual, "Privilege Actions" and "Resource Document".
"""

from typing import Any

ROLE = "zbackup"

# action on the cluster -> what for. Everything else zbackup asks (hello, buildInfo, ping) anybody may.
CLUSTER_ACTIONS = {
    "fsync": "take the lock",
    "unlock": "release the lock",
    "inprog": "see whether the server is locked already",
    "replSetGetStatus": "see the state of the replica set",
    "getCmdLineOpts": "see where the server keeps its data and how it was started",
    "getParameter": "see the feature compatibility version",
    "serverStatus": "see the storage engine and whether it encrypts",
}
OPLOG = {"db": "local", "collection": "oplog.rs"}
OPLOG_ACTIONS = {"find": "see how far the oplog reaches"}


def role_document() -> dict[str, Any]:
    """The least a role for zbackup must hold, as createRole takes it."""
    return {
        "privileges": [
            {"resource": {"cluster": True}, "actions": list(CLUSTER_ACTIONS)},
            {"resource": OPLOG, "actions": list(OPLOG_ACTIONS)},
        ],
        "roles": [],
    }
