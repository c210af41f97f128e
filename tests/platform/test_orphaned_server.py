"""A server that is started: found again when its maker was killed at once, told an order of any length, and
whom to ask for addresses."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.reach import let_reach
from tests.system.house import wait_until
from zbackup.proc.detached import Confinement, Process, last_lines, launch
from zbackup.proc.secure_files import write_new

MAKER = """
import os, signal, sys
from pathlib import Path
from zbackup.proc.detached import Confinement, launch
confinement = Confinement(hide=(), bind=(), uid=27, gid=28)
launch(["sleep", "120"], confinement, Path(sys.argv[1]), note=Path(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""

UID, GID = 27, 28


@pytest.fixture
def started() -> Iterator[list[Process]]:
    let_reach(Path(sys.executable))
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.kill(5)


def noted(note: Path) -> Process:
    deadline = time.monotonic() + 20
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return Process.parse(note.read_text())


def test_a_server_is_found_though_its_maker_was_killed_at_once(tmp_path: Path) -> None:
    note = tmp_path / "process"
    maker = subprocess.run([sys.executable, "-c", MAKER, tmp_path / "o", note], check=False, timeout=60)
    assert maker.returncode == -signal.SIGKILL
    process = noted(note)
    try:
        assert process.alive
    finally:
        process.send(signal.SIGKILL)
    assert process.wait(5)


def test_the_note_is_of_the_process_that_was_started(tmp_path: Path) -> None:
    confinement = Confinement(hide=(), bind=(), uid=27, gid=28)
    process = launch(["sleep", "120"], confinement, tmp_path / "o", note=tmp_path / "process")
    try:
        assert noted(tmp_path / "process") == process
    finally:
        process.send(signal.SIGKILL)
        process.wait(5)


def test_a_planted_link_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    """A server's run directory belongs to the server's user, and root writes there."""
    victim, planted = tmp_path / "victim", tmp_path / "init.sql"
    victim.write_text("root's")
    planted.symlink_to(victim)
    write_new(planted, "secret", mode=0o600, owner=(27, 28))
    assert (victim.read_text(), victim.stat().st_uid) == ("root's", 0)
    assert not planted.is_symlink()
    found = planted.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (27, 28, 0o600)
    assert planted.read_text() == "secret"


def test_a_directory_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "init.sql").mkdir()
    with pytest.raises(OSError, match=r"init\.sql"):
        write_new(tmp_path / "init.sql", "secret", mode=0o600)


def test_it_takes_a_very_long_order_and_reads_nothing(started: list[Process], tmp_path: Path) -> None:
    """Of more clones than the 900 whose mountpoints fit into one word of a command line."""
    hide = tuple(f"/srv/clones/{'long-name' * 10}-{number}/0" for number in range(20_000))
    confinement = Confinement(hide=hide, bind=(), uid=UID, gid=GID)
    reads = "import sys, time; print(repr(sys.stdin.read()), flush=True); time.sleep(60)"
    output = tmp_path / "o"
    started.append(launch((sys.executable, "-c", reads), confinement, output))
    wait_until("it has read", lambda: last_lines(output) != "", 60)
    assert last_lines(output) == "''"


@pytest.fixture
def resolver() -> Iterator[str]:
    """As systemd-resolved leaves it: a link to a file in /run. Then what the file says."""
    link, file = Path("/etc/resolv.conf"), Path("/run/resolve-test/stub.conf")
    before = link.read_text() if link.exists() else ""
    file.parent.mkdir(exist_ok=True)
    file.write_text("nameserver 127.0.0.77\n")
    link.unlink(missing_ok=True)
    link.symlink_to(file)
    yield file.read_text()
    link.unlink()
    link.write_text(before)


@pytest.mark.parametrize("calls_out", [True, False])
def test_one_that_calls_out_can_ask_for_addresses(
    resolver: str, started: list[Process], tmp_path: Path, *, calls_out: bool
) -> None:
    look = """
import os, time
try:
    print(repr(open("/etc/resolv.conf").read()), os.listdir("/run/resolve-test"), flush=True)
    open("/etc/resolv.conf", "w")
except OSError as refused:
    print(refused.strerror, flush=True)
time.sleep(60)
"""
    confinement = Confinement(hide=(), bind=(), uid=UID, gid=GID, network="host", calls_out=calls_out)
    output = tmp_path / "o"
    started.append(launch((sys.executable, "-c", look), confinement, output))
    wait_until("it has looked", lambda: "ile" in last_lines(output) or "enied" in last_lines(output), 60)
    there = f"{resolver!r} ['stub.conf']\n"
    assert last_lines(output) in (
        (f"{there}Read-only file system", f"{there}Permission denied")
        if calls_out
        else ("No such file or directory",)
    )
