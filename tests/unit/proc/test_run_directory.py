"""The run directory's owner, and what becomes of one that was the daemon's."""

import errno
import fcntl
import os
import pwd
from pathlib import Path

import pytest

from zbackup.model.errors import Refused, Taken
from zbackup.proc.lock import exclusive
from zbackup.proc.run_directory import daemon_directory, own_directory, prepare

DAEMON = 3333
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """As systemd-tmpfiles made it before."""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    os.chown(run_dir, DAEMON, DAEMON)
    run_dir.chmod(0o2771)
    return run_dir


def facts(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_uid, found.st_mode & 0o7777


def test_a_new_one(tmp_path: Path) -> None:
    prepare(daemon_directory(tmp_path / "a" / "run"))
    assert facts(tmp_path / "a" / "run") == (os.geteuid(), 0o755)
    assert (tmp_path / "a" / "run" / ".daemon").is_dir()
    assert own_directory(tmp_path) == (tmp_path if os.geteuid() == 0 else tmp_path / ".daemon")


@needs_root
def test_root_takes_one_from_the_daemon(former: Path, tmp_path: Path) -> None:
    """What was planted there meanwhile is gone, or not followed; what is not zbackup's stays."""
    canary = tmp_path / "canary"
    canary.mkdir()
    for name in ("r1", ".daemon", "shop.lock"):
        (former / name).symlink_to(canary)
    (former / "other.lock").touch()
    (former / "r2").mkdir()
    os.chown(former / "r2", 27, 27)
    prepare(daemon_directory(former))
    assert sorted(each.name for each in former.iterdir()) == [".daemon", "r2"]
    assert facts(former) == (0, 0o755)
    assert facts(former / ".daemon") == (DAEMON, 0o2770)
    assert facts(former / "r2")[0] == 27
    assert facts(canary)[0] == 0 and not list(canary.iterdir())
    prepare(daemon_directory(former))
    assert facts(former / ".daemon") == (DAEMON, 0o2770)


@needs_root
def test_root_without_the_right_to_give_leaves_it_as_it_is(
    former: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the helper that systemd starts has it."""
    with monkeypatch.context() as without:
        without.setattr(os, "fchown", _refuse)
        with pytest.raises(Refused, match=r"install .*tmpfiles.conf, and run systemd-tmpfiles --create"):
            prepare(daemon_directory(former))
    assert facts(former) == (DAEMON, 0o2771)
    prepare(daemon_directory(former))
    assert facts(former) == (0, 0o755)


@needs_root
def test_root_makes_the_daemon_s_for_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes first must not keep the daemon out."""
    daemon = pwd.struct_passwd(("zbackup", "x", DAEMON, DAEMON, "", "/", "/bin/false"))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: {"zbackup": daemon}[name])
    shared = daemon_directory(tmp_path / "run")
    with monkeypatch.context() as without:
        without.setattr(os, "fchown", _refuse)
        with pytest.raises(Refused, match="run systemd-tmpfiles --create as root"):
            prepare(shared)
    assert not shared.exists()
    prepare(shared)
    assert facts(shared) == (DAEMON, 0o2770)
    assert facts(tmp_path / "run") == (0, 0o755)


def _refuse(*_: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@needs_root
def test_not_while_one_of_before_works(former: Path) -> None:
    with (former / "zbackup.daemon.lock").open("w") as held:
        held.write("zbackup daemon (pid 1)")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Refused, match=r"older version .*zbackup daemon \(pid 1\).*stop the daemon"):
            prepare(daemon_directory(former))
        assert facts(former) == (DAEMON, 0o2771)
    prepare(daemon_directory(former))
    assert facts(former)[0] == 0


@needs_root
@pytest.mark.parametrize(("owner", "mode"), [(DAEMON, 0o755), (0, 0o777), (0, 0o1777), (0, 0o775)])
def test_one_that_others_may_change_is_refused(tmp_path: Path, owner: int, mode: int) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    os.chown(run_dir, owner, owner)
    run_dir.chmod(mode)
    with pytest.raises(Refused, match=r"run_dir .*run can be changed by others than root: give it to root"):
        prepare(daemon_directory(run_dir))
    assert facts(run_dir) == (owner, mode)


@needs_root
def test_one_in_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "run").mkdir(parents=True)
    os.chown(theirs, DAEMON, DAEMON)
    with pytest.raises(Refused, match="theirs can be changed by others"):
        prepare(daemon_directory(theirs / "run"))


@needs_root
def test_a_lock_that_the_daemons_user_prepared(tmp_path: Path) -> None:
    """A link, a hard link or a FIFO in the directory that is his: nothing is followed, nothing hangs."""
    shared = daemon_directory(tmp_path / "run")
    prepare(shared)
    os.chown(shared, DAEMON, DAEMON)
    canary = tmp_path / "canary"
    canary.write_text("root's")
    (shared / "link.lock").symlink_to(canary)
    os.link(canary, shared / "hard.lock")
    os.mkfifo(shared / "fifo.lock")
    for name in ("link", "hard", "fifo"):
        with pytest.raises(Refused), exclusive(shared / f"{name}.lock", "zbackup restore", wait=0):
            pass
    assert canary.read_text() == "root's" and canary.stat().st_mode & 0o777 != 0o664


@needs_root
def test_root_and_the_daemon_share_locks(tmp_path: Path) -> None:
    shared = daemon_directory(tmp_path / "run")
    prepare(shared)
    os.chown(shared, DAEMON, DAEMON)
    shared.chmod(0o2770)
    for directory in (tmp_path, *list(tmp_path.parents)[:-2]):
        directory.chmod(directory.stat().st_mode | 0o011)
    lock = shared / "shop.lock"
    with exclusive(lock, "zbackup restore"):
        assert _as_daemon(lock) == "taken"
    assert _as_daemon(lock) == "free"


def _as_daemon(lock: Path) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(DAEMON, DAEMON, DAEMON)
        os.setresuid(DAEMON, DAEMON, DAEMON)
        try:
            with exclusive(lock, "zbackup daemon", wait=0):
                os.write(writing, b"free")
        except Taken:
            os.write(writing, b"taken")
        except (Refused, OSError) as failure:
            os.write(writing, str(failure).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as said:
        return said.read().decode()


@needs_root
def test_the_daemon_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for directory in (tmp_path, *list(tmp_path.parents)[:-2]):
        directory.chmod(directory.stat().st_mode | 0o011)
    said = _as_daemon(tmp_path / "run" / ".daemon" / "shop.lock")
    assert said.endswith(
        "run/.daemon is missing, and user id 3333 cannot make it: run systemd-tmpfiles --create as root"
    )
