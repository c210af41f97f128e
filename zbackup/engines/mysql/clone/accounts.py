"""Accounts on a clone's server: zbackup's own while it works there, and new passwords for all others.

Both are made by an init file, which a server runs before it lets anybody in (MySQL reference manual,
init_file), so that there is no moment in which production's passwords would do.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.cloning import Login
from zbackup.model.errors import VerificationFailed

ON_SCHEMAS = (
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
    "CREATE VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "EVENT",
    "TRIGGER",
)
"""In every schema but `mysql`."""

# MySQL, from 8.0.26 on

_EVERYWHERE = (
    "SELECT",
    "SHOW DATABASES",
    "PROCESS",
    "EXECUTE",
    "SHOW VIEW",
    "REPLICATION CLIENT",
    "CREATE USER",
    "CREATE ROLE",
    "DROP ROLE",
)
HARMLESS = (
    "APPLICATION_PASSWORD_ADMIN",
    "FLUSH_OPTIMIZER_COSTS",
    "FLUSH_STATUS",
    "FLUSH_TABLES",
    "FLUSH_USER_RESOURCES",
    "SESSION_VARIABLES_ADMIN",
    "SHOW_ROUTINE",
    "XA_RECOVER_ADMIN",
)
"""Dynamic privileges that an account of a clone may have."""

TAKEN = ("File", "Super", "Shutdown", "Reload", "Repl_slave", "Create_tablespace")
"""Static privileges of MySQL's that none has, by their columns."""

_WRITES = (
    *("Insert", "Update", "Delete", "Create", "Drop", "References", "Index", "Alter", "Create_tmp_table"),
    *("Lock_tables", "Create_view", "Create_routine", "Alter_routine", "Event", "Trigger"),
)

MYSQL_OWN = "User NOT IN ('mysql.sys', 'mysql.session', 'mysql.infoschema')"


def mysql_login(account: str) -> list[str]:
    """Privileges of the developers' account, which exists.

    A privilege that is revoked for one schema stays so for whoever it is granted to (MySQL reference manual,
    "Privilege Restriction Using Partial Revokes").
    """
    wanted = ", ".join((*_EVERYWHERE, *ON_SCHEMAS, *HARMLESS))
    return [
        "SET GLOBAL partial_revokes = ON;",
        f"GRANT {wanted} ON *.* TO {account} WITH GRANT OPTION;",
        f"REVOKE {', '.join(ON_SCHEMAS)} ON mysql.* FROM {account};",
    ]


def mysql_others(user: str, _: str) -> list[str]:
    """The same for all others, roles among them."""
    others = f"{MYSQL_OWN} AND User <> {literal(user)}"
    taken = ", ".join(f"{name}_priv = 'N'" for name in TAKEN)
    writes = " OR ".join(f"{name}_priv = 'Y'" for name in _WRITES)
    kept = ", ".join(f"'{name}'" for name in HARMLESS)
    words = ", ".join(f"'{name}'" for name in ON_SCHEMAS)
    inner = f"JSON_OBJECT('Database', 'mysql', 'Privileges', JSON_ARRAY({words}))"
    restrictions = f"JSON_OBJECT('Restrictions', JSON_ARRAY({inner}))"
    return [
        *_without_patterns(),
        f"UPDATE mysql.user SET {taken} WHERE {others};",
        f"UPDATE mysql.user SET User_attributes = JSON_MERGE_PRESERVE({restrictions}, "
        f"COALESCE(User_attributes, '{{}}')) WHERE {others} AND ({writes});",
        f"DELETE FROM mysql.global_grants WHERE {others} AND PRIV NOT IN ({kept});",
        *(f"DELETE FROM mysql.{table} WHERE {others} AND Db = 'mysql';" for table in _OF_SCHEMAS),
        "DELETE FROM mysql.proxies_priv;",
    ]


_OF_SCHEMAS = ("db", "tables_priv", "columns_priv")

MYSQL_EXCEEDING = (
    "(SELECT User, Host FROM mysql.user WHERE 'Y' IN ({columns}) UNION "
    "SELECT USER, HOST FROM mysql.global_grants WHERE PRIV NOT IN ({kept})) AS found WHERE {own}"
).format(
    columns=", ".join(f"{name}_priv" for name in TAKEN),
    kept=", ".join(f"'{name}'" for name in HARMLESS),
    own=MYSQL_OWN,
)
"""Accounts that have more: a table and a condition."""


def _without_patterns() -> list[str]:
    """Make grants for each schema of grants for a pattern, which partial revokes take for a name."""
    return _rows(
        "SELECT one.*, SCHEMA_NAME AS new_db, one.Host AS new_host, one.User AS new_user "
        "FROM mysql.db AS one JOIN information_schema.SCHEMATA ON SCHEMA_NAME LIKE one.Db "
        "WHERE one.Db REGEXP '[_%\\\\\\\\]'"
    )


def _rows(query: str, *also: str) -> list[str]:
    """Statements that add rows to mysql.db that are like others: with new_db, new_host and new_user.

    The table's columns are not the same in all versions.
    """
    change = ", ".join(("Db = new_db", "Host = new_host", "User = new_user", *also))
    return [
        f"CREATE TEMPORARY TABLE mysql.zbackup_rows AS {query};",
        f"UPDATE mysql.zbackup_rows SET {change};",
        "ALTER TABLE mysql.zbackup_rows DROP COLUMN new_db, DROP COLUMN new_host, DROP COLUMN new_user;",
        "INSERT IGNORE INTO mysql.db SELECT * FROM mysql.zbackup_rows;",
        "DROP TEMPORARY TABLE mysql.zbackup_rows;",
    ]


