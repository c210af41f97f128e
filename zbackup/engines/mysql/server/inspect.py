"""Look at a running server: everything a job needs to know of it. Changes nothing."""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from zbackup.engines.links_and_mounts import links_and_mounts
from zbackup.engines.mysql.server import assess, system_zone
from zbackup.engines.mysql.server.connection import Connection, NamedRow, StatementFailed, whole_number
from zbackup.engines.mysql.server.keyring import component
from zbackup.engines.mysql.server.plugins import plugins
from zbackup.engines.mysql.server.server_facts import THREAD, recorded
from zbackup.engines.mysql.server.status import Dialect, channels, dialect, log_status, require_answering
from zbackup.model.server import DataPath, ServerFacts, Tuning

DAY_S = 86_400.0


def tuning(variables: Mapping[str, str], server: Dialect) -> Tuning:
    """Read SHOW GLOBAL VARIABLES."""
    seconds = _retention(variables)
    double_write = variables.get("innodb_doublewrite", "")
    return Tuning(
        log_retention_s=seconds,
        retention_setting="binlog_expire_logs_seconds"
        if "binlog_expire_logs_seconds" in variables
        else "expire_logs_days",
        page_size=int(variables.get("innodb_page_size", "0")) or None,
        data_directory=variables.get("innodb_data_home_dir") or variables["datadir"],
        double_write=double_write.upper() not in ("OFF", "0", "") if double_write else None,
        keep_setting="SET PERSIST" if server.is_mysql(8, 0) else "SET GLOBAL",
    )


def _retention(variables: Mapping[str, str]) -> float:
    if variables.get("binlog_expire_logs_auto_purge") == "OFF":
        return math.inf
    by_seconds = float(variables.get("binlog_expire_logs_seconds", "0"))
    by_days = float(variables.get("expire_logs_days", "0")) * DAY_S
    return min((limit for limit in (by_seconds, by_days) if limit > 0), default=math.inf)


# variable -> what lives there. Unset or empty means the data directory, which is listed anyway.
DIRECTORIES = {
    "innodb_data_home_dir": "InnoDB system tablespace",
    "innodb_log_group_home_dir": "redo log",
    "innodb_undo_directory": "undo log",
    "innodb_doublewrite_dir": "doublewrite files",
    "aria_log_dir_path": "Aria log",
    "rocksdb_datadir": "RocksDB data",
    "rocksdb_wal_dir": "RocksDB log",
}
BINLOG_FILES = {"log_bin_basename": "binlog", "log_bin_index": "binlog index"}
RELAY_FILES = {"relay_log_basename": "relay log", "relay_log_index": "relay log index"}

# datadir / database / table
DEPTH = 2


def data_paths(
    variables: Mapping[str, str], *, is_replica: bool, outside: Sequence[str]
) -> tuple[DataPath, ...]:
    """Each path once, as an absolute path without symbolic links, the data directory first.

    `outside` are files of tablespaces that are known to be outside the data directory.
    """
    found: dict[str, str] = {}
    for what, path in _named(variables, is_replica, outside):
        found.setdefault(os.path.realpath(path), what)
    return tuple(DataPath(what, path) for path, what in found.items())


