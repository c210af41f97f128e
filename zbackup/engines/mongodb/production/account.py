"""The account in production that copies write with. MongoDB manual, "Built-In Roles", "Privilege Actions"."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zbackup.config.copying import CopyBack
from zbackup.engines.mongodb.clone.identity import INTERNAL_USER, as_internal_user
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.production.writer import Writer
from zbackup.engines.mongodb.server.connection import Connection, PrivilegeMissing
from zbackup.model.errors import Refused
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance

ROLES = ("readWrite", "dbAdmin")
# What of these roles is used.
ACTIONS = frozenset(
    (
        *("find", "insert", "update", "createCollection", "createIndex", "collMod"),
        *("renameCollectionSameDB", "dropCollection", "listCollections", "listIndexes"),
    )
)

REMOVING = frozenset({"remove"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoAccount:
    """The account that zbackup writes to production with, of one instance. Its methods raise Refused without
    one.

    `usual` is the instance's own account, `rules` None: no account to write with is configured.
    """

    instance: str
    usual: ConnectOptions
    rules: CopyBack | None

    @property
    def login(self) -> ConnectOptions:
        rules = self._rules
        password = rules.password.read if rules.password else None
        return replace(self.usual, user=rules.user, password=password, mechanism="")

    def writer(
        self, production: Connection, progress: Progress, keep: Callable[[], object] = lambda: None
    ) -> Writer:
        """What writes to production as gently as is configured."""
        rules = self._rules
        return Writer(production, progress, rate=rules.rate or 0, max_lag=rules.max_lag, keep=keep)

    @property
    def _rules(self) -> CopyBack:
        if self.rules is None:
            raise Refused(
                "copying into production needs an account of its own there: set user and password in "
                f"[instance.{self.instance}.copy_back], and {grants('DATABASE')}"
            )
        return self.rules


def clone_options(entrance: Entrance) -> ConnectOptions:
    """The options to connect to a clone's server."""
    if entrance.user == INTERNAL_USER:
        return as_internal_user(entrance.socket, entrance.password)
    password = (lambda: entrance.password) if entrance.user else None
    return ConnectOptions(socket=entrance.socket, user=entrance.user, password=password)


def require_primary(production: Connection) -> None:
    """Raise Refused unless the server takes writes."""
    if not production.command({"hello": 1}).get("isWritablePrimary"):
        raise Refused("the instance's server takes no writes: copy on the host of the primary")


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
    """Whether privileges as connectionStatus lists them cover what a copy does in a database; "" is
    any."""
    permitted: set[str] = set()
    for one in granted:
        resource = one["resource"]
        whole = resource.get("collection") == "" and resource.get("db") in ("", database)
        if resource.get("anyResource") or whole:
            permitted |= set(one["actions"])
    return permitted >= actions
