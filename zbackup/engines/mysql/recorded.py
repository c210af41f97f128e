"""What a temporary server needs to know later to open a server's files: recorded with every snapshot."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

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
    "innodb_doublewrite_dir",
    "innodb_checksum_algorithm",
    "innodb_default_row_format",
    "innodb_strict_mode",
    "innodb_flush_log_at_trx_commit",
    "innodb_log_file_size",
    "lower_case_table_names",
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
    "default_storage_engine",
    "explicit_defaults_for_timestamp",
    "time_zone",
    "system_time_zone",
    "max_allowed_packet",
    "event_scheduler",
    "default_authentication_plugin",
    "performance_schema",
)

# Looked for in the snapshot later, whose members are recorded without symbolic links.
FOUND_AGAIN = ("datadir", "log_bin_basename", "log_bin_index")


def recorded(variables: Mapping[str, str], encryption: str) -> dict[str, str]:
    """The variables above, and facts of this machine: `uid` and `gid` own the files, `mysqld` is the program.

    `encryption` says what is encrypted and by which keyring, "" when nothing is.
    """
    facts = {name: variables[name] for name in VARIABLES if name in variables}
    facts |= {name: str(Path(facts[name]).resolve()) for name in FOUND_AGAIN if facts.get(name)}
    with contextlib.suppress(OSError):
        owner = Path(variables["datadir"]).stat()
        facts |= {"uid": str(owner.st_uid), "gid": str(owner.st_gid)}
    if program := _program(variables):
        facts["mysqld"] = program
    if encryption:
        facts["encryption"] = encryption
    return facts


def _program(variables: Mapping[str, str]) -> str:
    """The running server's executable, "" if that cannot be seen or is only its dynamic loader."""
    pid_file = Path(variables["datadir"]) / variables.get("pid_file", "")
    try:
        pid = int(pid_file.read_text())
        # A package upgrade below a running server leaves " (deleted)" behind the path.
        program = str(Path(f"/proc/{pid}/exe").readlink()).removesuffix(" (deleted)")
    except (OSError, ValueError):
        return ""
    # Inside a container the number is another process's here; a server run by its loader shows as that.
    return program if Path(program).name.startswith(("mysqld", "mariadbd")) else ""
