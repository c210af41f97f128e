"""The account in production that copies write with. MongoDB manual, "Built-In Roles", "Privilege Actions"."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zbackup.engines.mongodb.server.connection import Connection, PrivilegeMissing

ROLES = ("readWrite", "dbAdmin")
# What of these roles is used.
ACTIONS = frozenset(
    (
        *("find", "insert", "update", "createCollection", "createIndex", "collMod"),
        *("renameCollectionSameDB", "dropCollection", "listCollections", "listIndexes"),
    )
)

REMOVING = frozenset({"remove"})


def grants(database: str) -> str:
    """The mongosh command that makes the account."""
    roles = json.dumps([{"role": role, "db": database} for role in ROLES])
    return (
        'db.getSiblingDB("admin").createUser({user: "zbackup_copy", pwd: passwordPrompt(), '
        f"roles: {roles}}})"
    )


def require_privileges(connection: Connection, databases: Sequence[str] = ()) -> str:
    """Return where the account may copy to. Raise PrivilegeMissing, with what to grant, where that is not
    so."""
    info = connection.command({"connectionStatus": 1, "showPrivileges": True})["authInfo"]
    if not info["authenticatedUsers"]:
        return "every database: the server asks nobody to log in"
    granted = info["authenticatedUserPrivileges"]
    lacking = [name for name in databases if not allowed(granted, name)]
    known = sorted({str(one["resource"].get("db", "")) for one in granted} - {""})
    may = [name for name in known if allowed(granted, name)]
    if lacking or not (databases or may or allowed(granted, "")):
        who = info["authenticatedUsers"][0]
        roles = json.dumps([{"role": r, "db": d} for d in lacking or ["DATABASE"] for r in ROLES])
        raise PrivilegeMissing(
            f"{who['user']} ({who['db']}) may not copy into {', '.join(lacking) or 'any database'}: "
            f'db.getSiblingDB("{who["db"]}").grantRolesToUser("{who["user"]}", {roles})'
        )
    return "every database" if allowed(granted, "") else ", ".join(may)


def require_deletes(connection: Connection, databases: Sequence[str]) -> None:
    """Raise PrivilegeMissing if the account may not delete documents there, which copies never do."""
    info = connection.command({"connectionStatus": 1, "showPrivileges": True})["authInfo"]
    granted = info["authenticatedUserPrivileges"]
    for name in databases if info["authenticatedUsers"] else ():
        if not allowed(granted, name, REMOVING):
            who = info["authenticatedUsers"][0]
            raise PrivilegeMissing(
                f"{who['user']} ({who['db']}) may not delete the documents that the transaction inserted "
                f'into {name}: db.getSiblingDB("{who["db"]}").grantRolesToUser("{who["user"]}", '
                f"{json.dumps([{'role': 'readWrite', 'db': name}])})"
            )


def allowed(granted: Sequence[Mapping[str, Any]], database: str, actions: frozenset[str] = ACTIONS) -> bool:
    """Tell whether privileges as connectionStatus lists them cover what a copy does in a database; "" is
    any."""
    permitted: set[str] = set()
    for one in granted:
        resource = one["resource"]
        whole = resource.get("collection") == "" and resource.get("db") in ("", database)
        if resource.get("anyResource") or whole:
            permitted |= set(one["actions"])
    return permitted >= actions
