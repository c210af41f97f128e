"""The user that database servers of tests run as."""

import os
from pathlib import Path

SERVER_UID = 27
"""The user id servers run as when we are root; it needs no entry in /etc/passwd."""


def as_server_user() -> list[str]:
    """What is put before a command line, so that it runs as that user; nothing where we are not root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={SERVER_UID}", f"--regid={SERVER_UID}", "--clear-groups"]


def give_away(directory: Path) -> None:
    """Make the directory, and all in it, that user's."""
    os.chown(directory, SERVER_UID, SERVER_UID)
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            os.chown(Path(parent) / name, SERVER_UID, SERVER_UID, follow_symlinks=False)