def _named(
    variables: Mapping[str, str], is_replica: bool, outside: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    datadir = Path(variables["datadir"])
    yield "data", datadir
    for name, what in DIRECTORIES.items():
        if variables.get(name):
            yield what, datadir / variables[name]
    home = datadir / variables.get("innodb_data_home_dir", "")
    for file in system_files(variables.get("innodb_data_file_path", "")):
        yield "InnoDB system tablespace", (home / file).parent
    logs = BINLOG_FILES | (RELAY_FILES if is_replica else {})
    for name, what in logs.items():
        if variables.get(name):
            yield what, (datadir / variables[name]).parent
    for file in outside:
        yield "tablespace", datadir / file
    # MyISAM's DATA DIRECTORY makes links inside a database's directory; a database may be one, or a mount.
    yield from links_and_mounts(datadir, DEPTH)


def system_files(data_file_path: str) -> list[str]:
    """File names in innodb_data_file_path, such as "ibdata1:12M;/fast/ibdata2:50M:autoextend"."""
    return [part.partition(":")[0].strip() for part in data_file_path.split(";") if part.strip()]


LOG_LIMIT_S = 20.0
"""Seconds for questions that wait when a commit stands still in the middle of writing the log."""

SYSTEM_SCHEMAS = ("mysql", "information_schema", "performance_schema", "sys")

# Engines whose tables keep no rows on this disk that a snapshot could tear.
WITHOUT_DATA = ("BLACKHOLE", "FEDERATED", "MRG_MYISAM", "MRG_MyISAM", "MEMORY", "SPIDER", "SEQUENCE")


def inspect(connection: Connection) -> ServerFacts:
    """Raise DatabaseError, naming the privilege, when the account may not see what it has to."""
    server = dialect(connection)
    variables = _variables(connection)
    with connection.within(LOG_LIMIT_S):
        require_answering(connection)
        replication = channels(connection, server)
        log = log_status(connection, server)
    keyring = component(connection, server)
    encryption = _encryption(connection, server, variables, keyring)
    engines = _engines(connection)
    torn = {name: count for name, count in engines.items() if name not in _safe_engines(connection)}
    return ServerFacts(
        flavor=server.flavor,
        version=variables["version"],
        server_uuid=_identity(server, variables),
        role="replica" if replication else "primary",
        applier_running=any(c.applier_running for c in replication),
        data_paths=data_paths(variables, is_replica=bool(replication), outside=_outside(connection, server)),
        position=str(log.position or ""),
        gtid=log.gtid,
        server=recorded(variables, encryption, _changed(connection, server))
        | plugins(connection, server, variables)
        | _keyring_file(keyring)
        | _zone(connection)
        | {THREAD: str(connection.one("SELECT CONNECTION_ID() AS id")["id"])},
        non_transactional=_some_tables(connection, tuple(torn)),
        non_transactional_count=sum(torn.values()),
        blockers=assess.blockers(server, variables, log, replication),
        warnings=assess.warnings(variables, replication, engines, encryption),
        tuning=tuning(variables, server),
    )


def _variables(connection: Connection) -> dict[str, str]:
    asked = "SHOW GLOBAL VARIABLES"
    rows = connection.rows(asked) + connection.rows("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'")
    rows += connection.rows("SHOW GLOBAL STATUS LIKE 'Rpl\\_semi\\_sync\\_%'")
    return NamedRow(asked, {str(row["Variable_name"]): str(row["Value"]) for row in rows})


def _changed(connection: Connection, server: Dialect) -> frozenset[str] | None:
    """The names of the variables that were set by anybody; None where the server does not tell."""
    if server.flavor == "mariadb":
        query = (
            "SELECT VARIABLE_NAME AS name FROM information_schema.SYSTEM_VARIABLES "
            "WHERE GLOBAL_VALUE_ORIGIN NOT IN ('COMPILE-TIME', 'AUTO')"
        )
    else:
        query = (
            "SELECT VARIABLE_NAME AS name FROM performance_schema.variables_info "
            "WHERE VARIABLE_SOURCE <> 'COMPILED'"
        )
    try:
        # Its data directory at least is set: one that names none does not tell.
        return frozenset(str(row["name"]).lower() for row in connection.rows(query)) or None
    except StatementFailed:  # A server of before 8.0, or an account without that privilege.
        return None


def _identity(server: Dialect, variables: Mapping[str, str]) -> str:
    """What tells this server's log from another's of the same name.

    MariaDB has no UUID of its own: its server_uid is made of a network card's address and the port, so it
    changes with the hardware and says no more than this does.
    """
    if server.flavor == "mysql":
        return variables["server_uuid"]
    return f"server-id {variables['server_id']} at {variables['datadir']}"


def _engines(connection: Connection) -> dict[str, int]:
    """User tables counted by storage engine.

    information_schema shows only tables on which the account has some privilege, and says nothing of the
    others: that would pass for a server without MyISAM. A table of the server's own is the touchstone.
    """
    seen = connection.rows(
        "SELECT TABLE_NAME FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'time_zone_name'"
    )
    if not seen:
        raise connection.lacking("SHOW VIEW", "see which tables there are")
    return {
        str(row["engine"]): whole_number(row, "tables")
        for row in connection.rows(
            "SELECT ENGINE AS engine, COUNT(*) AS tables FROM information_schema.TABLES "
            f"WHERE TABLE_TYPE <> 'VIEW' AND ENGINE IS NOT NULL AND {_user_tables()} GROUP BY ENGINE"
        )
    }


def _user_tables() -> str:
    return f"TABLE_SCHEMA NOT IN ({', '.join(repr(s) for s in SYSTEM_SCHEMAS)})"


def _safe_engines(connection: Connection) -> set[str]:
    rows = connection.rows("SELECT ENGINE FROM information_schema.ENGINES WHERE TRANSACTIONS = 'YES'")
    return {str(row["ENGINE"]) for row in rows} | set(WITHOUT_DATA)


def _some_tables(connection: Connection, engines: tuple[str, ...]) -> tuple[str, ...]:
    if not engines:
        return ()
    rows = connection.rows(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, ENGINE AS e FROM information_schema.TABLES "
        f"WHERE {_user_tables()} AND ENGINE IN ({', '.join(['%s'] * len(engines))}) "
        f"ORDER BY 1, 2 LIMIT {assess.MOST_NAMED}",
        engines,
    )
    return tuple(f"{row['s']}.{row['t']} ({row['e']})" for row in rows)


def _outside(connection: Connection, server: Dialect) -> list[str]:
    """Files of InnoDB's that have absolute paths. Needs PROCESS, as reading the process list does later."""
    if server.flavor == "mysql":
        query = (
            "SELECT FILE_NAME AS file FROM information_schema.FILES "
            "WHERE FILE_NAME LIKE '/%' AND FILE_TYPE <> 'TEMPORARY'"
        )
    elif server.is_mariadb(10, 6):
        query = (
            "SELECT FILENAME AS file FROM information_schema.INNODB_SYS_TABLESPACES WHERE FILENAME LIKE '/%'"
        )
    else:
        query = "SELECT PATH AS file FROM information_schema.INNODB_SYS_DATAFILES WHERE PATH LIKE '/%'"
    return [str(row["file"]) for row in connection.rows(query)]


def _encryption(
    connection: Connection, server: Dialect, variables: Mapping[str, str], keyring: Mapping[str, str]
) -> str:
    """What is encrypted and which keyring has the keys; "" when nothing is."""
    names = (
        "innodb_redo_log_encrypt",
        "innodb_undo_log_encrypt",
        "innodb_encrypt_log",
        "aria_encrypt_tables",
    )
    parts = [name for name in names if variables.get(name) == "ON"]
    if count := _encrypted_tablespaces(connection, server):
        parts.append(f"{count} tablespaces")
    if not parts:
        return ""
    return f"{', '.join(parts)}; keys in {_keyring(connection, server, keyring) or 'an unknown keyring'}"


def _encrypted_tablespaces(connection: Connection, server: Dialect) -> int:
    if server.is_mysql(8, 0):
        query = "SELECT COUNT(*) AS n FROM information_schema.INNODB_TABLESPACES WHERE ENCRYPTION = 'Y'"
    elif server.flavor == "mariadb":
        query = (
            "SELECT COUNT(*) AS n FROM information_schema.INNODB_TABLESPACES_ENCRYPTION "
            "WHERE ENCRYPTION_SCHEME <> 0"
        )
    else:
        query = (
            "SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE CREATE_OPTIONS LIKE '%ENCRYPTION%Y%'"
        )
    return whole_number(connection.one(query), "n")


def _keyring(connection: Connection, server: Dialect, keyring: Mapping[str, str]) -> str:
    """The active keyring plugin or component, "" for none."""
    if server.flavor == "mariadb":
        where = "PLUGIN_TYPE = 'ENCRYPTION'"
    else:
        where = "PLUGIN_NAME LIKE 'keyring%' AND PLUGIN_STATUS = 'ACTIVE'"
    rows = connection.rows(f"SELECT PLUGIN_NAME AS name FROM information_schema.PLUGINS WHERE {where}")
    names = [str(row["name"]) for row in rows] or [keyring.get("Component_name", "")]
    return ", ".join(filter(None, names))


def _keyring_file(keyring: Mapping[str, str]) -> dict[str, str]:
    """Where MySQL's keyring component keeps the keys, without symbolic links; nothing without one."""
    file = keyring.get("Data_file", "")
    return {"keyring_file": str(Path(file).resolve())} if file else {}


def _zone(connection: Connection) -> dict[str, str]:
    """Ask the server for its own time zone, of which a daemon may not see the name."""
    years = system_zone.years_at(datetime.fromtimestamp(time.time(), UTC))
    said = ""
    with suppress(StatementFailed):  # A backup without it is better than none.
        said = system_zone.ask(connection, years)
    return {system_zone.OFFSETS: said} if said else {}


def global_privileges(connection: Connection, account: str) -> set[str]:
    """What `account` (user@host) was granted on *.*; an account may always see its own."""
    user, _, host = account.rpartition("@")
    rows = connection.rows(
        "SELECT PRIVILEGE_TYPE AS privilege FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = %s",
        (f"'{user}'@'{host}'",),
    )
    return {str(row["privilege"]).upper() for row in rows}


def roles_in_use(connection: Connection) -> bool:
    """Whether the account has privileges through roles, which are listed nowhere in one place."""
    role = connection.one("SELECT CURRENT_ROLE() AS role")["role"]
    return role not in (None, "", "NONE")
