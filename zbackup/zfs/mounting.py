"""How a file system is mounted: where its properties say, with the options that `zfs mount` gives it.

See proc.mounting for why `zfs mount` itself is not run. Facts are of OpenZFS 2.1 to 2.3, lib/libzfs:
zfs_mount(), zfs_add_options() and zfs_adjust_mount_options().
"""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from zbackup.model.errors import CommandFailed, KeyNotLoaded, Refused
from zbackup.proc import secure_files
from zbackup.proc.mount_holders import in_use
from zbackup.proc.mounting import is_mounted_on, mount_on, unmount_from
from zbackup.proc.mounts import (
    MS_NOATIME,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_RELATIME,
    MS_STRICTATIME,
)

_CONTEXTS = ("context", "fscontext", "defcontext", "rootcontext")
"""Of SELinux, "none" where they are not set."""
FACTS = (
    *("canmount", "keystatus", "zoned", "overlay"),
    *("atime", "relatime", "devices", "exec", "readonly", "setuid", "nbmand"),
    *_CONTEXTS,
    "mountpoint",
)
"""The properties that decide; the one that may hold a line break comes last."""

_OPTIONS = {
    ("devices", "on"): ("dev", 0),
    ("devices", "off"): ("nodev", MS_NODEV),
    ("exec", "on"): ("exec", 0),
    ("exec", "off"): ("noexec", MS_NOEXEC),
    ("readonly", "on"): ("ro", MS_RDONLY),
    ("readonly", "off"): ("rw", 0),
    ("setuid", "on"): ("suid", 0),
    ("setuid", "off"): ("nosuid", MS_NOSUID),
    ("nbmand", "on"): ("mand", 0),
    ("nbmand", "off"): ("nomand", 0),
}
_HOST = 0xEFFFFFFD
"""The inode of the first user namespace (PROC_USER_INIT_INO)."""
_TIMES = {
    ("on", "on"): (("atime", "relatime"), MS_RELATIME),
    ("on", "off"): (("atime", "strictatime"), MS_STRICTATIME),
}
"""Of atime and relatime. With atime=off the other means nothing."""


class Mounts(Protocol):
    """The mounts of this host."""

    def is_host(self) -> bool:
        """Whether we are no container's."""

    def is_empty(self, path: Path) -> bool:
        """Whether nothing lies there. Raise Refused when that is no safe place."""

    def mount(self, name: str, path: Path, flags: int, options: str) -> None:
        """Raise Refused when that is no safe place, CommandFailed when the kernel refuses."""

    def is_there(self, name: str, path: Path) -> bool:
        """Whether the path leads to this file system."""

    def unmount(self, name: str, path: Path) -> None:
        """Raise DatasetBusy while somebody uses it."""

    def in_use(self, names: Mapping[str, str], apart_from: int | None = None) -> dict[str, list[str]]:
        """See proc.mount_holders.in_use."""


class KernelMounts:
    """The real ones."""

    def is_host(self) -> bool:
        return Path("/proc/self/ns/user").stat().st_ino == _HOST

    def is_empty(self, path: Path) -> bool:
        try:
            return not secure_files.names(path)
        except FileNotFoundError:
            return True

    def mount(self, name: str, path: Path, flags: int, options: str) -> None:
        try:
            mount_on(path, name, flags, options)
        except OSError as failure:
            raise _failed("mount", name, failure) from failure

    def is_there(self, name: str, path: Path) -> bool:
        return is_mounted_on(path, name)

    def unmount(self, name: str, path: Path) -> None:
        try:
            unmount_from(path, name)
        except OSError as failure:
            raise _failed("unmount", name, failure) from failure

    def in_use(self, names: Mapping[str, str], apart_from: int | None = None) -> dict[str, list[str]]:
        return in_use(names, apart_from=apart_from)


def _failed(verb: str, name: str, failure: OSError) -> CommandFailed:
    """The failure in the words of `zfs`, of which callers know the kind."""
    said = {errno.EBUSY: "pool or dataset is busy", errno.EIO: "pool I/O is currently suspended"}
    why = said.get(failure.errno or 0, failure.strerror or str(failure))
    return CommandFailed(("zfs", verb, "--", name), 1, f"cannot {verb} '{name}': {why}")


def place_of(name: str, facts: Mapping[str, str], mounts: Mounts) -> Path:
    """Where it is to be mounted. Raise CommandFailed, or KeyNotLoaded, when it cannot be."""
    argv = ("zfs", "mount", "--", name)
    if facts["zoned"] == "on" and mounts.is_host():
        raise CommandFailed(
            argv, 1, f"cannot mount '{name}': it is delegated to a container (zoned=on), which mounts it"
        )
    if facts["canmount"] == "off":
        raise CommandFailed(argv, 1, f"cannot mount '{name}': 'canmount' property is set to 'off'")
    if facts["keystatus"] == "unavailable":
        raise KeyNotLoaded(argv, 1, f"cannot mount '{name}': encryption key not loaded")
    if not facts["mountpoint"].startswith("/"):
        raise CommandFailed(argv, 1, f"cannot mount '{name}': its mountpoint is {facts['mountpoint']}")
    return Path(facts["mountpoint"])


def require_empty(name: str, facts: Mapping[str, str], place: Path, mounts: Mounts) -> None:
    """Raise CommandFailed when files would be covered, and `overlay` forbids that."""
    if facts["overlay"] == "off" and not mounts.is_empty(place):
        argv = ("zfs", "mount", "--", name)
        raise CommandFailed(argv, 1, f"cannot mount '{name}': {place} is not empty, and overlay is off")


def mount_options(facts: Mapping[str, str]) -> tuple[int, str]:
    """The flags of mount(2) and the options that `zfs mount` would give. Pure."""
    times, flags = _TIMES.get((facts["atime"], facts["relatime"]), (("noatime",), MS_NOATIME))
    words = ["defaults", *times]
    for key in ("devices", "exec", "readonly", "setuid", "nbmand"):
        word, flag = _OPTIONS[key, facts[key]]
        words.append(word)
        flags |= flag
    words += [f'{key}="{facts[key]}"' for key in _CONTEXTS if facts[key] != "none"]
    # It is for `.zfs/snapshot`. What is behind a comma would be an option.
    if "," not in facts["mountpoint"]:
        words.append(f"mntpoint={facts['mountpoint']}")
    return flags, ",".join((*words, "zfsutil"))


def elsewhere(name: str, found: str, wanted: Path) -> Refused:
    return Refused(f"{name} is mounted at {found} instead of {wanted}: unmount it, then try again")
