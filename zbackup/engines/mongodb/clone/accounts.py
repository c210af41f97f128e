"""New passwords for all accounts on a clone's server."""

from collections.abc import Iterator

from zbackup.engines.mongodb.clone import developer
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.cloning import Login
from zbackup.model.errors import DatabaseError

MOST_ACCOUNTS = 100_000
DEVELOPER = {"role": developer.ROLE, "db": "admin"}

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
        developer.make_role(connection, [str(each["name"]) for each in listed])
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
    return {"roles": [DEVELOPER]} if developer.exceeds(found["inheritedPrivileges"]) else {}


def _accounts(connection: Connection) -> Iterator[tuple[str, str]]:
    found = connection.find(("admin", "system.users"), {}, fields=("user", "db"), most=MOST_ACCOUNTS + 1)
    if len(found) > MOST_ACCOUNTS:
        raise DatabaseError(f"more than {MOST_ACCOUNTS} accounts: their passwords were not replaced")
    yield from ((str(a["user"]), str(a["db"])) for a in found if a["db"] != ELSEWHERE)
