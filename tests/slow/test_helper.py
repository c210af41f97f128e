"""The helper that does for a daemon that is not root what only root may."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.conftest import house
from tests.system.house import ZBACKUP, House, wait_until
from tests.system.test_least_privilege import UID, config, credentials, daemon, variant
from zbackup.model.errors import Refused
from zbackup.proc.detached import Process
from zbackup.proc.helper_socket import ask

__all__ = ["config", "credentials", "house", "variant"]


@contextmanager
def helper(config: Path, address: Path, *words: str) -> Iterator[None]:
    """As zbackup-helper.socket and zbackup-drill.socket do: for each connection a `zbackup helper`
    with it as its standard input."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(address))
        os.chown(address, UID, UID)
        address.chmod(0o600)
        listening.listen()

        argv = (str(ZBACKUP), "--config", str(config), "helper", *words)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    subprocess.run(argv, stdin=connection, check=False)

        threading.Thread(target=serve, daemon=True).start()
        yield
        listening.shutdown(socket.SHUT_RDWR)


def test_what_only_root_may_the_helper_does(
    house: House, config: Path, credentials: Mapping[str, str]
) -> None:
    """A killed restore leaves a clone that is mounted, with a server on it that belongs to another user."""
    house.snapshot()
    note = house.home / "zbackup" / "run" / "half.process"
    run = house.begin("restore", "--to", "now", "--name", "half", config=config)
    wait_until("a server runs on a clone", lambda: note.exists() or run.process.poll() is not None, 60)
    run.signal_group(signal.SIGKILL)
    run.process.wait()
    process = Process.parse(note.read_text())
    assert process.alive and f"{house.clones}/half" in house.names()
    log = house.home / "without helper"
    with daemon(config, log, credentials):
        wait_until("it is reported", lambda: "leftover.reported" in log.read_text(), 60)
    assert process.alive and f"{house.clones}/half" in house.names()
    log = house.home / "with helper"
    with helper(config, house.home / "helper"), daemon(config, log, credentials):
        wait_until("it is removed", lambda: "removed the unfinished clone half" in log.read_text(), 60)
        # With the daemon's own configuration: another run_dir would be another set of locks.
        assert house.zb(*house.restoring("now", "finished"), config=config).data
        for question in (
            {"verb": "remove-unfinished", "instance": "shop", "clone": "finished"},
            {"verb": "remove-unfinished", "instance": "shop", "clone": "none"},
            {"verb": "end-lease", "instance": "shop", "clone": "finished"},
        ):
            assert ask(house.home / "helper", question) == {"said": "", "done": False}
        for question, why in (
            ({"verb": "remove-unfinished", "instance": "shop", "clone": "../my data"}, "cannot be a clone"),
            ({"verb": "remove-unfinished", "instance": "other", "clone": "half"}, "no such instance"),
            ({"verb": "destroy", "instance": "shop", "clone": "half"}, "no such verb"),
            ({"verb": "remove-unfinished", "dataset": "tank"}, "not a question"),
        ):
            with pytest.raises(Refused, match=why):
                ask(house.home / "helper", question)
        config.chmod(0o666)
        with pytest.raises(Refused, match="can be changed by others than root"):
            ask(house.home / "helper", question)
        config.chmod(0o644)
    assert not process.alive and not note.exists()
    assert [name for name in house.names() if name.startswith(f"{house.clones}/half")] == []
    assert house.zb("clone", "destroy", "finished", "--yes", config=config).rc == 0


def first_to_end() -> list[str]:
    """Processes that Linux ends first."""
    found = []
    for score in Path("/proc").glob("[0-9]*/oom_score_adj"):
        with contextlib.suppress(OSError):
            if score.read_text() == "1000\n":
                found.append(score.parent.name)
    return found


def test_drills_on_schedule_are_made_by_the_one_who_may(house: House, credentials: Mapping[str, str]) -> None:
    """Without him they fail and say why. Where memory runs out, Linux ends the server of one before
    production's, and the drill has failed. When the daemon is gone, so is its drill."""
    home, address = house.home / "zbackup", house.home / "drills"
    wanted = house.configure(
        "drills",
        run_dir=home / "run",
        daemon={"state_dir": str(home / "state"), "drill_helper": str(address)},
        password={"credential": "shop"},
        schedule={"drill": "1s", "retry": "1s", "retry_max": "1s"},
    )
    wanted.chmod(0o644)
    house.snapshot()
    clone = f"{house.clones}/shop-drill"
    log = house.home / "no drills"
    with daemon(wanted, log, credentials):
        wait_until("it says what is missing", lambda: "zbackup-drill.socket" in log.read_text(), 60)

    def passed() -> bool:
        return any(b["drill"] and b["drill"]["passed"] for b in house.backups())

    with helper(wanted, address, "--drills"):
        log = house.home / "drilling"
        with daemon(wanted, log, credentials):
            wait_until("a drill passed", passed, 120)
            wait_until("the server of another runs", lambda: bool(first_to_end()), 120)
            Path("/proc/sysrq-trigger").write_text(
                "f"
            )  # as the kernel does by itself where no memory is left
            wait_until("that drill has failed", lambda: "job.failed" in log.read_text(), 120)
            assert house.server.sql("SELECT 1") == [(1,)]
            wait_until("the next one passed", passed, 120)
            wait_until("the next is being made", lambda: f"{clone}/0" in house.names(), 60)
        assert "job.postponed" in log.read_text()
        wait_until("it is gone with the daemon", lambda: clone not in house.names(), 60)
        with pytest.raises(Refused, match="no such drill is on schedule"):
            ask(address, {"verb": "drill", "instance": "shop", "clone": "offsite"})
    status = house.zb("status", "--json", config=wanted, environment=credentials).data[0]
    assert status["drills"][0]["last"] == status["drills"][0]["passed"]
