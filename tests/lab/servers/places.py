"""The directories of fetched servers and of prepared data."""

import os
from pathlib import Path

from tests.lab import apt

BEHIND_CLOSED = Path("/var/cache/zbackup-lab")


class ServerUnavailable(Exception):
    """One line that says which server could not be had, and why."""


def base() -> Path:
    """A directory below which every user may enter, for a database server must not run as root.

    That is the lab's cache; but when that is behind a closed home directory of root's, /var/cache. What was
    put there stays in use, also in a guest that has opened the directory (lab.reach).
    Raises ServerUnavailable for another user's closed home directory.
    """
    cache = apt.cache_root()
    closed = closed_parent(cache)
    if closed is None:
        return BEHIND_CLOSED if BEHIND_CLOSED.exists() and not (cache / "servers").exists() else cache
    if closed.stat().st_uid == 0:
        return BEHIND_CLOSED
    raise ServerUnavailable(f"{closed} lets nobody else enter: set XDG_CACHE_HOME to a place that does")


def closed_parent(path: Path) -> Path | None:
    """The first existing directory on the way to `path`, itself included, that other users may not enter."""
    for directory in reversed((path, *path.parents)):
        if directory.exists() and not directory.stat().st_mode & os.X_OK:
            return directory
    return None


def root() -> Path:
    """One directory a server; made when missing."""
    return _made(base() / "servers")


def templates() -> Path:
    """One prepared data directory a server; made when missing."""
    return _made(base() / "templates")


def log_file() -> Path:
    """Output of everything that fetching and preparing runs."""
    return _made(apt.cache_root() / "logs") / "servers.log"


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()
