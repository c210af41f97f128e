"""Tell what a server's settings mean for its backups: reasons why none could be recovered from, reasons
for care, and which lock to take. Pure.
"""

from collections.abc import Mapping, Sequence

from zbackup.engines.mysql.server.status import Channel, Dialect, LogStatus
from zbackup.model.errors import Refused
from zbackup.model.record import LockKind
from zbackup.model.server import LockChoice, ServerFacts

LONG_S = 60.0
"""A timeout from which on commits that wait for a replica are an outage, and no hiccup."""
_NAMES = ("rpl_semi_sync_source", "rpl_semi_sync_master")


def semi_sync_warnings(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Warn where commits wait, or may wait for long, for replicas that are not there.

    `variables` are those of the server, with its status (Rpl_semi_sync_*).
    """
    name = next((name for name in _NAMES if variables.get(f"{name}_enabled") in ("ON", "1")), "")
    status = {key.lower(): value for key, value in variables.items() if key.startswith("Rpl_semi_sync_")}
    if not name or status.get(f"{name}_status", "ON") == "OFF":
        return ()
    wanted = int(variables.get(f"{name}_wait_for_replica_count") or variables.get(_old_count(name)) or 1)
    there = int(status.get(f"{name}_clients") or 0)
    timeout_s = int(variables.get(f"{name}_timeout") or 0) / 1000
    setting = f"semi-sync replication: {there} of {wanted} replicas are connected, timeout {timeout_s:.15g} s"
    if there < wanted:
        return (
            f"{setting} ({name}_timeout): each commit waits that long, and so does a backup's lock, "
            f"which gives up after lock.wait: start a replica, or SET GLOBAL {name}_enabled = OFF",
        )
    if timeout_s > LONG_S:
        return (
            f"{setting} ({name}_timeout): when a replica is lost, commits wait that long, and a lock that "
            "stops commits is not granted during that time",
        )
    return ()


def _old_count(name: str) -> str:
    return f"{name}_wait_for_slave_count"


# Commit times in microseconds came with 8.0, the statements and options of replay with 8.0.26.
OLDEST_MYSQL = (8, 0, 26)
OLDEST_MARIADB = (10, 4)

# Tried under BACKUP STAGE BLOCK_COMMIT and FTWRL with innodb_flush_log_at_trx_commit = 0: FLUSH ENGINE LOGS
# writes the redo log on 11.8 and on MySQL 9.7, and does nothing on 10.11, where a snapshot's binlog then
# named thousands of commits that its data did not hold.
MARIADB_FLUSHES_REDO = (11, 8)
MOST_NAMED = 5

BINLOG_OFF = "the binlog is off: set log_bin"
BINLOG_ENCRYPTED = "the binlog is encrypted"
UNREADABLE_LOG = (BINLOG_OFF, BINLOG_ENCRYPTED)
"""Beginnings of the blockers with which a backup holds no log that can be read, and is opened all the
same."""

OF_LOG_ALONE = (
    *UNREADABLE_LOG,
    "this replica does not log what it applies",
    "the binlog leaves databases out",
    "the binlog is kept inside InnoDB",
)
"""Beginnings of the blockers despite which a backup can be opened as it is."""


def blockers(
    dialect: Dialect, variables: Mapping[str, str], log: LogStatus, channels: Sequence[Channel]
) -> tuple[str, ...]:
    """Return why no moment could be recovered from a snapshot of this server; () when nothing is in the
    way."""
    on = {name for name, value in variables.items() if value.upper() in ("ON", "1")}
    updates_logged = bool(on & {"log_replica_updates", "log_slave_updates"})
    oldest = OLDEST_MYSQL if dialect.flavor == "mysql" else OLDEST_MARIADB
    encrypted = on & {"binlog_encryption", "encrypt_binlog"}
    reasons = {
        f"{dialect.flavor} {'.'.join(map(str, dialect.version))} is older than "
        f"{'.'.join(map(str, oldest))}, the oldest that is supported": dialect.version < oldest,
        BINLOG_OFF: log.position is None,
        "this replica does not log what it applies: set log_replica_updates = ON (log_slave_updates on "
        "MariaDB and older MySQL)": bool(channels) and not updates_logged,
        f"the binlog leaves databases out ({', '.join(log.filters)})": bool(log.filters),
        f"{BINLOG_ENCRYPTED} ({', '.join(encrypted)}): zbackup cannot read it, unless the server sends it: "
        "set plain_log": bool(encrypted),
        "the binlog is kept inside InnoDB (binlog_storage_engine): zbackup cannot read it": bool(
            variables.get("binlog_storage_engine")
        ),
        "InnoDB's redo log is disabled: ALTER INSTANCE ENABLE INNODB REDO_LOG": variables.get(
            "Innodb_redo_log_enabled", "ON"
        )
        == "OFF",
        "innodb_flush_log_at_trx_commit = 0: the binlog of a snapshot would name commits that its data does "
        "not hold, on MariaDB before 11.8 under any lock: set it to 1 or 2": variables.get(
            "innodb_flush_log_at_trx_commit"
        )
        == "0"
        and dialect.flavor == "mariadb"
        and not dialect.is_mariadb(*MARIADB_FLUSHES_REDO),
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def warnings(
    variables: Mapping[str, str], channels: Sequence[Channel], engines: Mapping[str, int], encryption: str
) -> tuple[str, ...]:
    """What the operator should know. `engines` counts user tables by storage engine."""
    flush, until = variables.get("innodb_flush_log_at_trx_commit"), [c for c in channels if c.until]
    reasons = {
        "innodb_flush_log_at_trx_commit = 0: only a lock that stops commits gives an exact snapshot, and a "
        "crash of the server loses commits": flush == "0",
        "sync_binlog is not 1: harmless for snapshots, but a power failure can lose the end of the "
        "binlog": variables.get("sync_binlog") != "1",
        "binlog_format = STATEMENT: a replay repeats statements, and those that are not deterministic can "
        "give other rows": variables.get("binlog_format") == "STATEMENT",
        "sql_mode NO_BACKSLASH_ESCAPES: a LOAD DATA that is logged as a statement is logged in words that no "
        "server takes under that mode, so that no restore leads across "
        "one": "NO_BACKSLASH_ESCAPES" in variables.get("sql_mode", ""),
        f"{engines.get('MEMORY', 0)} MEMORY tables: no backup holds their rows": "MEMORY" in engines,
        f"encrypted: {encryption}: a recovered server needs the same keys": bool(encryption),
        "the applier was started with UNTIL: stopping it for a lock would lose that": bool(until),
        f"{len(channels)} replication channels write one log: where one lags behind another, what it brings "
        "later is left out of a restore to an earlier moment": len(channels) > 1,
        "the applier commits in another order than the source did (replica_preserve_commit_order = OFF): "
        "around a moment, a restore can miss what was committed just before it": bool(channels)
        and _reorders(variables),
        "a member of Galera: only what this node applied is in its snapshots; what others committed before a "
        "moment can stand behind it in this node's log": variables.get("wsrep_on") == "ON",
        "a member of Group Replication: only what it applied is in its snapshots; what others committed "
        "before a moment can stand behind it in its log": bool(variables.get("group_replication_group_name")),
    }
    return (*(reason for reason, holds in reasons.items() if holds), *semi_sync_warnings(variables))


def _reorders(variables: Mapping[str, str]) -> bool:
    """MySQL's applier with several workers; MariaDB's keeps the order within a replication domain."""
    new, old = "replica", "slave"
    workers = variables.get(f"{new}_parallel_workers") or variables.get(f"{old}_parallel_workers") or "0"
    keeps = variables.get(f"{new}_preserve_commit_order") or variables.get(f"{old}_preserve_commit_order")
    return int(workers) > 1 and keeps == "OFF"


def choose(wanted: LockKind | str, facts: ServerFacts) -> LockChoice:
    """The lock that is `wanted`, or for "auto" the gentlest that is exact, with the reason.

    Raise Refused when the server has no such lock, or it would not give a consistent snapshot.
    """
    if wanted == "auto":
        return _gentlest(facts)
    dialect = Dialect.of(facts.version)
    match wanted:
        case "ftwrl":
            return LockChoice("ftwrl", "as configured")
        case "backup-stage":
            if not dialect.is_mariadb(10, 4):
                raise Refused(
                    f"lock backup-stage needs MariaDB 10.4 or later, not {_name(facts)}: "
                    "use ftwrl, backup-lock or auto"
                )
            return LockChoice("backup-stage", "as configured")
        case "backup-lock":
            if problem := _no_backup_lock(dialect, facts):
                raise Refused(f"lock backup-lock: {problem}: use ftwrl or auto")
            return LockChoice("backup-lock", "as configured")
        case "none":
            if problem := _needs_stillness(facts):
                raise Refused(f"lock none: {problem}: use {_gentlest(facts).kind} or auto")
            return LockChoice("none", "as configured")
    raise Refused(f"there is no lock {wanted!r}")


def _gentlest(facts: ServerFacts) -> LockChoice:
    dialect = Dialect.of(facts.version)
    if dialect.is_mariadb(10, 4):
        return LockChoice("backup-stage", "MariaDB: only commits and DDL wait while it is held")
    if dialect.flavor == "mariadb":
        return LockChoice("ftwrl", "MariaDB before 10.4 has no gentler lock")
    if problem := _no_backup_lock(dialect, facts):
        return LockChoice("ftwrl", problem)
    return LockChoice("backup-lock", "every table is transactional, so only DDL waits while it is held")


def _no_backup_lock(dialect: Dialect, facts: ServerFacts) -> str:
    if not dialect.is_mysql(8, 0):
        return f"{_name(facts)} has no backup lock, which came with MySQL 8.0"
    return _needs_stillness(facts)


def _needs_stillness(facts: ServerFacts) -> str:
    """Return why a snapshot of the running server would not recover to one moment; "" when it would.

    InnoDB's crash recovery makes it consistent, provided that each commit is in the redo log before it is
    in the binlog. That is so unless innodb_flush_log_at_trx_commit is 0: then the redo log is written
    once a second, and the binlog of a snapshot can name commits that its redo log does not hold.
    """
    if facts.non_transactional_count:
        more = facts.non_transactional_count - len(facts.non_transactional)
        named = ", ".join(facts.non_transactional) + (f" and {more} more" if more > 0 else "")
        return f"not every table is transactional: {named}"
    if facts.server.get("innodb_flush_log_at_trx_commit") == "0":
        return "innodb_flush_log_at_trx_commit is 0, so commits can be in the binlog but not in the redo log"
    return ""


def _name(facts: ServerFacts) -> str:
    return f"{'MariaDB' if facts.flavor == 'mariadb' else 'MySQL'} {facts.version}"
