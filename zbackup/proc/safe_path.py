"""Paths walked by descriptors, so that nobody can lead us elsewhere: see secure_files, which says how."""

import contextlib
import ctypes
import errno
import os
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

from zbackup.model.errors import Refused

_C = ctypes.CDLL(None, use_errno=True)
_OPENAT2 = 437  # on every architecture
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_TRIES = 100
_MOST_LINKS = 40
_FUSE = 0x65735546
"""FUSE_SUPER_MAGIC of statfs(2)."""

_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Of a link or a FIFO in a file's or a directory's place (open(2), openat2(2)).
_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.ENXIO)


class _How(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@contextmanager
def opened_parent(path: Path) -> Iterator[tuple[int, str]]:
    """The directory a path lies in, open, and the name it has there."""
    if path.name == "":
        raise _no_path(path)
    with _opened(path, list(path.parts[1:-1])) as descriptor:
        yield descriptor, path.name


@contextmanager
def opened_directory(path: Path) -> Iterator[int]:
    """The directory at a path, open. A link in its place is followed where one on the way to it would be."""
    with _opened(path, list(path.parts[1:])) as descriptor:
        yield descriptor


def _no_path(path: Path) -> Refused:
    return Refused(f"{path} is not an absolute path, or contains ..")


@contextmanager
def _opened(path: Path, names: list[str]) -> Iterator[int]:
    """Walk `names`, which lead to the path or to its parent."""
    if not path.is_absolute() or ".." in path.parts:
        raise _no_path(path)
    try:
        descriptor = _walked(names)
    except OSError as failure:
        raise explained(failure, path) from failure
    try:
        yield descriptor
    except OSError as failure:
        raise explained(failure, path) from failure
    finally:
        os.close(descriptor)


def _walked(names: list[str]) -> int:
    """Directory by directory while they are ours, and then all at once."""
    here, links = os.open("/", _WALK), 0
    try:
        while names and is_own(here):
            name = names.pop(0)
            try:
                below = os.open(name, _WALK, dir_fd=here)
            except OSError as failure:
                # The root of a path through a link starts again; a relative link goes on from here.
                if (target := _link(here, name)) is None or (links := links + 1) > _MOST_LINKS:
                    raise failure from None
                below = os.open("/" if target.is_absolute() else ".", _WALK, dir_fd=here)
                names = [name for name in target.parts if name != "/"] + names
            os.close(here)
            here = below
        return _beneath(here, names)
    finally:
        os.close(here)


def _link(directory: int, name: str) -> Path | None:
    """Where a link leads; None if it is none."""
    try:
        return Path(os.readlink(name, dir_fd=directory))
    except OSError:
        return None


def rename_for_good(parent: int, fresh: str, name: str) -> None:
    """Put a file that is written in another's place, so that after a power failure one of both is there."""
    _sync(parent, fresh)
    os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
    _sync(parent, ".")


def _sync(parent: int, name: str) -> None:
    """Sync what lies in a directory of which only the path is open; what we may not read stays as it is."""
    with contextlib.suppress(PermissionError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_own(directory: int) -> bool:
    """Whether nobody but root and we may change what is in it."""
    facts = os.fstat(directory)
    return facts.st_uid in (0, os.geteuid()) and not facts.st_mode & 0o022 and not _is_fuse(directory)


def _is_fuse(directory: int) -> bool:
    """Whether a program says what is there, and whose it is. Any user may mount one where he may write
    (fusermount(1)); with user_allow_other in fuse.conf root sees it, too."""
    return _kind(directory) == _FUSE


def _kind(directory: int) -> int:
    """The kind of file system an open directory lies on, as statfs(2) numbers them."""
    facts = (ctypes.c_long * 64)()  # struct statfs begins with f_type, and is shorter
    if _C.fstatfs(directory, ctypes.byref(facts)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(facts[0])


def _beneath(top: int, names: list[str]) -> int:
    """Open a directory below `top`: no link on the way, and never out of it."""
    if not names:
        return os.open(".", _WALK, dir_fd=top)
    if not _has_openat2():
        return _one_by_one(top, names)
    for _ in range(_TRIES):
        try:
            return _openat2(top, "/".join(names))
        except (BlockingIOError, InterruptedError):  # somebody renames or mounts, or a signal came, meanwhile
            continue
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _openat2(top: int, path: str) -> int:
    how = _How(flags=_WALK, mode=0, resolve=_BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    found = _C.syscall(_OPENAT2, top, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)


@cache
def _has_openat2() -> bool:
    """Whether the kernel has it, and lets us: a filter of system calls may not know it."""
    root = os.open("/", _WALK)
    try:
        os.close(_openat2(root, "."))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def _one_by_one(top: int, names: list[str]) -> int:
    """The same on a kernel before 5.6."""
    here = os.open(".", _WALK, dir_fd=top)
    for name in names:
        try:
            if name == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            below = os.open(name, _WALK, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def explained(failure: OSError, path: Path) -> Exception:
    if failure.errno in _IN_THE_WAY:
        return Refused(
            f"{path}: a link, or something else that is no directory or file, lies there or on the way, "
            f"where others than root may have put it: zbackup does not follow it; remove it"
        )
    return type(failure)(failure.errno, failure.strerror, str(path))


def require_only_roots(directory: Path) -> None:
    """Raise Refused when others than root and we may change a directory, or put another in its place.

    Above it, one that others may write to will do if it leaves to each what is his (sticky) and the next
    one below is there. Of one that is not there yet, those above it count.
    """
    for path in dict.fromkeys((Path(os.path.realpath(directory)), directory)):
        for above, entry in pairwise([*reversed(path.parents), path]):
            facts = above.stat()
            free = bool(facts.st_mode & 0o022)
            if not _is_roots(facts) or (free and not facts.st_mode & modes.S_ISVTX) or _is_told(above):
                raise _open_to_others(above, directory)
            if not os.path.lexists(entry):
                if free:
                    raise Refused(f"{entry} is missing, and not only root can make it: create it as root")
                return
            if not _is_roots(entry.lstat()):
                raise _open_to_others(entry, directory)
        if path.stat().st_mode & 0o022 or _is_told(path):
            raise _open_to_others(path, directory)


def _is_told(directory: Path) -> bool:
    """Whether a program says what is in it: see _is_fuse."""
    found = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        return _is_fuse(found)
    finally:
        os.close(found)


def _is_roots(facts: os.stat_result) -> bool:
    return facts.st_uid in (0, os.geteuid())


def _open_to_others(which: Path, wanted: Path) -> Refused:
    return Refused(
        f"{wanted} has to be root's alone, and {which} can be changed by others: "
        f"give it to root, or move it away"
    )
