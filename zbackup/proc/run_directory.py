"""The run directory (/run/zbackup), which is root's, and in it the one directory that is the daemon's.

root's: a directory with the socket of each recovered server, notes which process that is, and connections of
root's own to other hosts. Whoever could put a link there would have root give away what it leads to.
The daemon's: what it shares with root's commands, which are locks and notes of what has to be undone. Of that
root believes little, and follows nothing.
"""

import fcntl
import os
import pwd
import stat as modes
from pathlib import Path

from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.proc import secure_files
from zbackup.proc.safe_path import require_only_roots

DAEMON = ".daemon"
"""No clone's name begins with a dot."""
USER = "zbackup"
"""The user that the daemon runs as where systemd starts it."""

_FORMER_MODE = 0o2771
_MODE = 0o755
_DAEMON_MODE = 0o2770


def daemon_directory(run_dir: Path) -> Path:
    """What root's commands and the daemon share."""
    return run_dir / DAEMON


def own_directory(run_dir: Path) -> Path:
    """What only we may write to: root and the daemon have one each."""
    return run_dir if os.geteuid() == 0 else daemon_directory(run_dir)


def prepare(shared: Path) -> None:
    """See to it that there is `shared`, the daemon's directory, in the run directory.

    A run directory as zbackup had it before, which was the daemon's, is put right by root. Raise Refused when
    it is somebody else's in another way, or a zbackup from before works there; OSError when it is not there
    and cannot be made.
    """
    run_dir = shared.parent
    if shared.name == DAEMON:
        secure_files.ensure_directory(run_dir)
        _require_nobody_works(run_dir)
        if os.geteuid() == 0:
            _make_roots(run_dir, shared)
    try:
        _make_shared(shared)
    except PermissionError as refused:
        raise Refused(
            f"{shared} is missing, and user id {os.geteuid()} cannot make it: run systemd-tmpfiles --create "
            f"as root"
        ) from refused


def _make_shared(shared: Path) -> None:
    """The daemon's also when root comes first, as far as this host has a daemon."""
    owner = daemon_user() if shared.name == DAEMON and os.geteuid() == 0 else None
    if not owner or secure_files.exists(shared):
        secure_files.ensure_directory(shared)
        return
    try:
        secure_files.make_directory(shared, mode=_DAEMON_MODE, owner=owner)
    except PermissionError:
        secure_files.remove_empty(shared)
        raise


def daemon_user() -> tuple[int, int] | None:
    """User and group id that the daemon has where systemd starts it; None where there is no such user."""
    try:
        found = pwd.getpwnam(USER)
    except KeyError:
        return None
    return found.pw_uid, found.pw_gid


def _make_roots(run_dir: Path, shared: Path) -> None:
    found = secure_files.stat(run_dir)
    if found.st_uid == 0 and not found.st_mode & 0o022:
        require_only_roots(run_dir)
        return
    former = found.st_uid != 0 and modes.S_IMODE(found.st_mode) == _FORMER_MODE
    if not (former and modes.S_ISDIR(found.st_mode)):
        raise Refused(
            f"run_dir {run_dir} can be changed by others than root: give it to root, or move it away"
        )
    require_only_roots(run_dir.parent)
    try:
        secure_files.give_to_root(run_dir, _MODE)
    except PermissionError as refused:
        raise Refused(
            f"run_dir {run_dir} is the daemon's, as older versions had it, and cannot be given to root from "
            f"here: install the new zbackup.tmpfiles.conf, and run systemd-tmpfiles --create as root"
        ) from refused
    for name in secure_files.names(run_dir):
        # No zbackup ever made a link here; locks are in the daemon's directory from now on.
        if name.endswith(".lock") or modes.S_ISLNK(secure_files.stat(run_dir / name).st_mode):
            secure_files.unlink(run_dir / name)
    owner = (found.st_uid, found.st_gid)
    secure_files.make_directory(shared, mode=_DAEMON_MODE, owner=owner)
    log.warning("run_dir.given_to_root", run_dir=str(run_dir), daemon=str(shared))


def _require_nobody_works(run_dir: Path) -> None:
    """Raise Refused while a zbackup from before holds a lock where they used to be."""
    for name in secure_files.names(run_dir):
        # Every lock of zbackup's says so; another program's in this directory is none of our business.
        if name.endswith(".lock") and (holder := owner_in(run_dir / name)).startswith("zbackup"):
            raise Refused(
                f"a zbackup of an older version works with {run_dir} ({holder}): let it end, stop the daemon "
                f"(systemctl stop zbackup), and try again"
            )


def owner_in(path: Path) -> str:
    """Who holds the lock file at `path` now, as he said himself; "" for nobody."""
    try:
        with secure_files.open_regular(path) as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return said(file.fileno())
    except (FileNotFoundError, PermissionError, Refused):
        pass
    return ""


def said(descriptor: int) -> str:
    """What the holder of a lock file wrote into it."""
    return os.pread(descriptor, 200, 0).decode(errors="replace") or "another zbackup"
