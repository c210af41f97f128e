"""New passwords for all accounts on a clone's server."""

from collections.abc import Iterator

from zbackup.engines.mongodb.connection import Connection
from zbackup.model.cloning import Login
from zbackup.model.errors import DatabaseError

MOST_ACCOUNTS = 100_000

# Accounts that a certificate or a directory vouches for: a clone's server asks neither.
ELSEWHERE = "$external"


def replace_accounts(connection: Connection, login: Login) -> None:
    """Give every account the login's password, and make its user, who may do everything.

    Works on a server that asks for no login. Raise DatabaseError when the server refuses one.
    """
    known = list(_accounts(connection))
    if (login.user, "admin") not in known:
        connection.command({"createUser": login.user, "pwd": login.password, "roles": ["root"]})
    else:
        connection.command({"updateUser": login.user, "pwd": login.password, "roles": ["root"]})
    for user, database in known:
        if (user, database) != (login.user, "admin"):
            connection.run(database, {"updateUser": user, "pwd": login.password})


def _accounts(connection: Connection) -> Iterator[tuple[str, str]]:
    found = connection.find(("admin", "system.users"), {}, fields=("user", "db"), most=MOST_ACCOUNTS + 1)
    if len(found) > MOST_ACCOUNTS:
        raise DatabaseError(f"more than {MOST_ACCOUNTS} accounts: their passwords were not replaced")
    yield from ((str(a["user"]), str(a["db"])) for a in found if a["db"] != ELSEWHERE)
