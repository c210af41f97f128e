"""The command line of a server on a clone: the original's settings, made safe. Pure.

Safe means: no replication starts by itself, no events run, no network unless asked for, no persisted
settings of production's, an identity of its own, no log is purged.

The server keeps its own binlog on, with the original's base name, from the very first start: InnoDB's last
commits before a snapshot are only prepared in its redo log, and recovery asks the binlog whether to commit
them. Started once without, those commits are rolled back (mysqld: "Crash recovery", XA with the binlog).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zbackup.engines.mysql.server import plugins, settings
from zbackup.model.recovery import NO_LIMITS, Limits

# Recorded variables that are given on unchanged when they have a value.
KEPT = (
    "datadir",
    "innodb_page_size",
    "innodb_data_home_dir",
    "innodb_data_file_path",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_undo_tablespaces",
    "innodb_checksum_algorithm",
    "innodb_default_row_format",
    "innodb_strict_mode",
    "innodb_doublewrite_dir",
    "lower_case_table_names",
    # Without it REVOKE takes nothing from a grant for all schemas, and is refused.
    "partial_revokes",
    "character_set_server",
    "collation_server",
    "sql_mode",
    # Without UTF8_IS_UTF8MB3, which is MariaDB's default, utf8 in a statement of the log means utf8mb4.
    "old_mode",
    "default_storage_engine",
    "explicit_defaults_for_timestamp",
    "binlog_format",
    "binlog_checksum",
    "gtid_mode",
    "enforce_gtid_consistency",
    "gtid_domain_id",
    "innodb_file_per_table",
    "innodb_flush_method",
    "innodb_use_native_aio",
    "innodb_ft_min_token_size",
    "innodb_ft_max_token_size",
    "ft_min_word_len",
    "ft_max_word_len",
    "ngram_token_size",
    "innodb_encrypt_tables",
    "innodb_encrypt_log",
    "innodb_default_encryption_key_id",
    "aria_encrypt_tables",
    "default_table_encryption",
    "log_bin_trust_function_creators",
    "aria_log_dir_path",
    # With another one MariaDB writes all pages to its files and makes the log again before it lets anybody in
    # (MariaDB manual, innodb_log_file_size).
    "innodb_log_file_size",
    "innodb_autoinc_lock_mode",
    "innodb_native_foreign_keys",
    "innodb_rollback_on_timeout",
    "ft_query_expansion_limit",
)
# Where the server's own files are: only taken over while they exist on this host.
INSTALLED = ("basedir", "plugin_dir", "character_sets_dir", "lc_messages_dir")
MAY_BE_EMPTY = ("sql_mode", "old_mode")
BUFFERED = "fsync"
"""In place of direct I/O. ZFS can refuse that (a compressed page is no whole block), and InnoDB then tries
again without end; and a clone need not have the settings of ZFS with which the original avoids it."""
# Of MySQL, these are deprecated, and innodb_redo_log_capacity may be changed while it runs.
NOT_FOR_MYSQL = ("innodb_undo_tablespaces", "innodb_log_file_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPaths:
    """The directories of a server on a clone for what is its own: `home` on the clone, `run` for the
    socket."""

    home: Path
    run: Path

    @property
    def socket(self) -> Path:
        return self.run / "mysqld.sock"

    @property
    def output(self) -> Path:
        return self.home / "server.log"

    @property
    def relay(self) -> Path:
        return self.home / "relay"

    @property
    def scratch(self) -> Path:
        return self.home / "tmp"

    @property
    def keyring(self) -> Path:
        return self.home / "keyring"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The purpose of a server on a clone. `port` 0 is no network; `init` is run at every start.

    `events_off`: nobody can turn events on, and it is kept small.
    `restricted`: its accounts are developers' (see developer). `outside` are directories other than its own
    in which it may make tables.
    `follows`: what it was told to replicate it continues at every start, and `calls_out`: it will be told.
    `stays`: what replays is its users' server afterwards (see clone.after_replay).
    """

    server_id: int
    memory: int
    workers: int
    port: int = 0
    read_only: bool = False
    init: Path | None = None
    replaying: bool = False
    stays: bool = False
    limits: Limits = NO_LIMITS
    events_off: bool = False
    restricted: bool = False
    outside: tuple[str, ...] = ()
    follows: bool = False
    calls_out: bool = False


