"""Accounts on a clone's server: zbackup's own while it works there, and new passwords for all others.

Both are made by an init file, which a server runs before it lets anybody in (MySQL reference manual,
init_file), so that there is no moment in which production's passwords would do.
"""

import re
import secrets
from dataclasses import dataclass

from zbackup.engines.mysql.clone import developer
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.cloning import Login
from zbackup.model.errors import VerificationFailed

_OWN = re.compile(r"zbackup_[0-9a-f]{12}")
HOSTS = ("localhost", "127.0.0.1")

# Accounts of the server itself, which nobody can log in with, and roles.
_MYSQL_OTHERS = (
    "User NOT IN ('mysql.sys', 'mysql.session', 'mysql.infoschema') "
    "AND (account_locked = 'N' OR authentication_string <> '')"
)
_MARIADB_OTHERS = "User <> 'mariadb.sys' AND COALESCE(JSON_VALUE(Priv, '$.is_role'), '0') IN ('0', 'false')"


@dataclass(frozen=True, slots=True)
class TemporaryAccount:
    """A login that exists only while a recovery works on the server."""

    user: str
    password: str

    @classmethod
    def fresh(cls) -> "TemporaryAccount":
        return cls(f"zbackup_{secrets.token_hex(6)}", f"Zb-1{secrets.token_urlsafe(24)}")

    def creation(self) -> str:
        """Statements for init-file, one a line. They must leave no trace in the binlog."""
        lines = ["SET SESSION sql_log_bin = 0;"]
        for host in HOSTS:
            account = f"{literal(self.user)}@{literal(host)}"
            lines.append(f"CREATE USER {account} IDENTIFIED BY {literal(self.password)};")
            lines.append(f"GRANT ALL ON *.* TO {account} WITH GRANT OPTION;")
        return "\n".join(lines) + "\n"

    def drop(self, connection: Connection) -> None:
        connection.execute("SET SESSION sql_log_bin = 0")
        # In one statement: after the first of two we would have no privilege left for the second.
        both = ", ".join(f"{literal(self.user)}@{literal(host)}" for host in HOSTS)
        connection.execute(f"DROP USER IF EXISTS {both}")

    def drop_leftovers(self, connection: Connection) -> None:
        """Remove the accounts of runs that were killed."""
        connection.execute("SET SESSION sql_log_bin = 0")
        for row in connection.rows("SELECT User AS u, Host AS h FROM mysql.user"):
            if _OWN.fullmatch(str(row["u"])) and row["u"] != self.user:
                connection.execute("DROP USER IF EXISTS %s@%s", (row["u"], row["h"]))


def replacement(flavor: str, login: Login) -> str:
    """Statements for init-file, one a line, that give every account the login's password and no other way in.

    Second passwords, sockets and directories that vouch for an account go, as do old passwords, and what the
    server itself would log in with elsewhere (mysql.servers). Roles, and accounts of the server, stay.

    A statement that fails ends the file, and the server lets everybody in all the same (seen with MySQL 9.7,
    MariaDB 10.11 and 11.8). So all of production's accounts are shut first, by the two statements that need
    the least.
    """
    password = literal(login.password)
    shut = _mysql_shut(login) if flavor == "mysql" else _mariadb(login)
    # What production's sql_mode makes of a backslash or a quote is not meant here.
    lines = ["SET SESSION sql_log_bin = 0;", *shut, "FLUSH PRIVILEGES;", "SET SESSION sql_mode = '';"]
    for host in HOSTS:
        account = f"{literal(login.user)}@{literal(host)}"
        plugin = "WITH caching_sha2_password BY" if flavor == "mysql" else "BY"
        lines.append(f"CREATE USER IF NOT EXISTS {account} IDENTIFIED {plugin} {password};")
        lines.append(f"ALTER USER {account} IDENTIFIED {plugin} {password} ACCOUNT UNLOCK;")
        lines += _privileges(flavor, login, host)
    if not login.full:
        others = developer.mysql_others if flavor == "mysql" else developer.mariadb_others
        lines += others(login.user, HOSTS[0])
    lines += _mysql(login) if flavor == "mysql" else []
    return "\n".join([*lines, "DELETE FROM mysql.servers;", "FLUSH PRIVILEGES;"]) + "\n"


