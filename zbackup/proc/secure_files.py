"""Files below directories that are not root's alone. The only way to touch them.

Whoever may write to a directory on the way to a file can put a link, a FIFO or another directory there, at
any moment between two steps of ours. So a path is walked by descriptors, from "/" on. Links are followed
while nobody but root and we may change the directories they lie in. Below the first directory that somebody
else may change, no link is followed and nothing leads out of it (openat2(2): RESOLVE_BENEATH,
RESOLVE_NO_SYMLINKS), and what is done is done to the open file, never to a name that may be another by now.
The last name of a path is never followed, wherever it lies.

Raise Refused when a link, a FIFO or a device lies where a file or directory should; OSError as usual else.
"""

import contextlib
import errno
import os
import shutil
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from zbackup.model.errors import Refused
from zbackup.proc.safe_path import explained, is_own, opened_parent, rename_for_good, require_only_roots

LIMIT = 16 << 20
"""Bytes of a file that is read as a whole."""
_PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 100
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


# reading


def stat(path: Path) -> os.stat_result:
    """What is there, be it a link itself."""
    with opened_parent(path) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)


def exists(path: Path) -> bool:
    """Whether anything is there that we can see."""
    try:
        stat(path)
    except (FileNotFoundError, PermissionError, Refused):
        return False
    return True


def is_regular(path: Path) -> bool:
    """Whether a regular file is there: no link, no FIFO, no device."""
    try:
        return modes.S_ISREG(stat(path).st_mode)
    except (FileNotFoundError, PermissionError, Refused):
        return False


def size(path: Path) -> int:
    """Bytes of a regular file."""
    with open_regular(path) as file:
        return os.fstat(file.fileno()).st_size


def names(directory: Path) -> list[str]:
    """What is in a directory."""
    with _directory(directory) as descriptor:
        return os.listdir(descriptor)  # noqa: PTH208  there is no path, on purpose


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file for reading."""
    with opened_parent(path) as (parent, name):
        return os.fdopen(_opened(parent, name, os.O_RDONLY, path), "rb")


def read_bytes(path: Path, limit: int = LIMIT) -> bytes:
    """The whole of a regular file. Raise Refused when it is longer than `limit`."""
    with open_regular(path) as file:
        return _bounded(file, path, limit)


def read_text(path: Path, limit: int = LIMIT) -> str:
    """The same as UTF-8, bytes that are none as surrogates."""
    return read_bytes(path, limit).decode("utf-8", "surrogateescape")


def read_end(path: Path, count: int) -> bytes:
    """The last `count` bytes of a regular file; b"" when there is none."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read(count)
    except FileNotFoundError:
        return b""


def read_own(path: Path) -> str:
    """The text of a file that write_new made, by root or by us. Raise FileNotFoundError, or ValueError when
    it is somebody else's: he could have written anything into it."""
    try:
        with open_regular(path) as file:
            owner = os.fstat(file.fileno()).st_uid
            if owner not in (0, os.geteuid()):
                raise ValueError(f"{path} belongs to user id {owner}")
            return _bounded(file, path, LIMIT).decode()
    except FileNotFoundError:
        raise
    except (OSError, Refused) as failure:
        raise ValueError(f"{path} is not the file it should be: {failure}") from failure


def read_linked(path: Path, limit: int = LIMIT) -> str:
    """The text of a file that may lie behind links: a running server's own, or one that the operator named.

    What it says must be believed by nobody. Only a regular file is opened, and no more than `limit` read.
    """
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        with os.fdopen(_reopened(found, os.O_RDONLY, path), "rb") as file:
            return _bounded(file, path, limit).decode("utf-8", "surrogateescape")
    finally:
        os.close(found)


