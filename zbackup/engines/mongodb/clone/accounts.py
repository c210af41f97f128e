"""New passwords for all accounts on a clone's server."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.cloning import Login
from zbackup.model.errors import DatabaseError

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


MOST_ACCOUNTS = 100_000
DEVELOPER = {"role": ROLE, "db": "admin"}

# Accounts that a certificate or a directory vouches for: a clone's server asks neither.
ELSEWHERE = "$external"


def replace_accounts(connection: Connection, login: Login) -> None:
    """Give every account the login's password, and make its user, for developers or an administrator.

    In the first case no other account may do more than a developer, either. Works on a server that asks for
    no login. Raise DatabaseError when the server refuses one.
    """
    known = list(_accounts(connection))
    roles: list[object] = ["root"]
    if not login.full:
        listed = connection.command({"listDatabases": 1, "nameOnly": True})["databases"]
        make_role(connection, [str(each["name"]) for each in listed])
        roles = [DEVELOPER]
    verb = "updateUser" if (login.user, "admin") in known else "createUser"
    connection.command({verb: login.user, "pwd": login.password, "roles": roles})
    for user, database in known:
        if (user, database) != (login.user, "admin"):
            more = {} if login.full else _restricted(connection, user, database)
            connection.run(database, {"updateUser": user, "pwd": login.password, **more})


def _restricted(connection: Connection, user: str, database: str) -> dict[str, object]:
    """What changes of an account that may do more than a developer."""
    asked = {"usersInfo": {"user": user, "db": database}, "showPrivileges": True}
    (found,) = connection.command(asked)["users"]
    return {"roles": [DEVELOPER]} if exceeds(found["inheritedPrivileges"]) else {}


def _accounts(connection: Connection) -> Iterator[tuple[str, str]]:
    found = connection.find(("admin", "system.users"), {}, fields=("user", "db"), most=MOST_ACCOUNTS + 1)
    if len(found) > MOST_ACCOUNTS:
        raise DatabaseError(f"more than {MOST_ACCOUNTS} accounts: their passwords were not replaced")
    yield from ((str(a["user"]), str(a["db"])) for a in found if a["db"] != ELSEWHERE)