def arguments(flavor: str, recorded: Mapping[str, str], own: OwnPaths, shape: Shape) -> list[str]:
    """All options, without the program. `recorded` is Record.server."""
    options = {name: recorded[name] for name in KEPT if _worth_keeping(flavor, recorded, name)}
    if options.get("innodb_flush_method", "").startswith("O_DIRECT"):
        options["innodb_flush_method"] = BUFFERED
    options |= {n: recorded[n] for n in INSTALLED if recorded.get(n) and _is_there(Path(recorded[n]))}
    options |= {
        "socket": str(own.socket),
        "pid-file": str(own.run / "mysqld.pid"),
        "tmpdir": str(own.scratch),
        "relay-log": str(own.relay / "relay"),
        "relay-log-index": str(own.relay / "relay.index"),
        "server-id": str(shape.server_id),
        "innodb-buffer-pool-size": str(shape.memory),
        "event-scheduler": "DISABLED" if shape.events_off else "OFF",
        "max-allowed-packet": "1073741824",
        # Where the applier keeps the files of LOAD DATA; nobody's SELECT INTO OUTFILE may reach further.
        "secure-file-priv": str(own.scratch),
    }
    # What a statement gives can depend on these, and the log does not carry them (MySQL manual, "Replication
    # and Variables"). A server of another release may have one no more: it is "loose".
    options |= {f"loose-{n}": v for n in sorted(recorded) if (v := settings.option(n, recorded[n]))}
    if recorded.get("time_zone", "SYSTEM") != "SYSTEM":
        options["default-time-zone"] = recorded["time_zone"]
    options |= _network(shape)
    options |= _mysql(shape) if flavor == "mysql" else _mariadb(shape)
    if shape.init:
        options["init-file"] = str(shape.init)
    if shape.replaying:
        options |= _replaying(recorded)
    if shape.restricted:
        # Without it a trigger or a function takes SUPER as long as there is a binlog.
        options["log_bin_trust_function_creators"] = "ON"
        if flavor == "mysql":
            options["partial_revokes"] = "ON"
    searched = (*searched_directories(flavor, recorded), *shape.outside)
    if searched and flavor == "mysql":
        # Crash recovery asks for files of tables and tablespaces that lie elsewhere before it can read where.
        options["innodb-directories"] = ";".join(dict.fromkeys(searched))
    given = (f"--{name.replace('_', '-')}={value}" for name, value in options.items())
    return ["--no-defaults", *plugins.options(recorded), *_log(recorded), *given]


def searched_directories(flavor: str, recorded: Mapping[str, str]) -> tuple[str, ...]:
    """Where the original looks for files of tables, and can make some, beside its data directory."""
    return tuple(filter(None, recorded.get("innodb_directories", "").split(";"))) if flavor == "mysql" else ()


def _is_there(directory: Path) -> bool:
    try:
        return directory.is_dir()
    except OSError:
        # What is above it is closed to this process: the program has directories of its own.
        return False


def _log(recorded: Mapping[str, str]) -> tuple[str, ...]:
    """One that kept no log asked none at its crash recovery either."""
    if not recorded.get("log_bin_basename"):
        return ("--skip-log-bin",)
    return f"--log-bin={recorded['log_bin_basename']}", f"--log-bin-index={recorded['log_bin_index']}"


def _replaying(recorded: Mapping[str, str]) -> dict[str, str]:
    # Nobody's data is at stake while replaying: killed in the middle, the recovery starts again. What is said
    # here is taken back by after_replay, where the server stays.
    options = {"innodb-flush-log-at-trx-commit": "0", "sync-binlog": "0"}
    # What the original allowed is in the log and has to be allowed again, by whichever session it was:
    # the log does not carry these two, and the applier goes by the server's.
    options |= {"innodb_strict_mode": "OFF", "log_bin_trust_function_creators": "ON"}
    # It may have been changed since the base: these take transactions with GTIDs and without.
    if mode := recorded.get("gtid_mode"):
        options["gtid_mode"] = "ON_PERMISSIVE" if mode.startswith("ON") else "OFF_PERMISSIVE"
    return options


def _worth_keeping(flavor: str, recorded: Mapping[str, str], name: str) -> bool:
    if flavor == "mysql" and name in NOT_FOR_MYSQL:
        return False
    return bool(recorded.get(name)) or (name in recorded and name in MAY_BE_EMPTY)


def _network(shape: Shape) -> dict[str, str]:
    if shape.port == 0:
        return {"skip-networking": "ON"}
    return {"port": str(shape.port), "bind-address": "127.0.0.1"}


def _mysql(shape: Shape) -> dict[str, str]:
    return {
        "mysqlx": "OFF",
        "persisted-globals-load": "OFF",
        "skip-replica-start": "OFF" if shape.follows else "ON",
        "log-replica-updates": "OFF",
        "relay-log-purge": "ON" if shape.follows else "OFF",
        "relay-log-recovery": "ON" if shape.follows else "OFF",
        "replica-parallel-workers": str(shape.workers),
        "replica-max-allowed-packet": "1073741824",
        "binlog-expire-logs-seconds": "0",
        "super-read-only": "ON" if shape.read_only else "OFF",
        # Statistics take more memory and a longer start than all else of a small server.
        # How replication fares can be asked without them.
        **(
            {"performance-schema": "OFF"} if shape.events_off or (shape.replaying and not shape.stays) else {}
        ),
    }


def _mariadb(shape: Shape) -> dict[str, str]:
    return {
        "skip-slave-start": "OFF" if shape.follows else "ON",
        "log-slave-updates": "OFF",
        "slave-parallel-threads": str(shape.workers),
        "slave-parallel-mode": "optimistic",
        "slave-max-allowed-packet": "1073741824",
        "expire-logs-days": "0",
        "read-only": "ON" if shape.read_only else "OFF",
        # Administrators may write to a server that is only read-only (MariaDB manual, read_only).
        **({"transaction-read-only": "ON"} if shape.read_only else {}),
    }
