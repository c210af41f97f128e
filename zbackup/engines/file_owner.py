"""The user who owns a server's files, and whom it therefore runs as."""

from collections.abc import Mapping
from pathlib import Path

from zbackup.model.errors import Refused
from zbackup.proc import secure_files


def owner_of(directory: Path) -> tuple[int, int]:
    """User and group id that own a data directory, or a file in it. Raise Refused when that is root.

    What is in the directory decides what the server does, and it need not be root who put it there: it may
    have come from another host.
    """
    found = secure_files.stat(directory)
    if found.st_uid == 0:
        raise _as_root(str(directory))
    return found.st_uid, found.st_gid


def require_own_user(server: Mapping[str, str]) -> None:
    """Raise Refused when, as recorded (Record.server), the server's files belong to root."""
    if server.get("uid") == "0":
        raise _as_root(server.get("datadir") or server.get("dbpath") or "the data directory")


def _as_root(directory: str) -> Refused:
    return Refused(
        f"{directory} belongs to root, and zbackup starts no server as root: "
        f"give production's files to a user of their own, and take a new backup"
    )