def read_as(owner: tuple[int, int], groups: list[int], path: Path, limit: int = LIMIT) -> bytes:
    """What the user `owner` (uid, gid), a member of `groups`, can read there: links lead him where they
    lead.

    A process of its own becomes that user, for good. Raise OSError as he gets it, Refused as read_bytes does.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover  another process
        status = errno.EIO
        try:
            status = _child(owner, groups, path, writing)
        finally:  # whatever happens, Ctrl-C too: there must not be two of our caller
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        found = file.read(limit + 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if len(found) > limit:
        raise _too_long(path, limit)
    if status == errno.EINVAL:
        raise Refused(f"{path} is no regular file")
    if status != 0:
        failed = status if status > 0 else errno.EIO
        raise OSError(failed, os.strerror(failed), str(path))
    return found


def _child(owner: tuple[int, int], groups: list[int], path: Path, sink: int) -> int:
    """Its exit status: an errno, 0 if it could be read."""
    try:
        uid, gid = owner
        if os.geteuid() == 0:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not modes.S_ISREG(os.fstat(source).st_mode):
            return errno.EINVAL
        while data := os.read(source, 1 << 16):
            os.write(sink, data)
    except BrokenPipeError:
        return 0  # longer than anybody wanted
    except OSError as failure:
        return failure.errno or errno.EIO
    return 0


# changing


def write_new(
    path: Path, text: str | bytes, *, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> None:
    """Write a file that is certainly new and certainly ours, in place of what is there now.

    A link is replaced, never followed. With `owner` (uid, gid) the file is given away, empty, before it is
    written.
    """
    with opened_parent(path) as (parent, name):
        _write_new(parent, path, name, text, mode, owner)


def replace(
    path: Path, text: str | bytes, *, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> None:
    """The same in one step: whoever looks finds the old content or the new one, also after power fails."""
    with opened_parent(path) as (parent, name):
        fresh = f"{name}.new"
        try:
            _write_new(parent, path, fresh, text, mode, owner)
            rename_for_good(parent, fresh, name)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(fresh, dir_fd=parent)
            raise


def rename(path: Path, name: str) -> None:
    """Give a file another name in its directory, in place of what has it now."""
    with opened_parent(path) as (parent, old):
        os.rename(old, name, src_dir_fd=parent, dst_dir_fd=parent)


def open_to_append(path: Path, mode: int = 0o640) -> IO[bytes]:
    """Open a regular file, made if it is not there, to add to its end. It has to have this one name only."""
    return os.fdopen(open_shared(path, os.O_WRONLY | os.O_APPEND, mode), "ab")


def open_shared(path: Path, flags: int, mode: int) -> int:
    """Open a file that others may have put there, or make it: regular, and with this one name only."""
    safe = flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with opened_parent(path) as (parent, name):
        descriptor = os.open(name, safe, mode, dir_fd=parent)
    try:
        found = os.fstat(descriptor)
        _require_regular(found, path)
        if found.st_nlink != 1:
            raise Refused(f"{path} is a file of another name, too (hard link): remove it")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def truncate(path: Path, length: int, owner: int) -> None:
    """Cut a regular file of the user `owner`, or one with no other name, off at `length` bytes."""
    with opened_parent(path) as (parent, name):
        descriptor = _opened(parent, name, os.O_WRONLY, path)
        try:
            found = os.fstat(descriptor)
            if found.st_uid != owner and found.st_nlink != 1:
                raise Refused(f"{path} belongs to user id {found.st_uid} and has another name (hard link)")
            os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)


def make_directory(path: Path, *, mode: int = 0o755, owner: tuple[int, int] | None = None) -> None:
    """Make a directory, or take one that is there if it is root's, ours or its owner's; parents too.

    It gets `mode` and `owner` (uid, gid) in any case. Raise Refused when it is somebody else's.
    """
    if path.parent != Path("/") and not exists(path.parent):
        make_directory(path.parent)
    with opened_parent(path) as (parent, name):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        with _at(parent, name, path) as descriptor:
            found = os.fstat(descriptor).st_uid
            allowed = {os.geteuid(), *((owner[0],) if owner else ())}
            if found not in (allowed | {0} if is_own(parent) else allowed):
                raise Refused(f"{path} belongs to user id {found}: remove it, or give it to root")
            if owner:
                os.fchown(descriptor, *owner)
            if owner or found == os.geteuid():
                os.fchmod(descriptor, mode)


def claim_for_root(directory: Path) -> None:
    """See to it, as root, that a directory is there which is root's alone. Raise Refused when it is not.

    What is made in a directory that leaves to each what is his (sticky) is root's, or was there before.
    """
    if os.geteuid() == 0:
        ensure_directory(directory)
    require_only_roots(directory)


def ensure_directory(path: Path, *, mode: int = 0o755) -> None:
    """Make a directory of ours unless something is there."""
    if not exists(path):
        make_directory(path, mode=mode)


def set_mode(directory: Path, mode: int) -> None:
    """Change who may enter a directory."""
    with _directory(directory) as descriptor:
        os.fchmod(descriptor, mode)


def give_to_root(directory: Path, mode: int) -> None:
    """Take a directory from its owner. What he put there stays."""
    with _directory(directory) as descriptor:
        before = os.fstat(descriptor)
        os.fchmod(descriptor, mode & before.st_mode)
        try:
            os.fchown(descriptor, 0, 0)
        except OSError:
            os.fchmod(descriptor, modes.S_IMODE(before.st_mode))
            raise
        os.fchmod(descriptor, mode)


def sync_directory(directory: Path) -> None:
    """See to it that what was made in a directory outlasts a power failure."""
    with _directory(directory) as descriptor:
        os.fsync(descriptor)


def unlink(path: Path) -> None:
    """Remove a file, or a link itself; nothing there is as good."""
    with contextlib.suppress(FileNotFoundError), opened_parent(path) as (parent, name):
        os.unlink(name, dir_fd=parent)


def remove_empty(directory: Path) -> None:
    """Remove a directory if there is one and nothing is in it."""
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        opened_parent(directory) as (parent, name),
    ):
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as failure:
            if failure.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                raise


def remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it, links themselves and not where they lead.

    What cannot be removed stays.
    """
    with contextlib.suppress(FileNotFoundError, Refused), opened_parent(path) as (parent, name):
        try:
            os.unlink(name, dir_fd=parent)
        except (IsADirectoryError, PermissionError):
            with contextlib.suppress(RecursionError):  # who nests a thousand directories keeps them
                shutil.rmtree(name, ignore_errors=True, dir_fd=parent)


