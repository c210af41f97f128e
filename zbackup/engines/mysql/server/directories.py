"""Everywhere on this machine where a server keeps data, so that a snapshot can be known to hold all of it.

Variables: MySQL reference manual, "InnoDB Startup Options and System Variables" and "Binary Logging Options
and Variables"; MariaDB's manual, "InnoDB System Variables" and "Aria System Variables". A relative path is
relative to the data directory.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from zbackup.engines.links_and_mounts import links_and_mounts
from zbackup.model.server import DataPath

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
