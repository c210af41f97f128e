"""Tell what a server on a clone sees of the host's file systems, arranged in a mount namespace of its own.

Everything is read-only but what is its own. The server's user is most often production's, so that file
permissions alone keep it from nothing of production's.
"""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from zbackup.model.errors import Refused
from zbackup.proc import secure_files
from zbackup.proc.mounts import (
    MS_BIND,
    MS_MOVE,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    bind,
    change,
    detach,
    is_below,
    mount,
    mountpoint_above,
    mounts,
)
from zbackup.proc.safe_path import opened_directory, opened_parent

HARMLESS = MS_NOSUID | MS_NODEV | MS_NOEXEC

SYSTEM = (
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
)
"""Directories of programs and their libraries: what is mounted here stays in sight."""
KERNEL = ("/proc", "/sys", "/dev")

PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")
PRIVATE_SIZE = "64m"
EMPTY = ("/run",)

ABOUT_THE_MACHINE = (
    "cgroups",
    "cmdline",
    "cpuinfo",
    "devices",
    "diskstats",
    "filesystems",
    "loadavg",
    "meminfo",
    "partitions",
    "stat",
    "swaps",
    "sys",
    "uptime",
    "version",
    "vmstat",
)
"""Files in /proc that servers read, apart from those of themselves."""

STAGE = "/tmp/root"
"""In the server's own /tmp, where nobody else is, and for a moment only."""


class NamespaceView(NamedTuple):
    """See detached.Confinement. `named` are paths that the server is told on its command line."""

    hide: tuple[str, ...]
    bind: tuple[tuple[str, str], ...]
    own: tuple[str, ...]
    cover: tuple[str, ...]
    named: tuple[str, ...]


def arrange(view: NamespaceView) -> None:
    """Make this process' own namespace what `view` says. Ends with a message if that fails."""
    os.umask(0o022)
    own = [*((directory, directory) for directory in view.own), *view.bind]
    _forget_others(view, own)
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    for directory in sorted({directory for directory, _ in own}, key=len):
        _make_mount(directory)
    opened = [(_open(directory, mountpoint), mountpoint) for directory, mountpoint in own]
    files = _named_files(view, [mountpoint for _, mountpoint in own])
    change("/", add=MS_RDONLY)
    # Flags are set here, and not where it will be shown: between two looks, the server's user can put
    # a link there.
    for descriptor, _ in opened:
        change(_path(descriptor), add=HARMLESS, remove=MS_RDONLY)
    scenery = _Scenery()
    for directory in PRIVATE:
        scenery.tmpfs(directory, f"mode=1777,size={PRIVATE_SIZE}")
    for directory in (*EMPTY, *_to_cover(view, own)):
        scenery.tmpfs(directory, "mode=755,size=64k")
    for descriptor, mountpoint in sorted(opened, key=lambda pair: len(pair[1])):
        scenery.show(descriptor, mountpoint, recursive=mountpoint in view.own)
    for descriptor, mountpoint in files:
        scenery.show_file(descriptor, mountpoint)
    scenery.finish()
    _cover_processes()


def named_paths(argv: Sequence[str]) -> tuple[str, ...]:
    """Absolute paths among the words of a command line and the values of its options."""
    words = (word.rpartition("=")[2] for word in argv)
    return tuple(word.removeprefix("FILE:") for word in words if word.removeprefix("FILE:").startswith("/"))


def _named_files(view: NamespaceView, mountpoints: Sequence[str]) -> list[tuple[int, str]]:
    """Open what the server is told to read in a directory that it sees empty, such as a key in /run."""
    found = []
    for path in dict.fromkeys(view.named):
        covered = any(is_below(path, directory) for directory in (*PRIVATE, *EMPTY))
        if (
            covered
            and not any(is_below(path, mountpoint) for mountpoint in mountpoints)
            and secure_files.is_regular(Path(path))
        ):
            found.append((os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC), path))
    return found


