"""Make zbackup's account, with exactly the privileges that the documentation names.

It is this server's own: its creation is not written to the binary log, so that replicas, whose accounts
have other passwords, hear nothing of it.
"""

from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.server.privileges import GRANTS
from zbackup.engines.mysql.sql.quoting import literal

HOST = "localhost"
NOT_LOGGED = "SET SESSION sql_log_bin = 0"
ESCAPES = "SET SESSION sql_mode = REPLACE(@@SESSION.sql_mode, 'NO_BACKSLASH_ESCAPES', '')"
"""The statement that has the server read a backslash as the script writes it."""


def exists(connection: Connection, user: str) -> bool:
    """Whether there is such an account. Raise PrivilegeMissing when we may not see that."""
    row = connection.one("SELECT COUNT(*) AS n FROM mysql.user WHERE User = %s AND Host = %s", (user, HOST))
    return bool(row["n"])


def create(connection: Connection, flavor: str, user: str, password: str) -> None:
    """Make the account, or complete one that is there; a password that it has stays. Raise DatabaseError."""
    connection.execute(NOT_LOGGED)
    connection.execute(f"CREATE USER IF NOT EXISTS {_name(user)} IDENTIFIED BY %s", (password,))
    for grant in GRANTS[flavor]:
        connection.execute(f"GRANT {grant} TO {_name(user)}")


def script(flavor: str, user: str, password: str) -> str:
    """The same for an administrator to run. Pure."""
    grants = "".join(f"GRANT {grant} TO {_name(user)};\n" for grant in GRANTS[flavor])
    return (
        f"{NOT_LOGGED};\n{ESCAPES};\nCREATE USER {_name(user)} IDENTIFIED BY {literal(password)};\n{grants}"
    )


def _name(user: str) -> str:
    if not user.replace("_", "").isalnum():
        raise ValueError(f"no name for an account: {user!r}")
    return f"{literal(user)}@{literal(HOST)}"
