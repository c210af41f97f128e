"""Tell what a temporary server needs to know later to open a server's files: recorded with every snapshot."""

import contextlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from zbackup.config.zone import host_zone
from zbackup.engines.mysql.binlog.files import find_index
from zbackup.engines.mysql.server import settings
from zbackup.engines.mysql.server.system_zone import LOCALTIME
from zbackup.model.errors import Refused
from zbackup.model.moment import zone_named
from zbackup.model.record import Record
from zbackup.proc import secure_files

# Variables that a server on a clone is started with, or is compared by. Those a server does not have are
# left out.
VARIABLES = (
    "version",
    "version_comment",
    "datadir",
    "basedir",
    "plugin_dir",
    "character_sets_dir",
    "lc_messages_dir",
    "server_id",
    "innodb_page_size",
    "innodb_data_home_dir",
    "innodb_data_file_path",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_undo_tablespaces",
    "innodb_directories",
    "innodb_doublewrite_dir",
    "innodb_checksum_algorithm",
    "innodb_default_row_format",
    "innodb_strict_mode",
    "innodb_flush_log_at_trx_commit",
    "innodb_log_file_size",
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
    "group_concat_max_len",
    "div_precision_increment",
    "default_week_format",
    "max_heap_table_size",
    "lower_case_table_names",
    "partial_revokes",
    "log_bin_basename",
    "log_bin_index",
    "binlog_format",
    "binlog_checksum",
    "gtid_mode",
    "enforce_gtid_consistency",
    "gtid_strict_mode",
    "gtid_domain_id",
    "log_bin_trust_function_creators",
    "log_replica_updates",
    "log_slave_updates",
    "aria_log_dir_path",
    "character_set_server",
    "collation_server",
    "sql_mode",
    "old_mode",
    "default_storage_engine",
    "explicit_defaults_for_timestamp",
    "time_zone",
    "system_time_zone",
    "max_allowed_packet",
    "event_scheduler",
    "default_authentication_plugin",
    "performance_schema",
)

SERVERS = ("mysqld", "mariadbd")

PID_FILE = 64
"""Bytes of one, at most."""

# Looked for in the snapshot later, whose members are recorded without symbolic links.
FOUND_AGAIN = ("datadir", "log_bin_basename", "log_bin_index")

# Given to a recovered server, which sees its files where they are and not the host's links to them.
DIRECTORIES = (
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_doublewrite_dir",
    "aria_log_dir_path",
)


THREAD = "newest_thread"
"""In Record.server: the number of the newest session when the server was asked."""


def newest_thread(record: Record) -> int | None:
    """No session had a higher number when the backup was taken, but for some that had just begun; None where
    that is not known. A replica logs the numbers that sessions had at its source."""
    said = record.server.get(THREAD, "")
    return int(said) if said.isdecimal() and len(said) <= 20 and record.role != "replica" else None


def recorded(
    variables: Mapping[str, str], encryption: str, changed: frozenset[str] | None = None
) -> dict[str, str]:
    """The variables above, those `changed` from what the program has built in (None: not known) as far as a
    recovered server is given them, and facts of this machine: `uid` and `gid` own the files, `mysqld` is the
    program ("" if unknown), `TZ` its environment's time zone, `localtime` the zone that it has without one.

    `encryption` says what is encrypted and by which keyring, "" when nothing is.
    """
    facts = settings.changed(variables, frozenset(variables) if changed is None else changed)
    facts |= {name: variables[name] for name in VARIABLES if name in variables}
    # The index is shown as it was given: where that is relative, it is so to the data directory.
    datadir = Path(variables["datadir"])
    facts |= {name: str((datadir / facts[name]).resolve()) for name in FOUND_AGAIN if facts.get(name)}
    if facts.get("log_bin_index"):
        base = Path(facts["log_bin_basename"]).name
        with contextlib.suppress(OSError, Refused):
            facts["log_bin_index"] = str(find_index(Path(facts["log_bin_index"]), base))
    facts |= {name: _without_links(facts[name]) for name in DIRECTORIES if name in facts}
    if searched := facts.get("innodb_directories"):
        facts["innodb_directories"] = ";".join(map(_without_links, searched.split(";")))
    with contextlib.suppress(OSError):
        owner = Path(variables["datadir"]).stat()
        facts |= {"uid": str(owner.st_uid), "gid": str(owner.st_gid)}
    if process := _process(variables):
        with contextlib.suppress(OSError):
            facts |= {"mysqld": _program(process), "TZ": _zone(process)}
    if zone := _zone_of_host(variables.get("system_time_zone", "")):
        facts[LOCALTIME] = zone
    if encryption:
        facts["encryption"] = encryption
    return facts


def _without_links(directory: str) -> str:
    """A relative one is so to the data directory, and stays as it is."""
    if not directory.startswith("/"):
        return directory
    return str(Path(directory).resolve()) + "/" * directory.endswith("/")


def _process(variables: Mapping[str, str]) -> Path | None:
    """The running server's directory in /proc, None if it cannot be seen."""
    pid_file = Path(variables["datadir"]) / variables.get("pid_file", "")
    try:
        process = Path("/proc") / str(int(secure_files.read_linked(pid_file, PID_FILE)))
        program = str((process / "exe").readlink())
    except (OSError, ValueError, Refused):
        return None
    # Inside a container the number is another process's here; some are run by their dynamic loader.
    return process if Path(program).name.startswith((*SERVERS, "ld-")) else None


def _program(process: Path) -> str:
    """The executable, "" if it is only the dynamic loader."""
    # A package upgrade below a running server leaves " (deleted)" behind the path.
    program = str((process / "exe").readlink()).removesuffix(" (deleted)")
    return program if Path(program).name.startswith(SERVERS) else ""


def _zone_of_host(shown: str) -> str:
    """The zone of this host, by name, if the server may have it, which shows its time as `shown`, such as
    CET."""
    # It is what its clock was called when it was started, which may have been in another half of the year.
    zone, now = host_zone(), datetime.fromtimestamp(time.time(), UTC)
    names = {(now - timedelta(days=days)).astimezone(zone).tzname() for days in range(0, 365, 30)}
    return zone.key if shown in names and zone_named(zone.key) else ""


def _zone(process: Path) -> str:
    """TZ in its environment, "" for none. SYSTEM as a time zone means this, and the log says no more."""
    entries = Path(process, "environ").read_bytes().split(b"\0")
    found = (entry.removeprefix(b"TZ=") for entry in entries if entry.startswith(b"TZ="))
    return next(found, b"").decode(errors="surrogateescape")
