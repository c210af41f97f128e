"""The user who owns a server's files, and whom it therefore runs as."""

from pathlib import Path

from zbackup.model.errors import Refused
from zbackup.proc import secure_files


def owner_of(directory: Path) -> tuple[int, int]:
    """User and group id that own a data directory. Raise Refused when that is root.

    What is in the directory decides what the server does, and it need not be root who put it there: it may
    have come from another host.
    """
    found = secure_files.stat(directory)
    if found.st_uid == 0:
        raise Refused(
            f"{directory} belongs to root, and zbackup starts no server as root: "
            f"give production's files to a user of their own, and take a new backup"
        )
    return found.st_uid, found.st_gid
