"""The daemon as a user of its own, in a mount namespace as its unit has one: what it may is documented."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.lab.load import Load, verify
from tests.lab.pool import run
from tests.lab.reach import let_reach
from tests.lab.server_user import SERVER_UID
from tests.lab.variants import Variant
from tests.system.house import ZBACKUP, House, after_writing, next_second, now, wait_until
from tests.unit.docs.typed import shell, typed

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/least-privilege.md"
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
    return shell("least-privilege.md", "zfs allow -u zbackup").split()[4]


@pytest.fixture(scope="module")
def credentials(house: House) -> Mapping[str, str]:
    """What a host gives to zbackup's user."""
    let_reach(ZBACKUP, Path(sys.executable))
    Path("/dev/zfs").chmod(0o666)  # as the rules of udev that come with OpenZFS do
    subprocess.run(["mount", "--make-rshared", "/"], check=True)  # as systemd does
    run("zfs", "allow", "-u", str(UID), documented_permissions(), house.pool.data.name)
    home = house.home / "zbackup"
    made = (("run", 0, 0, 0o755), ("run/.daemon", UID, UID, 0o2770), ("state", 0, UID, 0o1771))
    for name, owner, group, mode in made:  # systemd/zbackup.tmpfiles.conf
        directory = home / name
        directory.mkdir(parents=True)
        os.chown(directory, owner, group)
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


def test_the_daemon_needs_no_root(house: House, config: Path, credentials: Mapping[str, str]) -> None:
    """It takes snapshots under load and prunes; root restores one, from the same locks and directories."""
    journal = house.home / "journal"
    with Load.start(house.server, 2, 15, journal), daemon(config, house.home / "log", credentials):
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


def test_a_receiving_host_prunes_without_root(
    house: House, config: Path, credentials: Mapping[str, str]
) -> None:
    """The daemon's user there may do with the copies what the page lets it do, and nothing at home."""
    copies = f"{house.pool.name}/copies"
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", copies)
    rules = {"keep": [], "last": 1, "minimum": 1, "window": "1 minute"}
    here = {"name": "here", "to": f"zfs:{copies}", "initial": "allow", "retention": rules, "grace": "0s"}
    sending = house.configure("sending", ship=[here])
    for _ in range(2):
        house.snapshot(sending)
        next_second()
        assert house.zb("ship", config=sending).rc == 0
    home = house.home / "zbackup"
    receiving = house.configure(
        "receiving",
        run_dir=home / "run",
        daemon={"state_dir": str(home / "state")},
        password=None,
        ship=[here],
    )
    receiving.chmod(0o644)
    then = now()
    wait_until("none is needed for the promised minute", lambda: now() - then > timedelta(minutes=1), 90)
    before = at_home(house, copies)
    words = typed("append-only-backup-host.md", "zbackup prune shop --at here")
    argv = (*SANDBOX, *AS_ZBACKUP, str(ZBACKUP), "--config", str(receiving), *words, "--json")
    refused = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert refused.returncode != 0, refused
    allow = {"-u zbackup": f"-u {UID}", "tank/backups/db1": copies}
    run(*shlex.split(shell("append-only-backup-host.md", "zfs allow -u zbackup", allow)))
    pruned = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert pruned.returncode == 0, pruned
    (done,) = json.loads(pruned.stdout)["data"]
    assert done["destroyed"] and done["skipped"] == [], pruned
    assert at_home(house, copies) == before


def at_home(house: House, copies: str) -> set[str]:
    """The snapshots that are no copies."""
    return {name for name in house.snapshots() if not name.startswith(f"{copies}/")}
