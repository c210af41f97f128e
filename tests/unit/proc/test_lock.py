"""One at a time, across processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zbackup.model.errors import Refused, Taken
from zbackup.proc.lock import exclusive, lock_owner

HOLDER = """
import sys, time
from pathlib import Path
from zbackup.proc.lock import exclusive
with exclusive(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_process(path: Path, what: str = "zbackup snapshot") -> Iterator["subprocess.Popen[str]"]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), what], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        yield holder
    finally:
        holder.kill()
        holder.wait()


def test_the_second_is_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "run" / "shop.lock"
    with another_process(path) as holder:
        began = time.monotonic()
        with pytest.raises(Taken) as taken, exclusive(path, "zbackup restore", wait=0.3):
            pytest.fail("both hold it")
        assert 0.3 <= time.monotonic() - began < 5
    said = f"shop is being worked on by zbackup snapshot (pid {holder.pid}): try again when it is done"
    assert str(taken.value) == said


def test_sigkill_of_the_holder_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "shop.lock"
    with another_process(path) as holder:
        holder.send_signal(signal.SIGKILL)
        with exclusive(path, "zbackup restore", wait=10):
            assert path.read_text() == f"zbackup restore (pid {os.getpid()})"


def test_whoever_waits_gets_it_when_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "shop.lock"
    with another_process(path) as holder:
        timer = multiprocessing.get_context("fork").Process(target=_kill_later, args=(holder.pid,))
        timer.start()
        with exclusive(path, "zbackup restore", wait=20):
            assert holder.wait(5) == -signal.SIGKILL
        timer.join()


def _kill_later(pid: int) -> None:
    time.sleep(0.5)
    os.kill(pid, signal.SIGKILL)


def test_an_error_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "shop.lock"
    with pytest.raises(RuntimeError), exclusive(path, "one"):
        raise RuntimeError
    with exclusive(path, "two", wait=0):
        pass


def test_a_short_name_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "shop.lock"
    with exclusive(path, "a very long description of what is going on"):
        pass
    with exclusive(path, "x"):
        assert path.read_text() == f"x (pid {os.getpid()})"


def test_two_instances_do_not_meet(tmp_path: Path) -> None:
    with another_process(tmp_path / "shop.lock"), exclusive(tmp_path / "shop2.lock", "x", wait=0):
        pass


def test_a_child_does_not_inherit_it(tmp_path: Path) -> None:
    """A server that we start and that outlives us must not keep our lock."""
    path = tmp_path / "shop.lock"
    with exclusive(path, "zbackup restore"):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with exclusive(path, "two", wait=0):
            pass
    finally:
        child.kill()
        child.wait()


def test_who_waits_is_told_for_whom(tmp_path: Path) -> None:
    lock, told = tmp_path / "shop.lock", list[str]()
    with another_process(lock, "zbackup prune") as them, pytest.raises(Taken):  # noqa: SIM117
        with exclusive(lock, "zbackup snapshot", wait=1.5, waiting=told.append):
            pass
    assert told == [f"waiting for zbackup prune (pid {them.pid}), which works on shop"]


def test_who_holds_it_can_be_asked_without_taking_it(tmp_path: Path) -> None:
    lock = tmp_path / "shop.lock"
    assert lock_owner(lock) == ""
    with another_process(lock, "zbackup prune") as them:
        assert lock_owner(lock) == f"zbackup prune (pid {them.pid})"
    assert lock_owner(lock) == "", "what the last one wrote is still in the file"


def test_a_group_may_share_it(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        with exclusive(tmp_path / "shop.lock", "zbackup snapshot"):
            assert (tmp_path / "shop.lock").stat().st_mode & 0o777 == 0o664
    finally:
        os.umask(old)


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "shop.lock").mkdir()
    with pytest.raises(Refused, match=r"cannot use the lock file .*shop\.lock: Is a directory"):  # noqa: SIM117
        with exclusive(tmp_path / "shop.lock", "zbackup snapshot"):
            pass


def test_who_waits_for_another_process_is_told_and_who_waits_for_his_own_is_not(tmp_path: Path) -> None:
    """The daemon has several jobs at a time, and warned of waiting for itself."""
    path, said = tmp_path / "shop.lock", list[str]()
    with (
        exclusive(path, "zbackup ship"),
        pytest.raises(Taken, match=rf"zbackup ship \(pid {os.getpid()}\)"),
        exclusive(path, "zbackup snapshot", wait=1.4, waiting=said.append),
    ):
        pytest.fail("both hold it")
    assert said == []
    with (
        another_process(path) as holder,
        pytest.raises(Taken),
        exclusive(path, "zbackup snapshot", wait=1.4, waiting=said.append),
    ):
        pytest.fail("both hold it")
    assert said == [f"waiting for zbackup snapshot (pid {holder.pid}), which works on shop"]
