"""Servers are found by what the kernel says of them, and not by what they call themselves."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zbackup.proc import listening
from zbackup.proc.listening import listens, running

FILES = re.compile(r"(ibdata\d+)|\S+\.index")
ME = Path("/proc/self/exe").readlink().name
SERVER = """
import os, socket, sys
held = open(sys.argv[1] + "/data base/ibdata1", "w"), open(sys.argv[1] + "/log/binlog.index", "w")
os.chdir(sys.argv[1])
s = socket.socket(socket.AF_UNIX); s.bind("sql server.sock"); s.listen()
t = socket.socket(); t.bind(("127.0.0.1", 0)); t.listen()
print(t.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_a_server_is_found_with_where_it_listens_and_what_it_has_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is one of all that run Python here, however many others do.
    monkeypatch.setattr(listening, "MOST_OF_A_USER", 1 << 20)
    monkeypatch.setattr(listening, "MOST", 1 << 20)
    (tmp_path / "data base").mkdir()
    (tmp_path / "log").mkdir()
    # What it calls itself is its own affair.
    argv = (sys.executable, "-c", SERVER, str(tmp_path), "--socket=/run/another.sock")
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        found = next(each for each in running((ME,), FILES)[0] if each.pid == process.pid)
        path = str(tmp_path / "sql server.sock")
        assert found.sockets == (path,)
        assert ("127.0.0.1", port) in found.ports
        assert found.directories == (str(tmp_path / "data base"), str(tmp_path / "log"))
        assert (found.uid, Path(found.program).name) == (os.geteuid(), ME)
        assert listens(path, process.pid)
        assert not listens(path, os.getpid())
        process.communicate("")


def test_a_name_alone_makes_no_server(tmp_path: Path) -> None:
    with subprocess.Popen(("mysqld", "60"), executable=shutil.which("sleep")) as process:
        assert process.pid not in {each.pid for each in running(("mysqld",), FILES)[0]}
        process.kill()


def test_a_socket_that_another_process_listens_at_is_not_this_ones(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as mine:
        mine.bind(str(tmp_path / "s"))
        mine.listen()
        assert listens(str(tmp_path / "s"), os.getpid())
        assert not listens(str(tmp_path / "s"), 1)
        assert not listens(str(tmp_path / "nobody"), os.getpid())


def a_process(proc: Path, pid: int, uid: int) -> None:
    """What the kernel shows of a process that runs a mysqld."""
    of = proc / str(pid)
    (of / "fd").mkdir(parents=True)
    (of / "net").mkdir()
    (of / "net/unix").write_text("Num\n")
    (of / "exe").symlink_to(f"/opt/{uid}/mysqld")
    (of / "cwd").symlink_to("/")


def test_nobodys_processes_hide_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {**dict.fromkeys(range(100, 200), 1500), **dict.fromkeys(range(200, 300), 33), 9000: 110}
    for pid, uid in owners.items():
        a_process(tmp_path, pid, uid)
    real = Path.stat

    def stat(path: Path, **more: Any) -> Any:
        found = real(path, **more)
        if path.parent != tmp_path:
            return found
        return SimpleNamespace(st_uid=owners[int(path.name)], st_gid=0)

    monkeypatch.setattr(Path, "stat", stat)
    found, cut = running(("mysqld",), FILES, tmp_path)
    assert 9000 in [each.pid for each in found] and found[-1].uid == 1500
    assert (len(found), cut) == (16 + 1 + 16, 201 - 33)