# opening


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    with opened_parent(path) as (parent, name), _at(parent, name, path) as descriptor:
        yield descriptor


@contextmanager
def _at(parent: int, name: str, path: Path) -> Iterator[int]:
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=parent)
    except OSError as failure:
        raise explained(failure, path) from failure
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(parent: int, name: str, flags: int, path: Path) -> int:
    """A regular file that is there. It is looked at before it is opened, which alone can change a device."""
    found = os.open(name, _PATH_ONLY, dir_fd=parent)
    try:
        return _reopened(found, flags, path)
    finally:
        os.close(found)


def _reopened(found: int, flags: int, path: Path) -> int:
    _require_regular(os.fstat(found), path)
    return os.open(f"/proc/self/fd/{found}", flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _require_regular(found: os.stat_result, path: Path) -> None:
    if not modes.S_ISREG(found.st_mode):
        kind = {modes.S_IFLNK: "a link", modes.S_IFIFO: "a FIFO", modes.S_IFDIR: "a directory"}
        what = kind.get(modes.S_IFMT(found.st_mode), "a socket or device")
        raise Refused(f"{path} is {what} where a regular file should be: zbackup does not open it")


def _write_new(
    parent: int, path: Path, name: str, text: str | bytes, mode: int, owner: tuple[int, int] | None
) -> None:
    descriptor = _created(parent, path, name, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        if owner:
            os.fchown(descriptor, *owner)
        file.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))


def _created(parent: int, path: Path, name: str, mode: int) -> int:
    """A new file, in place of what is there, and of what somebody puts there again and again."""
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        with contextlib.suppress(FileExistsError):
            return os.open(name, _NEW, mode, dir_fd=parent)
    raise Refused(f"{path.with_name(name)} is put there by somebody else each time it is removed")


def _bounded(file: IO[bytes], path: Path, limit: int) -> bytes:
    found = file.read(limit + 1)
    if len(found) > limit:
        raise _too_long(path, limit)
    return found


def _too_long(path: Path, limit: int) -> Refused:
    return Refused(f"{path} is longer than the {limit} bytes that such a file may have")