def _forget_others(view: NamespaceView, own: Sequence[tuple[str, str]]) -> None:
    """Unmount here what the server has no use for.

    What stays mounted here keeps the host from exporting its pool or taking its disk away for as long as the
    server runs. `hide` must go, the rest where nothing that is needed is mounted below it.
    """
    for mountpoint in sorted(view.hide, key=len, reverse=True):
        _hide(mountpoint)
    found = [m.mountpoint for m in mounts()]
    sources = [directory for directory, _ in own]
    needed = {mountpoint_above(os.path.realpath(path), found) for path in (*sources, *view.named)}
    for mountpoint in sorted(set(found), key=len, reverse=True):
        wanted = mountpoint == "/" or any(
            is_below(mountpoint, kept) for kept in (*SYSTEM, *KERNEL, *view.own)
        )
        if not wanted and not any(is_below(kept, mountpoint) for kept in needed):
            with contextlib.suppress(OSError):  # gone meanwhile, or below a newer mount: nobody can get there
                detach(mountpoint)


def _hide(mountpoint: str) -> None:
    """Gone already is success: a recovery beside ours may just have destroyed its clone."""
    try:
        detach(mountpoint)
    except OSError as failure:
        if os.path.ismount(mountpoint):
            sys.exit(f"cannot take {mountpoint} out of the server's sight: {failure.strerror}")


def _make_mount(directory: str) -> None:
    """Let the directory be a mount, with flags of its own."""
    descriptor = _open(directory, directory)
    try:
        bind(_path(descriptor), _path(descriptor), recursive=True)
    except OSError as failure:
        sys.exit(f"cannot show {directory} to the server: {failure.strerror}")
    finally:
        os.close(descriptor)


def _open(directory: str, mountpoint: str) -> int:
    """A way to the directory that goes on to work when something is mounted over it."""
    try:
        return _led_by_root(directory)
    except Refused as refused:
        sys.exit(f"cannot show {directory} to the server as {mountpoint}: {refused}")
    except OSError as failure:
        sys.exit(f"cannot show {directory} to the server as {mountpoint}: {failure.strerror}")


def _led_by_root(directory: str) -> int:
    """Open a directory, and follow no link on the way but root's. Raise Refused at another."""
    try:
        with opened_directory(Path(directory)) as found:
            return os.dup(found)
    except Refused:
        raise Refused("a symlink not owned by root is in the path: remove it") from None


def _path(descriptor: int) -> str:
    """What is open, for a call that takes no descriptor: nobody can lead it elsewhere (proc(5))."""
    return f"/proc/self/fd/{descriptor}"


def _to_cover(view: NamespaceView, own: Sequence[tuple[str, str]]) -> list[str]:
    """The directories of `cover` that are there and hold nothing that the server needs to find."""
    mountpoints = [mountpoint for _, mountpoint in own]
    return [
        directory
        for directory in dict.fromkeys(os.path.realpath(each) for each in view.cover)
        if Path(directory).is_dir()
        and not any(
            is_below(directory, system) or is_below(system, directory) for system in (*SYSTEM, *KERNEL)
        )
        and not any(is_below(named, directory) for named in view.named)
        and not any(is_below(directory, mountpoint) for mountpoint in mountpoints)
    ]


