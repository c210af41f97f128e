"""The daemon as a user of its own, in a mount namespace as its unit has one: what it may is documented."""

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.load import Load, verify
from tests.lab.mysql_fixture import SERVER_UID
from tests.lab.pool import run
from tests.system.house import ZBACKUP, House, Variant, after_writing, next_second, wait_until
from zbackup.model.errors import Refused
from zbackup.proc.detached import Process
from zbackup.proc.helper import ask

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/give-no-more-than-needed.md"
UID = 3333
SANDBOX = ("unshare", "--mount", "--propagation", "slave", "--")
AS_ZBACKUP = (
    "setpriv",
    f"--reuid={UID}",
    f"--regid={UID}",
    f"--groups={SERVER_UID}",
    "--bounding-set=-all",
    "--no-new-privs",
    "--",
)


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


def documented_permissions() -> str:
    """What the page tells people to allow."""
    found = re.search(r"^# zfs allow -u zbackup (\S+) ", PAGE.read_text(), flags=re.M)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def credentials(house: House) -> Mapping[str, str]:
    """What a host gives to zbackup's user."""
    Path("/dev/zfs").chmod(0o666)  # as the rules of udev that come with OpenZFS do
    subprocess.run(["mount", "--make-rshared", "/"], check=True)  # as systemd does
    run("zfs", "allow", "-u", str(UID), documented_permissions(), house.pool.data.name)
    home = house.home / "zbackup"
    for name, owner, mode in (("run", UID, 0o2771), ("state", 0, 0o1771)):  # systemd/zbackup.tmpfiles.conf
        directory = home / name
        directory.mkdir(parents=True)
        os.chown(directory, owner, UID)
        directory.chmod(mode)
    (home / "credentials").mkdir()
    (home / "credentials" / "shop").write_bytes((house.home / "password").read_bytes())
    os.chown(home / "credentials" / "shop", UID, UID)
    (home / "credentials" / "shop").chmod(0o400)
    return {"CREDENTIALS_DIRECTORY": str(home / "credentials")}  # as systemd does


@pytest.fixture(scope="module")
def config(house: House, credentials: Mapping[str, str]) -> Path:
    home = house.home / "zbackup"
    file = house.configure(
        "own user",
        run_dir=home / "run",
        daemon={"state_dir": str(home / "state"), "watch": "3s", "helper": str(house.home / "helper")},
        password={"credential": "shop"},
        schedule={"snapshot": "5s", "prune": "5s"},
        retention={"last": 2, "minimum": 1, "window": "1 minute"},
    )
    file.chmod(0o644)
    return file


@contextmanager
def daemon(config: Path, log: Path, credentials: Mapping[str, str]) -> Iterator[None]:
    """The daemon as its own user. It ends well when it is told to."""
    argv = (*SANDBOX, *AS_ZBACKUP, str(ZBACKUP), "--config", str(config), "daemon", "--log-format", "json")
    with log.open("wb") as sink:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stderr=sink, env={**os.environ, **credentials}
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


@contextmanager
def helper(config: Path, address: Path) -> Iterator[None]:
    """As zbackup-helper.socket does: for each connection a `zbackup helper` with it as its standard input."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(address))
        os.chown(address, UID, UID)
        address.chmod(0o600)
        listening.listen()

        argv = (str(ZBACKUP), "--config", str(config), "helper")

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


def test_the_daemon_needs_no_root(house: House, config: Path, credentials: Mapping[str, str]) -> None:
    """It takes snapshots under load and prunes; root restores one, from the same locks and directories."""
    journal = house.home / "journal"
    with Load.start(house.server, 2, 40, journal), daemon(config, house.home / "log", credentials):
        wait_until("there are three backups", lambda: len(house.backups()) >= 3, 120)
        after_writing(journal, 20)
        moment = next_second()
        after_writing(journal, 20)
        taken = house.zb("snapshot", "--json", config=config, environment=credentials)
        assert taken.data, "root takes the same locks"
    said = (house.home / "log").read_text()
    assert "job.failed" not in said and "job.defect" not in said, said
    assert all(b["complete"] and b["finished"] for b in house.backups())
    report = house.zb(*house.restoring(moment, "by-root"), config=config).data
    with house.clone(report) as clone:
        verify(clone, journal, moment)
    house.zb("clone", "destroy", "by-root", "--yes", config=config)


def test_what_only_root_may_the_helper_does(
    house: House, config: Path, credentials: Mapping[str, str]
) -> None:
    """A killed restore leaves a clone that is mounted, with a server on it that belongs to another user."""
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
        house.restore("now", "finished")
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
    house.destroy("finished")
