"""Everywhere on this machine where a mongod keeps data, so that a snapshot can be known to hold all of it.

MongoDB manual, "Configuration File Options" (storage.dbPath, storage.directoryPerDB,
storage.wiredTiger.engineConfig.directoryForIndexes). All of it is below dbPath, unless links or mounts put
parts elsewhere, as people do with the journal and with databases in directories of their own.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zbackup.engines.links_and_mounts import links_and_mounts
from zbackup.model.errors import Refused
from zbackup.model.server import DataPath
from zbackup.proc import secure_files

DEFAULT_DBPATH = "/data/db"

PID_FILE = 64
"""Bytes of one, at most."""

# dbPath / database / "collection" and "index"
DEPTH = 3


def dbpath(options: Mapping[str, Any], pid: int) -> Path:
    """Where the server keeps its data, without symbolic links. A relative path is from its directory."""
    named = Path(str(options.get("storage", {}).get("dbPath", DEFAULT_DBPATH)))
    return Path(os.path.realpath(f"/proc/{pid}/cwd/{named}" if not named.is_absolute() else named))


def works_there(data: Path, pid: int) -> bool:
    """Whether the files are those of the server that answered, which says it has this process id.

    A tunnel or a moved address may lead to a mongod elsewhere that uses the same path. A server keeps its
    number in mongod.lock; that it may not be read says nothing.
    """
    try:
        noted = secure_files.read_linked(data / "mongod.lock", PID_FILE).strip()
    except (OSError, Refused):
        return True
    return noted == str(pid)


def data_paths(data: Path) -> tuple[DataPath, ...]:
    """Each path once, the data directory first."""
    found: dict[str, str] = {}
    for what, path in (("data", data), ("journal", data / "journal"), *links_and_mounts(data, DEPTH)):
        found.setdefault(os.path.realpath(path), what)
    return tuple(DataPath(what, path) for path, what in found.items())
