"""Becomes a server inside the mount namespace that unshare(1) has just made: see proc.detached.

Run as `python -I -m zbackup.proc.enter ORDER`, the order being JSON: hide, bind, uid, gid,
limits, argv, environment, and note, which may be null.
"""

import ctypes
import json
import os
import resource
import sys
from pathlib import Path

from zbackup.model.errors import NotInstalled
from zbackup.proc.secure_files import write_new
from zbackup.proc.start import become

# mount(2) and umount2(2), called here and not by programs: a host may have a hundred clones to be hidden.
_C = ctypes.CDLL(None, use_errno=True)
_BIND = 4096
_DETACH = 2


def main(order: str) -> None:
    """Arrange the mounts, give up root, and be replaced by the server. Ends with a message if that fails."""
    wanted = json.loads(order)
    if wanted["note"]:
        # As detached.Process reads it. Neither number changes when the server takes our place.
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        write_new(Path(wanted["note"]), f"{os.getpid()} {started}\n", mode=0o644)
    for mountpoint in sorted(wanted["hide"], key=len, reverse=True):
        _hide(mountpoint)
    for directory, mountpoint in sorted(wanted["bind"], key=lambda pair: len(pair[1])):
        # On a host that never had the original, its mountpoint does not exist.
        Path(mountpoint).mkdir(parents=True, exist_ok=True)
        _bind(directory, mountpoint)
    # A shell's soft limit of 1,024 files is no server's: production's unit file had raised it.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.nice(wanted["limits"]["nice"])
    os.setgroups([])
    os.setgid(wanted["gid"])
    os.setuid(wanted["uid"])
    os.umask(0o027)
    become(wanted["argv"], wanted["environment"])


def _hide(mountpoint: str) -> None:
    """Unmount it here. Gone already is success: a recovery beside ours may just have destroyed its clone."""
    if _C.umount2(os.fsencode(mountpoint), _DETACH) != 0:
        problem = os.strerror(ctypes.get_errno())
        if os.path.ismount(mountpoint):
            sys.exit(f"cannot take {mountpoint} out of the server's sight: {problem}")


def _bind(directory: str, mountpoint: str) -> None:
    if _C.mount(os.fsencode(directory), os.fsencode(mountpoint), None, ctypes.c_ulong(_BIND), None) != 0:
        problem = os.strerror(ctypes.get_errno())
        sys.exit(f"cannot show {directory} to the server as {mountpoint}: {problem}")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (OSError, NotInstalled) as problem:
        sys.exit(f"cannot start the server: {problem}")
