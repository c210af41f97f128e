"""Files where others may write: links, FIFOs, hard links, directories swapped between two steps."""

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zbackup.model.errors import Refused
from zbackup.proc import safe_path, secure_files

THEIRS = (27, 27)
ORIGINAL = os.getpid()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@pytest.fixture(params=["openat2", "one by one"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new kernel does it, and as we do it on an old one."""
    if request.param == "one by one":
        monkeypatch.setattr(safe_path, "_has_openat2", lambda: False)
    else:
        assert safe_path._has_openat2()


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A file of root's, in a directory of root's, that nothing may touch."""
    home = tmp_path / "roots"
    home.mkdir()
    file = home / "file"
    file.write_text("root's")
    file.chmod(0o600)
    before = (file.lstat().st_mode, file.lstat().st_uid, home.lstat().st_mode, home.lstat().st_uid)
    yield file
    assert file.read_text() == "root's"
    assert [each.name for each in home.iterdir()] == ["file"]
    assert (file.lstat().st_mode, file.lstat().st_uid, home.lstat().st_mode, home.lstat().st_uid) == before


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A directory that somebody else may write to, with a directory and a file in it."""
    directory = tmp_path / "theirs"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub" / "file").write_text("theirs")
    directory.chmod(0o777)
    (directory / "sub").chmod(0o777)
    return directory


def test_a_signal_meanwhile_is_no_failure(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """openat2(2) may say EINTR, which Python does not see to where the C library is called."""
    once, real = [True], safe_path._openat2

    def interrupted(top: int, path: str) -> int:
        if once and once.pop():
            raise InterruptedError(errno.EINTR, "Interrupted system call")
        return real(top, path)

    monkeypatch.setattr(safe_path, "_openat2", interrupted)
    assert secure_files.read_text(theirs / "sub" / "file") == "theirs"


OPERATIONS: dict[str, Callable[[Path], object]] = {
    "read": secure_files.read_text,
    "size": secure_files.size,
    "append": lambda path: secure_files.open_to_append(path).write(b"more"),
    "truncate": lambda path: secure_files.truncate(path, 0, THEIRS[0]),
    "share": lambda path: secure_files.open_shared(path, os.O_RDWR, 0o664),
    "list": lambda path: secure_files.names(path.parent),
    "change mode": lambda path: secure_files.set_mode(path.parent, 0o700),
    "write": lambda path: secure_files.write_new(path, "new"),
    "replace": lambda path: secure_files.replace(path, "new"),
    "rename": lambda path: secure_files.rename(path, "other"),
    "make": lambda path: secure_files.make_directory(path.parent / "made"),
    "give": lambda path: secure_files.make_directory(path.parent, owner=(os.geteuid(), os.getegid())),
    "look": secure_files.stat,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_linked_directory_is_not_entered(theirs: Path, canary: Path, name: str) -> None:
    (theirs / "link").symlink_to(canary.parent)
    with pytest.raises(Refused, match="does not follow it"):
        OPERATIONS[name](theirs / "link" / "file")


@pytest.mark.parametrize("name", ["unlink", "remove tree"])
def test_nothing_is_removed_through_a_linked_directory(theirs: Path, canary: Path, name: str) -> None:
    (theirs / "link").symlink_to(canary.parent)
    if name == "unlink":
        with pytest.raises(Refused, match="does not follow it"):
            secure_files.unlink(theirs / "link" / "file")
    else:
        secure_files.remove_tree(theirs / "link" / "file")


@pytest.mark.parametrize("name", ["read", "size", "append", "truncate", "share"])
def test_a_linked_file_is_not_opened(theirs: Path, canary: Path, name: str) -> None:
    (theirs / "file").symlink_to(canary)
    with pytest.raises(Refused, match="a link"):
        OPERATIONS[name](theirs / "file")


@pytest.mark.parametrize("name", ["write", "replace"])
def test_a_linked_file_is_replaced_itself(theirs: Path, canary: Path, name: str) -> None:
    (theirs / "file").symlink_to(canary)
    (theirs / "file.new").symlink_to(canary)
    OPERATIONS[name](theirs / "file")
    assert not (theirs / "file").is_symlink()
    assert (theirs / "file").read_text() == "new"


def test_a_linked_directory_is_removed_itself(theirs: Path, canary: Path) -> None:
    (theirs / "sub" / "link").symlink_to(canary.parent)
    (theirs / "link").symlink_to(canary.parent)
    secure_files.remove_tree(theirs / "link")
    secure_files.remove_tree(theirs / "sub")
    assert list(theirs.iterdir()) == []


@pytest.mark.parametrize("name", ["read", "size", "append", "truncate", "share"])
@pytest.mark.timeout(20)
def test_a_fifo_hangs_nobody(theirs: Path, name: str) -> None:
    os.mkfifo(theirs / "file")
    with pytest.raises(Refused):
        OPERATIONS[name](theirs / "file")


@pytest.mark.timeout(20)
def test_a_fifo_of_a_running_servers_hangs_nobody(theirs: Path) -> None:
    """A pid file is read behind links."""
    os.mkfifo(theirs / "fifo")
    (theirs / "mysqld.pid").symlink_to(theirs / "fifo")
    with pytest.raises(Refused, match="is a FIFO"):
        secure_files.read_linked(theirs / "mysqld.pid", 64)
    with pytest.raises(Refused, match="no regular file"):
        secure_files.read_as((os.geteuid(), os.getegid()), os.getgroups(), theirs / "fifo")


@pytest.mark.parametrize("name", ["append", "truncate", "share"])
def test_a_hard_link_is_not_changed(theirs: Path, canary: Path, name: str) -> None:
    os.link(canary, theirs / "file")
    with pytest.raises(Refused, match="hard link"):
        OPERATIONS[name](theirs / "file")


def test_what_is_too_long_is_not_read(theirs: Path) -> None:
    with pytest.raises(Refused, match="longer than the 3 bytes"):
        secure_files.read_text(theirs / "sub" / "file", 3)
    with pytest.raises(Refused, match="longer than the 3 bytes"):
        secure_files.read_linked(theirs / "sub" / "file", 3)
    with pytest.raises(Refused, match="longer than the 3 bytes"):
        secure_files.read_as((os.geteuid(), os.getegid()), os.getgroups(), theirs / "sub" / "file", 3)
    assert secure_files.read_end(theirs / "sub" / "file", 3) == b"irs"
    assert secure_files.read_end(theirs / "sub" / "none", 3) == b""


def test_links_of_our_own_are_followed(tmp_path: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/run may be reached as /var/run, and a datadir lie where root put a link to it."""
    # Below /tmp nobody's links count.
    monkeypatch.setattr(safe_path, "is_own", lambda fd: os.fstat(fd).st_mode & 0o1002 != 0o002)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "relative").symlink_to("../theirs/sub")
    (tmp_path / "a" / "absolute").symlink_to(theirs / "sub")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("relative", "absolute"):
        assert secure_files.read_text(tmp_path / "a" / name / "file") == "theirs"
        secure_files.replace(tmp_path / "a" / name / "file", "theirs")
    with pytest.raises(Refused):
        secure_files.read_text(tmp_path / "loop" / "file")


def test_no_path_leads_out(tmp_path: Path, theirs: Path) -> None:
    for path in (theirs / ".." / "theirs" / "sub" / "file", Path("relative"), Path("/")):
        with pytest.raises(Refused, match="not an absolute path"):
            secure_files.stat(path)


@pytest.mark.parametrize("name", [*OPERATIONS, "unlink", "remove tree"])
def test_a_directory_swapped_after_it_was_opened(
    theirs: Path, canary: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the walk and the work the directory becomes a link: the one that was walked counts."""
    walked = safe_path._beneath

    def swapped(top: int, parts: list[str]) -> int:
        found = walked(top, parts)
        if (theirs / "sub").is_dir() and not (theirs / "sub").is_symlink():
            (theirs / "sub").rename(theirs / "away")
            (theirs / "sub").symlink_to(canary.parent)
        return found

    monkeypatch.setattr(safe_path, "_beneath", swapped)
    others = {"unlink": secure_files.unlink, "remove tree": secure_files.remove_tree}
    try:
        (OPERATIONS | others)[name](theirs / "sub" / "file")
    except (Refused, OSError) as failure:
        print(failure)  # the canary's own fixture looks at what matters


def test_directories_that_are_swapped_all_the_time(theirs: Path, canary: Path) -> None:
    """What an attacker's loop can do in a second."""
    (theirs / "evil").symlink_to(canary.parent)
    stop = threading.Event()

    def swap() -> None:
        steps = (("sub", "spare"), ("evil", "sub"), ("sub", "evil"), ("spare", "sub"))
        while not stop.is_set():
            for old, new in steps:
                with contextlib.suppress(OSError):  # a directory was made there meanwhile
                    (theirs / old).rename(theirs / new)

    swapping = threading.Thread(target=swap)
    swapping.start()
    done = refused = 0
    until = time.monotonic() + 1
    try:
        while time.monotonic() < until:
            for operation in OPERATIONS.values():
                try:
                    operation(theirs / "sub" / "file")
                    done += 1
                except (Refused, OSError):
                    refused += 1
    finally:
        stop.set()
        swapping.join()
    assert done and refused


@needs_root
def test_a_user_reads_what_he_may(tmp_path: Path) -> None:
    secret, own = tmp_path / "secret", tmp_path / "own"
    secret.write_text("root's")
    secret.chmod(0o600)
    own.write_text("x" * 200_000)
    for directory in (tmp_path, *list(tmp_path.parents)[:-2]):
        directory.chmod(directory.stat().st_mode | 0o011)
    own.chmod(0o640)
    os.chown(own, 0, 99)
    assert secure_files.read_as(THEIRS, [27, 99], own) == b"x" * 200_000
    with pytest.raises(PermissionError):
        secure_files.read_as(THEIRS, [27], own)
    with pytest.raises(PermissionError):
        secure_files.read_as(THEIRS, [27], secret)
    with pytest.raises(FileNotFoundError):
        secure_files.read_as(THEIRS, [27], tmp_path / "none")
    assert os.geteuid() == 0


def test_who_reads_for_another_never_comes_back(tmp_path: Path) -> None:
    """Whatever it fails by: there would be two of our caller, and both would clean up."""
    trace = tmp_path / "trace"
    with contextlib.suppress(OSError, ValueError):
        try:
            secure_files.read_as((os.geteuid(), os.getegid()), os.getgroups(), Path("/with\0NUL/x"))
        finally:
            with trace.open("a") as file:
                file.write(f"{os.getpid()}\n")
            if os.getpid() != ORIGINAL:
                os._exit(1)
    assert trace.read_text() == f"{ORIGINAL}\n"


@needs_root
def test_a_directory_that_cannot_be_given_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for root without CAP_CHOWN."""
    (tmp_path / "run").mkdir()
    os.chown(tmp_path / "run", *THEIRS)
    (tmp_path / "run").chmod(0o2771)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    with monkeypatch.context() as without:
        without.setattr(os, "fchown", refuse)
        with pytest.raises(PermissionError):
            secure_files.give_to_root(tmp_path / "run", 0o755)
    found = (tmp_path / "run").stat()
    assert (found.st_uid, found.st_mode & 0o7777) == (27, 0o2771)


@needs_root
def test_directories_of_others_are_not_taken(tmp_path: Path, theirs: Path) -> None:
    os.chown(theirs / "sub", 99, 99)
    with pytest.raises(Refused, match="belongs to user id 99"):
        secure_files.make_directory(theirs / "sub", owner=THEIRS)
    (theirs / "roots").mkdir()
    os.chown(theirs / "roots", 0, 0)
    secure_files.make_directory(theirs / "made", mode=0o700, owner=THEIRS)
    secure_files.make_directory(theirs / "made", mode=0o755, owner=THEIRS)
    found = (theirs / "made").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (27, 27, 0o755)


@needs_root
def test_the_place_of_what_is_roots_alone(tmp_path: Path, theirs: Path) -> None:
    safe_path.require_only_roots(tmp_path / "roots" / "not there yet")
    (tmp_path / "roots").mkdir()
    safe_path.require_only_roots(tmp_path / "roots")
    with pytest.raises(Refused, match="theirs can be changed by others: give it to root"):
        safe_path.require_only_roots(theirs / "sub")
    theirs.chmod(0o1777)
    with pytest.raises(Refused, match="sub can be changed by others"):
        safe_path.require_only_roots(theirs / "sub")
    with pytest.raises(Refused, match="is missing, and not only root can make it"):
        safe_path.require_only_roots(theirs / "none")
    (theirs / "sub").chmod(0o755)
    safe_path.require_only_roots(theirs / "sub")
    (tmp_path / "roots" / "link").symlink_to(theirs)
    with pytest.raises(Refused, match="theirs can be changed by others"):
        safe_path.require_only_roots(tmp_path / "roots" / "link")


def test_a_directory_that_is_busy_stays(tmp_path: Path) -> None:
    (tmp_path / "full" / "x").mkdir(parents=True)
    secure_files.remove_empty(tmp_path / "full")
    secure_files.remove_empty(tmp_path / "full" / "x")
    secure_files.remove_empty(tmp_path / "none")
    assert list((tmp_path / "full").iterdir()) == []


def test_errors_keep_their_kind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        secure_files.read_text(tmp_path / "none" / "file")
    assert missing.value.errno == errno.ENOENT and "none/file" in str(missing.value)
    assert not secure_files.exists(tmp_path / "none")
    assert not secure_files.is_regular(tmp_path)


def test_a_program_of_others_vouches_for_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a FUSE file system, its owner is what its program says: with user_allow_other, also to root."""
    below = tmp_path / "fuse/directory"
    below.mkdir(parents=True)
    safe_path.require_only_roots(below)
    with safe_path.opened_directory(below.parent) as found:
        assert safe_path.is_own(found)  # so that links in it are followed
        where, kind = os.fstat(found).st_ino, safe_path._kind
        monkeypatch.setattr(
            safe_path, "_kind", lambda at: 0x65735546 if os.fstat(at).st_ino == where else kind(at)
        )
        assert not safe_path.is_own(found)
    with safe_path.opened_directory(below):
        pass  # what is no link leads nowhere else
    with pytest.raises(Refused, match=r"fuse can be changed by others"):
        safe_path.require_only_roots(below)