# MariaDB, from 10.4 on

_NAMES = (
    *("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "RELOAD", "SHUTDOWN", "PROCESS", "FILE"),
    *("GRANT", "REFERENCES", "INDEX", "ALTER", "SHOW_DB", "SUPER", "CREATE_TMP", "LOCK_TABLES", "EXECUTE"),
    *("REPL_SLAVE", "BINLOG_MONITOR", "CREATE_VIEW", "SHOW_VIEW", "CREATE_ROUTINE", "ALTER_ROUTINE"),
    *("CREATE_USER", "EVENT", "TRIGGER", "CREATE_TABLESPACE", "DELETE_HISTORY"),
)
_BITS = {name: 1 << number for number, name in enumerate(_NAMES)} | {"SLAVE_MONITOR": 1 << 38}
"""Bits of `access` in mysql.global_priv. Of those that came after 10.4 all but one are left out: since 10.5.8
SLAVE MONITOR is what was in REPLICATION CLIENT before (MariaDB documentation, "GRANT")."""


def _bits(names: Sequence[str]) -> int:
    return sum(_BITS[name] for name in names)


LEFT = _bits(
    [
        "SELECT",
        "RELOAD",
        "PROCESS",
        "SHOW_DB",
        "CREATE_TMP",
        "LOCK_TABLES",
        "EXECUTE",
        "BINLOG_MONITOR",
        "SHOW_VIEW",
        "SLAVE_MONITOR",
    ]
)
"""All that an account of a clone may have globally. What a row of 10.4's time lacks it does not get."""

_WRITING = _bits(
    [
        "INSERT",
        "UPDATE",
        "DELETE",
        "CREATE",
        "DROP",
        "REFERENCES",
        "INDEX",
        "ALTER",
        "CREATE_VIEW",
        "CREATE_ROUTINE",
        "ALTER_ROUTINE",
        "EVENT",
        "TRIGGER",
        "DELETE_HISTORY",
    ]
)

ACCESS = "CAST(JSON_VALUE(Priv, '$.access') AS UNSIGNED)"
MARIADB_OWN = "User <> 'mariadb.sys'"
_SERVERS = "'mysql', 'information_schema', 'performance_schema', 'sys'"
_ESCAPED = "REPLACE(REPLACE(REPLACE(SCHEMA_NAME, '\\\\', '\\\\\\\\'), '_', '\\\\_'), '%', '\\\\%')"


def mariadb_login(account: str, user: str, host: str) -> list[str]:
    """Privileges of the developers' account, which exists, but for CREATE USER.

    Of grants for schemas the most exact one counts alone: the one for `mysql` hides the one for all. That one
    must come without GRANT OPTION, which would do for `mysq_` as well.
    """
    return [
        f"GRANT PROCESS, RELOAD, SHOW DATABASES, REPLICATION CLIENT ON *.* TO {account};",
        f"/*M!100508 GRANT SLAVE MONITOR ON *.* TO {account} */;",
        f"GRANT ALL ON `%`.* TO {account};",
        f"GRANT SELECT ON mysql.* TO {account};",
        *_rows(
            f"SELECT one.*, {_ESCAPED} AS new_db, one.Host AS new_host, one.User AS new_user "
            f"FROM mysql.db AS one JOIN information_schema.SCHEMATA ON SCHEMA_NAME NOT IN ({_SERVERS}) "
            f"WHERE one.Db = '%' AND one.User = {literal(user)} AND one.Host = {literal(host)}",
            "Grant_priv = 'Y'",
        ),
    ]


def mariadb_others(user: str, host: str) -> list[str]:
    """The same for all others, roles too: who could write everywhere can in all schemas but `mysql`."""
    others = f"{MARIADB_OWN} AND User <> {literal(user)}"
    like_ours = f"one.User = {literal(user)} AND one.Host = {literal(host)}"
    new = "one.Db AS new_db, other.Host AS new_host, other.User AS new_user"
    row = f"SELECT one.*, {new} FROM mysql.db AS one JOIN"
    return [
        *(f"DELETE FROM mysql.{table} WHERE {others} AND Db = 'mysql';" for table in _OF_SCHEMAS),
        *_rows(
            f"{row} (SELECT DISTINCT Host, User FROM mysql.db WHERE {others} AND 'mysql' LIKE Db) AS other "
            f"WHERE {like_ours} AND one.Db = 'mysql'"
        ),
        f"UPDATE mysql.db SET Grant_priv = 'N' WHERE {others} AND 'mysql' LIKE Db;",
        *_rows(
            f"{row} (SELECT Host, User FROM mysql.global_priv WHERE {others} AND {ACCESS} & {_WRITING}) "
            f"AS other WHERE {like_ours} AND one.Db IN ('mysql', '%')"
        ),
        f"UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.access', {ACCESS} & {LEFT}) WHERE {others};",
        "DELETE FROM mysql.proxies_priv;",
    ]


MARIADB_EXCEEDING = f"mysql.global_priv WHERE {MARIADB_OWN} AND ({ACCESS} & ~{LEFT}) <> 0"
"""Accounts that have more: a table and a condition."""


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
        others = mysql_others if flavor == "mysql" else mariadb_others
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
        return [*lines, *mysql_login(account)]
    return [*lines, *mariadb_login(account, login.user, host)]


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
    query = MYSQL_EXCEEDING if flavor == "mysql" else MARIADB_EXCEEDING
    if found := connection.one(f"SELECT CONCAT(User, '@', Host) AS name FROM {query} AND {mine} LIMIT 1"):
        raise VerificationFailed(f"the account {found['name']} may still do more than a developer")
