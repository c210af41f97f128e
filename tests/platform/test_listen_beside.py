"""A port in the network of a server that has one of its own."""

import errno
import json
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.lab.reach import let_reach
from tests.platform.confined import GID, LIMIT_S, UID, tries
from tests.platform.stand_ins import CALLING
from zbackup.model.errors import CommandFailed
from zbackup.proc.detached import Confinement, Process, last_lines, launch
from zbackup.proc.listen_beside import listen_beside


def test_a_port_beside_a_server_is_for_that_server_alone(started: list[Process], tmp_path: Path) -> None:
    """It reaches us there, and nobody of the host does; nor does it reach a port of the host's."""
    let_reach(Path(sys.executable))
    alone = Confinement(hide=(), bind=(), uid=UID, gid=GID)
    process = launch((sys.executable, "-c", CALLING), alone, tmp_path / "1")
    started.append(process)
    deadline = time.monotonic() + LIMIT_S
    # Until it is the program itself it may still be in the network of the host.
    while not Path(f"/proc/{process.pid}/cmdline").read_text().startswith(f"{sys.executable}\0-c\0"):
        assert process.alive and time.monotonic() < deadline, last_lines(tmp_path / "1")
        time.sleep(0.05)
    assert process.alive, last_lines(tmp_path / "1")
    with listen_beside_alone(process) as listening:
        listening.settimeout(LIMIT_S)
        call, _ = listening.accept()
        with call:
            call.sendall(b"for you alone")
            while "for you alone" not in last_lines(tmp_path / "1"):
                assert process.alive and time.monotonic() < deadline, last_lines(tmp_path / "1")
                time.sleep(0.05)
    with socket.create_server(("127.0.0.1", 7778)):
        seen = tries(started, alone, tmp_path / "4", json.dumps([[], 7778, "/nobody"]))
    assert seen["call"] == "ECONNREFUSED"


def listen_beside_alone(process: Process) -> socket.socket:
    """A port that nobody of the host reaches.

    Another program of the host's may listen on the same number there: a second number tells that from a
    port that is open to all.
    """
    for _ in range(3):
        listening = listen_beside(process)
        with socket.socket() as outside:
            if outside.connect_ex(listening.getsockname()) == errno.ECONNREFUSED:
                return listening
        listening.close()
    raise AssertionError("the host reaches each port beside the server")


def test_no_port_is_opened_beside_a_server_in_the_network_of_the_host(
    started: list[Process], tmp_path: Path
) -> None:
    let_reach(Path(sys.executable))
    process = launch(
        ("sleep", "120"), Confinement(hide=(), bind=(), uid=UID, gid=GID, network="host"), tmp_path / "1"
    )
    started.append(process)
    with pytest.raises(CommandFailed, match="it is in the host's network"):
        listen_beside(process)


def test_a_port_beside_a_server_that_has_ended_is_not_opened(tmp_path: Path) -> None:
    alone = Confinement(hide=(), bind=(), uid=UID, gid=GID)
    process = launch((sys.executable, "-c", ""), alone, tmp_path / "1")
    assert process.wait(LIMIT_S)
    with pytest.raises(CommandFailed, match="where the server is"):
        listen_beside(process)