def _privileges(flavor: str, login: Login, host: str) -> list[str]:
    account = f"{literal(login.user)}@{literal(host)}"
    if login.full:
        return [f"GRANT ALL ON *.* TO {account} WITH GRANT OPTION;"]
    # Those of the clone that this one is a child of, if it was made there.
    lines = [f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {account};"]
    if flavor == "mysql":
        return [*lines, *developer.mysql_login(account)]
    return [*lines, *developer.mariadb_login(account, login.user, host)]


def at_last(flavor: str, login: Login) -> tuple[str, ...]:
    """Statements for when no other account of ours is left.

    CREATE USER lets its holder change any account of MariaDB's, and while the clone is made there is one that
    may do everything.
    """
    if login.full or flavor == "mysql":
        return ()
    return tuple(f"GRANT CREATE USER ON *.* TO {literal(login.user)}@{literal(host)}" for host in HOSTS)


_SECOND_WAYS = "JSON_REMOVE({}User_attributes, '$.additional_password', '$.multi_factor_authentication')"


def _mysql_shut(login: Login) -> list[str]:
    """No password has this hash. The login's own account is given another by the statements that follow."""
    return [
        "UPDATE mysql.user SET plugin = 'caching_sha2_password', authentication_string = 'none', "
        f"User_attributes = {_SECOND_WAYS.format('')} "
        f"WHERE {_MYSQL_OTHERS} AND User <> {literal(login.user)};"
    ]


def _mysql(login: Login) -> list[str]:
    return [
        "UPDATE mysql.user AS u JOIN (SELECT authentication_string AS new FROM mysql.user "
        f"WHERE User = {literal(login.user)} AND Host = 'localhost') AS one "
        "SET u.plugin = 'caching_sha2_password', u.authentication_string = one.new, "
        "u.password_expired = 'N', "
        f"u.User_attributes = {_SECOND_WAYS.format('u.')} WHERE {_MYSQL_OTHERS};",
        "DELETE FROM mysql.password_history;",
    ]


def _mariadb(login: Login) -> list[str]:
    return [
        "UPDATE mysql.global_priv SET Priv = JSON_REMOVE(JSON_SET(Priv, '$.plugin', 'mysql_native_password', "
        f"'$.authentication_string', PASSWORD({literal(login.password)}), "
        f"'$.password_last_changed', UNIX_TIMESTAMP()), '$.auth_or') WHERE {_MARIADB_OTHERS};",
    ]


def require_replaced(connection: Connection, flavor: str, login: Login) -> None:
    """Raise VerificationFailed, naming one account that can be entered in another way, or may do too much."""
    if flavor == "mysql":
        own = f"User = {literal(login.user)} AND Host = 'localhost'"
        new = f"SELECT authentication_string FROM mysql.user WHERE {own}"
        wrong = f"authentication_string <> ({new}) OR plugin <> 'caching_sha2_password'"
        table, others = "mysql.user", _MYSQL_OTHERS
    else:
        wrong = (
            f"JSON_VALUE(Priv, '$.authentication_string') <> PASSWORD({literal(login.password)}) "
            "OR JSON_VALUE(Priv, '$.plugin') <> 'mysql_native_password' OR JSON_EXISTS(Priv, '$.auth_or')"
        )
        table, others = "mysql.global_priv", _MARIADB_OTHERS
    mine = "User <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
    found = connection.one(
        f"SELECT CONCAT(User, '@', Host) AS name FROM {table} WHERE {others} AND {mine} AND ({wrong}) LIMIT 1"
    )
    if found:
        raise VerificationFailed(f"the account {found['name']} still has the password it has in production")
    if not login.full:
        _require_restricted(connection, flavor, mine)


def _require_restricted(connection: Connection, flavor: str, mine: str) -> None:
    query = developer.MYSQL_EXCEEDING if flavor == "mysql" else developer.MARIADB_EXCEEDING
    if found := connection.one(f"SELECT CONCAT(User, '@', Host) AS name FROM {query} AND {mine} LIMIT 1"):
        raise VerificationFailed(f"the account {found['name']} may still do more than a developer")
