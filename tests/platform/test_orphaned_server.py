"""A server whose maker was killed the moment it was started is found again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zbackup.proc.detached import Confinement, Process, launch
from zbackup.proc.secure_files import write_new

MAKER = """
import os, signal, sys
from pathlib import Path
from zbackup.proc.detached import Confinement, launch
confinement = Confinement(hide=(), bind=(), uid=27, gid=28)
launch(["sleep", "120"], confinement, Path(sys.argv[1]), note=Path(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


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
