"""Rights of a dev clone's accounts: all that a developer needs, and nothing that reaches beyond the
clone.

No account of the clone has more, as all have the same password. Left out is what stops or configures the
server, rotates its logs, replicates, and what writes to the accounts of `admin`, by which all of that could
be had.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from zbackup.engines.mongodb.server.connection import Connection

ROLE = "zbackup_developer"
OWN_DATABASES = ("admin", "local", "config")

_EVERYWHERE = (
    *("find", "insert", "update", "remove", "createCollection", "dropCollection", "createIndex", "dropIndex"),
    *("collMod", "collStats", "dbStats", "dbHash", "listCollections", "listIndexes", "killCursors"),
    *("planCacheRead", "changeStream", "validate"),
)
_READING = ("find", "collStats", "dbStats", "dbHash", "listCollections", "listIndexes")
_OF_THE_SERVER = (
    *(
        "listDatabases",
        "serverStatus",
        "inprog",
        "killop",
        "top",
        "hostInfo",
        "connPoolStats",
        "getParameter",
    ),
    "listSessions",
)
_HARMLESS = frozenset(
    (
        *_OF_THE_SERVER,
        *("getCmdLineOpts", "getLog", "replSetGetStatus", "replSetGetConfig", "getShardMap", "listShards"),
        *("useUUID", "shardingState", "netstat", "checkFreeMonitoringStatus", "getClusterParameter"),
        "indexStats",
    )
)
"""Actions on the server as a whole that change nothing but sessions."""

_BY_WHICH_MORE_IS_HAD = frozenset(
    (
        *("createUser", "updateUser", "changePassword", "changeOwnPassword", "changeCustomData", "dropUser"),
        *("grantRole", "revokeRole", "createRole", "updateRole", "dropRole", "setAuthenticationRestriction"),
        *("internal", "anyAction"),
    )
)
"""Actions that must not reach `admin`."""

Privilege = Mapping[str, Any]


def make_role(connection: Connection, databases: Iterable[str]) -> None:
    """The role of developers: owner of every database there is but the server's own; new ones can be made.

    A database's owner can give nobody more than he has: its roles reach no other database (MongoDB manual,
    "Role-Based Access Control").
    """
    owned = [{"role": "dbOwner", "db": name} for name in databases if name not in OWN_DATABASES]
    privileges = [
        {"resource": {"db": "", "collection": ""}, "actions": list(_EVERYWHERE)},
        {"resource": {"db": "config", "collection": ""}, "actions": list(_READING)},
        {"resource": {"cluster": True}, "actions": list(_OF_THE_SERVER)},
    ]
    known = connection.command({"rolesInfo": ROLE})["roles"]
    verb = "updateRole" if known else "createRole"
    connection.command({verb: ROLE, "privileges": privileges, "roles": owned})


def exceeds(privileges: Iterable[Privilege]) -> bool:
    """Whether one of them is more than a developer may have."""
    return any(_exceeds(p["resource"], frozenset(p["actions"])) for p in privileges)


def _exceeds(resource: Mapping[str, Any], actions: frozenset[str]) -> bool:
    if resource.get("cluster"):
        return not actions <= _HARMLESS
    if "db" not in resource:
        # Any resource at all, or collections of time series everywhere.
        return "system_buckets" not in resource or bool(actions & _BY_WHICH_MORE_IS_HAD)
    database, collection = str(resource["db"]), str(resource.get("collection", ""))
    if database in ("", *OWN_DATABASES):
        # The accounts are such collections; reading them is what a database's owner may do, too.
        return bool(actions & _BY_WHICH_MORE_IS_HAD) or _writes_system(collection, actions)
    return False


def _writes_system(collection: str, actions: frozenset[str]) -> bool:
    writing = actions & {"insert", "update", "remove", "createCollection", "dropCollection", "collMod"}
    return (
        collection.startswith("system.")
        and collection not in ("system.js", "system.profile")
        and bool(writing)
    )
