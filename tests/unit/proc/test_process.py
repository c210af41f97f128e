"""A process is told from another one that has its number by now."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zbackup.model.recovery import Limits
from zbackup.proc import detached
from zbackup.proc.detached import Process, last_lines


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def identity(child: "subprocess.Popen[bytes]") -> Process:
    found = Process.of(child.pid)
    assert found is not None
    return found


def test_it_is_itself_and_survives_a_file(sleeper: "subprocess.Popen[bytes]") -> None:
    found = identity(sleeper)
    assert found.alive
    assert Process.parse(f"{found}\n") == found


def test_its_start_is_the_kernels_word(sleeper: "subprocess.Popen[bytes]") -> None:
    ticks_since_boot = identity(sleeper).started / os.sysconf("SC_CLK_TCK")
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 <= uptime - ticks_since_boot < 30


def test_the_same_number_with_another_start_is_another_process(sleeper: "subprocess.Popen[bytes]") -> None:
    found = identity(sleeper)
    older = Process(found.pid, found.started - 1)
    assert not older.alive
    older.send(signal.SIGKILL)
    assert older.stop(1)
    assert older.wait(0)
    time.sleep(0.1)
    assert sleeper.poll() is None


def test_the_dead_and_the_unreaped_are_not_alive(sleeper: "subprocess.Popen[bytes]") -> None:
    found = identity(sleeper)
    sleeper.kill()
    assert found.wait(5)
    assert Path(f"/proc/{found.pid}").exists(), "not reaped yet"
    assert Process.of(found.pid) is None
    sleeper.wait()
    assert Process.of(found.pid) is None
    found.send(signal.SIGTERM)


def test_a_name_made_to_confuse_the_parser() -> None:
    odd = "x) Z 1 (y"
    child = subprocess.Popen(
        [sys.executable, "-c", f"open('/proc/self/comm','w').write({odd!r}); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout and child.stdout.readline()
        assert odd in Path(f"/proc/{child.pid}/stat").read_text()
        assert identity(child).alive
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("text", ["", "12", "12 x", "a b", "1 2 3"])
def test_what_is_not_an_identity_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        Process.parse(text)


def test_stop_asks_first(sleeper: "subprocess.Popen[bytes]") -> None:
    assert identity(sleeper).stop(10)
    assert sleeper.wait() == -signal.SIGTERM


def test_stop_kills_what_does_not_listen() -> None:
    child = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"], stdout=subprocess.PIPE
    )
    try:
        assert child.stdout and child.stdout.readline()
        assert not identity(child).stop(0.5)
        assert child.wait(5) == -signal.SIGKILL
    finally:
        child.kill()
        child.communicate()


def test_wait_gives_up_in_time(sleeper: "subprocess.Popen[bytes]") -> None:
    began = time.monotonic()
    assert not identity(sleeper).wait(0.2)
    assert 0.2 <= time.monotonic() - began < 3


def test_last_lines_of_a_log(tmp_path: Path) -> None:
    output = tmp_path / "server.log"
    assert last_lines(output) == ""
    output.write_text("".join(f"line {n}\n" for n in range(10_000)))
    assert last_lines(output, 2) == "line 9998\nline 9999"
    output.write_bytes(b"caf\xe9\n")
    assert last_lines(output) == "caf\ufffd"


def test_limits_are_systemd_s_to_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    both = Limits(nice=10, memory=1 << 30, cpu=150)
    monkeypatch.setattr(detached, "SYSTEMD", tmp_path)
    program, *options, end = detached._scope(both, "dev1")
    assert (program, end) == ("systemd-run", "--")
    assert {"--scope", "--property=MemoryMax=1073741824", "--property=CPUQuota=150%"} < set(options)
    assert detached._scope(both, "dev1") != detached._scope(both, "dev1"), "a name is given once"
    assert detached._scope(Limits(nice=10), "dev1") == ()
    monkeypatch.setattr(detached, "SYSTEMD", tmp_path / "none")
    assert detached._scope(both, "dev1") == ()


def test_one_whose_first_thread_alone_has_ended_is_alive() -> None:
    """It still has its files open and its mounts, which keep a clone's datasets busy."""
    threads = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "print('ready', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", threads], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        try:
            deadline = time.monotonic() + 10
            while " Z " not in Path(f"/proc/{child.pid}/stat").read_text():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            found = identity(child)
            assert found.alive
            found.send(signal.SIGKILL)
            assert found.wait(5)
        finally:
            child.kill()
