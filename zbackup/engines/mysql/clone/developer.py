"""Rights of a dev clone's accounts: all that a developer needs, and nothing that reaches beyond the
clone.

No account of the clone has more: neither the developers' nor one of production's, as all have the same
password. So it does not matter that CREATE USER lets its holder change others. Left out is what reads and
writes files by path (FILE, the log files' variables, CLONE), replicates, loads libraries, stops the server,
or writes to the grant tables, by which all of that could be had. Pure: statements for an init file, one a
line.
"""

from collections.abc import Sequence

from zbackup.engines.mysql.sql.quoting import literal

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
