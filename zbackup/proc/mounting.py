"""The one way to mount, and to unmount, where others may have a hand in the path: by open directories.

`zfs mount`, mount(8) and umount(8) resolve a path by its names. Whoever may write to a directory on the way
can put a link there, and chooses what root mounts over or takes away. So the directory is opened as
secure_files does it: no link is followed but root's in a directory of root's. The mount is made on the open
directory, whatever happens to its names meanwhile; then the path is opened once more, and has to lead to what
was mounted. Otherwise that is unmounted again, and refused.

`/proc/self/fd/N` leads to the open directory itself and not to a name (proc(5)).
"""

import os
from pathlib import Path

from zbackup.model.errors import Refused
from zbackup.proc import secure_files
from zbackup.proc.mounts import UMOUNT_NOFOLLOW, Mount, mount, mounts, unmount
from zbackup.proc.safe_path import opened_directory, opened_parent
from zbackup.proc.start import locate_tools

_OPEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def mount_on(path: Path, source: str, flags: int, options: str) -> None:
    """Mount the ZFS file system `source` on the directory at `path`, which is made if it is missing.

    Raise Refused, with nothing mounted, when a link, a file or the like lies there or on the way, where
    others than root may have put it, or when the path led elsewhere meanwhile; OSError as mount(2).
    """
    locate_tools()  # before anything can cover them
    if not secure_files.exists(path):
        secure_files.make_directory(path)
    with opened_directory(path) as place:
        mount(source, f"/proc/self/fd/{place}", "zfs", flags, options)
        try:
            _require_shown(path, source)
        except BaseException:
            unmount(f"/proc/self/fd/{place}")
            raise


def is_mounted_on(path: Path, source: str) -> bool:
    """Whether the path leads, without anybody's links, to the root of this file system."""
    try:
        _require_shown(path, source)
    except (OSError, Refused):
        return False
    return True


def unmount_from(path: Path, source: str) -> None:
    """Unmount exactly this file system from where mountinfo has it.

    Raise Refused when something else is there, OSError as umount(2). While it is open it is busy, so it is
    unmounted by its name in its open parent. That name its owner can give to another directory of his, from a
    mount namespace in which nothing is mounted there (rename(2)). Then that one's mount goes, which he can
    have with rmdir(2) at any time.
    """
    with opened_parent(path) as (parent, name):
        found = os.open(name, _OPEN, dir_fd=parent)
        try:
            _require_root_of(found, source, path)
        finally:
            os.close(found)
        unmount(f"/proc/self/fd/{parent}/{name}", UMOUNT_NOFOLLOW)


def _require_shown(path: Path, source: str) -> None:
    with opened_directory(path) as found:
        _require_root_of(found, source, path)


def _require_root_of(descriptor: int, source: str, path: Path) -> None:
    """Raise Refused unless the open directory is the root of what `source` has mounted."""
    above = os.open("..", _OPEN, dir_fd=descriptor)
    try:
        is_root = _mount_id(above) != _mount_id(descriptor)
    finally:
        os.close(above)
    found = _mount_of(descriptor)
    if not (found and is_root and (found.kind, found.source, found.root) == ("zfs", source, "/")):
        raise Refused(
            f"{path} does not lead to {source}: another user keeps moving directories on this path. Stop the "
            f"processes of the owner of {path.parent}, then run the same command again"
        )


def _mount_of(descriptor: int) -> Mount | None:
    number = _mount_id(descriptor)
    return next((each for each in mounts() if each.number == number), None)


def _mount_id(descriptor: int) -> int:
    """The number that mountinfo has for the mount an open file lies on (proc(5), fdinfo)."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("mnt_id:"))
