"""The mounts of this process' namespace: mount(2), umount2(2), mount_setattr(2), unshare(2), mountinfo.

Called here and not by programs: a host may have hundreds of mounts.
"""

import ctypes
import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_C = ctypes.CDLL(None, use_errno=True)

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE, MS_SLAVE = 32, 4096, 8192, 16384, 1 << 18, 1 << 19
MS_NOATIME, MS_RELATIME, MS_STRICTATIME = 1024, 1 << 21, 1 << 24
UMOUNT_NOFOLLOW = 8
_CLONE_NEWNS = 0x00020000
_DETACH = 2

_SYS_MOUNT_SETATTR = 442
"""The same on all architectures but alpha, as are all system calls since 424."""
_AT_RECURSIVE = 0x8000
_AT_FDCWD = -100
# Attributes 1 to 8 have the numbers of the flags of mount(2) above (mount_setattr(2)).

_KEPT = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "noatime": MS_NOATIME,
    "nodiratime": 2048,
    "relatime": MS_RELATIME,
    "nosymfollow": 256,
}
"""Options of one mount, and their flags: a mount that is changed loses those that are not said again."""

_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One line of mountinfo (proc(5)): where, with which options of its own, of which kind of file system;
    the number of the mount, the directory of the file system that is seen there, and what was mounted; the
    number of the mount it is on, and the groups that it shares mounts with and receives them from (0: none).

    No dataclass: reading that module takes longer than all that is done here, at each start of a server.
    """

    mountpoint: str
    options: tuple[str, ...]
    kind: str
    number: int = 0
    root: str = "/"
    source: str = ""
    parent: int = 0
    shared: int = 0
    master: int = 0


class _Attributes(ctypes.Structure):
    """struct mount_attr."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def mounts(text: str | None = None) -> list[Mount]:
    """All mounts of this namespace, in the order in which they were made; `text` is mountinfo's."""
    if text is None:
        text = Path("/proc/self/mountinfo").read_bytes().decode(errors="surrogateescape")
    found = []
    for line in filter(None, text.split("\n")):  # a path may hold other ends of lines, which stay as they are
        words = line.split(" ")
        kind, source = words[(end := words.index("-", 6)) + 1], _unescaped(words[end + 2])
        root, mountpoint, options = _unescaped(words[3]), _unescaped(words[4]), tuple(words[5].split(","))
        spread = {
            key: int(n) for key, _, n in (each.partition(":") for each in words[6:end]) if n.isdecimal()
        }
        groups = spread.get("shared", 0), spread.get("master", 0)
        found.append(Mount(mountpoint, options, kind, int(words[0]), root, source, int(words[1]), *groups))
    return found


def _unescaped(word: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), word)


def leave_mounts() -> None:
    """Be in a mount namespace of our own: what the host mounts and unmounts is seen here, and nothing of ours
    there, as with `unshare --mount --propagation slave`. Raise OSError."""
    _require(_C.unshare(ctypes.c_int(_CLONE_NEWNS)), "a mount namespace")
    mount("none", "/", flags=MS_REC | MS_SLAVE)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2). Raise OSError."""
    done = _C.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options)
    )
    _require(done, target)


def bind(source: str, target: str, *, recursive: bool = False) -> None:
    """Show `source` at `target`, with what is mounted below it if `recursive`. Raise OSError."""
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))


def detach(mountpoint: str) -> None:
    """Take a mount, and all below it, out of this namespace. Raise OSError."""
    unmount(mountpoint, _DETACH)


def unmount(mountpoint: str, flags: int = 0) -> None:
    """umount2(2). Raise OSError."""
    _require(_C.umount2(os.fsencode(mountpoint), ctypes.c_int(flags)), mountpoint)


def change(mountpoint: str, *, add: int = 0, remove: int = 0) -> None:
    """Add and remove flags of the mount at `mountpoint` and of all below it. Raise OSError."""
    try:
        _set_attributes(mountpoint, add, remove)
    except OSError as failure:
        if failure.errno != errno.ENOSYS:
            raise
        _change_each(os.path.realpath(mountpoint), add, remove)


def _set_attributes(mountpoint: str, add: int, remove: int) -> None:
    wanted = _Attributes(attr_set=add, attr_clr=remove)
    done = _C.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(mountpoint),
        ctypes.c_uint(_AT_RECURSIVE),
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )
    _require(done, mountpoint)


def _change_each(mountpoint: str, add: int, remove: int) -> None:
    """The same on a kernel before 5.12, mount by mount."""
    tops = {m.mountpoint: m for m in mounts()}  # of several at one mountpoint, the last covers the others
    for found in [m for m in tops.values() if is_below(m.mountpoint, mountpoint)]:
        kept = sum(_KEPT.get(option, 0) for option in found.options)
        _remount(found.mountpoint, (kept | add) & ~remove)


def _remount(mountpoint: str, flags: int) -> None:
    """Remount with other flags. What lies below a newer mount nobody can reach by its path: it need not be
    changed."""
    try:
        mount("none", mountpoint, flags=MS_REMOUNT | MS_BIND | flags)
    except OSError as failure:
        if failure.errno not in (errno.ENOENT, errno.EINVAL, errno.ENOTDIR):
            raise


def is_below(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or below it."""
    return directory == "/" or path == directory or path.startswith(directory + "/")


def mountpoint_above(path: str, mountpoints: Sequence[str]) -> str:
    """The innermost of the mountpoints that holds `path`."""
    return max((each for each in mountpoints if is_below(path, each)), key=len, default="/")


def _require(done: int, mountpoint: str) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), mountpoint)