class _Scenery:
    """Mounts over the host's directories, none of which is changed.

    Where a mountpoint is missing, its parent is covered by a tmpfs that shows all that is in the parent, and
    has room for a directory more.
    """

    def __init__(self) -> None:
        self._made: list[str] = []

    def tmpfs(self, mountpoint: str, options: str) -> None:
        """An empty directory of this namespace alone in place of the host's, if that is there."""
        real = os.path.realpath(mountpoint)
        if Path(real).is_dir() and real not in self._made:
            mount("tmpfs", real, "tmpfs", HARMLESS, options)
            self._made.append(real)

    def show(self, directory: int, mountpoint: str, *, recursive: bool) -> None:
        """Show an open directory, writable. Ends with a message if that fails."""
        with _shown(directory, mountpoint):
            self._ensure(Path(mountpoint))
            target = _led_by_root(mountpoint)
            bind(_path(directory), _path(target), recursive=recursive)
            os.close(target)

    def show_file(self, file: int, mountpoint: str) -> None:
        """Show an open file as it is, read-only. Ends with a message if that fails."""
        with _shown(file, mountpoint):
            self._ensure(Path(mountpoint).parent)
            with opened_parent(Path(mountpoint)) as (parent, name):
                new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(name, new, 0o444, dir_fd=parent))
                target = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
                bind(_path(file), _path(target))
                os.close(target)

    def finish(self) -> None:
        """Make what holds mountpoints read-only; the private directories stay writable."""
        private = [os.path.realpath(mountpoint) for mountpoint in PRIVATE]
        for mountpoint in self._made:
            if mountpoint not in private:
                _read_only(mountpoint)

    def _ensure(self, mountpoint: Path) -> None:
        """Make the directory, which is not there on a host that never had the original."""
        if mountpoint.is_dir():
            return
        self._ensure(mountpoint.parent)
        try:
            _make_directory(mountpoint)
        except OSError as failure:
            if failure.errno != errno.EROFS:
                raise
            self._cover(mountpoint.parent)
            _make_directory(mountpoint)

    def _cover(self, directory: Path) -> None:
        stage, before = Path(STAGE), _led_by_root(str(directory))
        stage.mkdir()
        os.fchdir(before)
        mode = stat.S_IMODE(os.fstat(before).st_mode)
        mount("tmpfs", STAGE, "tmpfs", HARMLESS, f"mode={mode:o},size=4m")
        for entry in Path().iterdir():
            _same(entry.name, stage / entry.name)
        if directory == Path("/"):
            _become_root(stage)
        else:
            mount(STAGE, _path(before), flags=MS_MOVE)
            stage.rmdir()
        os.chdir("/")
        os.close(before)
        self._made.append(str(directory))


@contextlib.contextmanager
def _shown(descriptor: int, mountpoint: str) -> Iterator[None]:
    """Close the descriptor after the body. End with a message when the body fails."""
    try:
        yield
    except Refused as refused:
        sys.exit(f"cannot show {mountpoint} to the server: {refused}")
    except OSError as failure:
        sys.exit(f"cannot show {mountpoint} to the server: {failure.strerror}")
    finally:
        os.close(descriptor)


def _make_directory(mountpoint: Path) -> None:
    with opened_parent(mountpoint) as (parent, name):
        os.mkdir(name, dir_fd=parent)


def _same(name: str, mountpoint: Path) -> None:
    """Show at `mountpoint` what `name` is in the current directory."""
    kind = os.lstat(name).st_mode
    if stat.S_ISLNK(kind):
        mountpoint.symlink_to(Path(name).readlink())
        return
    if stat.S_ISDIR(kind):
        mountpoint.mkdir()
    else:
        mountpoint.touch()
    bind(name, str(mountpoint), recursive=True)


def _become_root(stage: Path) -> None:
    """Make what is mounted at `stage` all that there is from here on."""
    os.chdir(stage)
    mount(str(stage), "/", flags=MS_MOVE)
    os.chroot(".")
    os.chdir("/")
    # The new root's /tmp is the old one's, with this in it as it was half-way.
    detach(str(stage))
    stage.rmdir()


def _read_only(mountpoint: str) -> None:
    """This one mount: what is mounted below it stays as it is."""
    mount("none", mountpoint, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | HARMLESS)


def _cover_processes() -> None:
    """Show of all processes this one alone, which is to become the server.

    /proc/PID/root of another process of the same user, such as production's server, leads out of here.
    """
    number = str(os.getpid())
    os.chdir("/proc")
    names = [name for name in (*ABOUT_THE_MACHINE, number) if Path(name).exists()]
    mount("tmpfs", "/proc", "tmpfs", HARMLESS, "mode=555,size=64k")
    for name in names:
        _same(name, Path("/proc", name))
    os.chdir("/")
    for name, target in (("self", number), ("mounts", "self/mounts"), ("net", "self/net")):
        Path("/proc", name).symlink_to(target)
    _read_only("/proc")
