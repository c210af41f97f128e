"""The daemon as a program: on schedule under load, reloaded, stopped and killed."""

import json
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.load import Load
from tests.system.house import House, Run, Variant, after_writing, wait_until
from tests.system.zfs_door import ZfsDoor

EVERY = "5s"


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-11.8")


@pytest.fixture(scope="module", autouse=True)
def load(house: House) -> Iterator[Path]:
    """The server is written to all the time; the journal of it."""
    journal = house.home / "journal"
    with Load.start(house.server, 2, 600, journal):
        yield journal


@contextmanager
def daemon(house: House, config: Path, environment: Mapping[str, str] | None = None) -> Iterator[Run]:
    """A daemon, killed at the end unless it has ended by then."""
    run = house.begin("daemon", "--log-format", "json", config=config, environment=environment)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait()


def taken(house: House) -> int:
    """How many snapshots there are."""
    return len({name.partition("@")[2] for name in house.snapshots()})


def wait_for_snapshots(house: House, more: int) -> None:
    wanted = taken(house) + more
    wait_until(f"{more} more snapshots", lambda: taken(house) >= wanted, 60)


def events(said: str) -> list[str]:
    return [json.loads(line)["event"] for line in said.splitlines()]


def test_it_takes_snapshots_and_tells_systemd(house: House) -> None:
    """READY at the start, a reload, a sign of life in time, STOPPING; and in the end nothing is held."""
    address = house.home / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(address))
        systemd.settimeout(30)
        environment = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "4000000"}
        config = house.configure("daemon", schedule={"snapshot": EVERY})
        with daemon(house, config, environment) as run:
            assert systemd.recv(999) == b"READY=1"
            wait_for_snapshots(house, 2)
            run.process.send_signal(signal.SIGHUP)
            heard = set()
            while b"READY=1" not in heard:
                heard |= set(systemd.recv(999).split(b"\n"))
            assert {b"RELOADING=1", b"WATCHDOG=1"} <= heard
            run.process.send_signal(signal.SIGTERM)
            ended = run.end()
            assert ended.rc == 0, str(ended)
            heard = set()
            while b"STOPPING=1" not in heard:
                heard |= set(systemd.recv(999).split(b"\n"))
    assert house.sessions() == []
    assert all(b["complete"] and b["finished"] for b in house.backups())
    assert {"daemon.started", "snapshot.created", "config.reloaded", "daemon.stopped"} <= set(
        events(ended.err)
    )


def test_a_configuration_that_is_wrong_changes_nothing(house: House) -> None:
    config = house.configure("daemon", schedule={"snapshot": EVERY})
    good = config.read_text()
    with daemon(house, config) as run:
        wait_for_snapshots(house, 1)
        config.write_text(good.replace("snapshot", "snapshots"))
        run.process.send_signal(signal.SIGHUP)
        wait_for_snapshots(house, 2)
        config.write_text(good)
        run.process.send_signal(signal.SIGTERM)
        said = run.end().err
    line = next(json.loads(x) for x in said.splitlines() if "config.invalid" in x)
    assert 'unknown key; did you mean "snapshot"?' in line["problems"][0]


def test_there_is_one_daemon(house: House) -> None:
    config = house.configure("daemon", schedule={"snapshot": EVERY})
    with daemon(house, config) as run:
        wait_for_snapshots(house, 1)
        said = house.zb("daemon", config=config).refused(10)
        assert f"zbackup daemon (pid {run.process.pid})" in said


def test_without_a_schedule_there_is_nothing_to_do(house: House) -> None:
    assert "no instance has a schedule" in house.zb("daemon").refused(2)


def test_told_to_stop_it_finishes_what_it_does(house: House, door: ZfsDoor, load: Path) -> None:
    config = house.configure("daemon", schedule={"snapshot": EVERY})
    door.slow("snapshot", 4)
    with daemon(house, config, door.environment) as run:
        wait_until("a snapshot is being taken", lambda: door.waiting, 30)
        before = taken(house)
        run.process.send_signal(signal.SIGTERM)
        ended = run.end(60)
    assert ended.rc == 0, str(ended)
    assert taken(house) == before + 1
    assert all(b["finished"] for b in house.backups())
    after_writing(load, 20)


def test_past_its_limit_it_leaves_and_nothing_is_locked(house: House, door: ZfsDoor, load: Path) -> None:
    """The lock on the server goes with the sessions; the next start puts right what is unfinished."""
    lock = {"kind": "ftwrl", "hold": "60s"}
    config = house.configure("daemon", schedule={"snapshot": EVERY}, lock=lock, daemon={"stop_limit": "1s"})
    door.slow("snapshot", 8)
    with daemon(house, config, door.environment) as run:
        wait_until("a snapshot is being taken", lambda: door.waiting, 30)
        run.process.send_signal(signal.SIGTERM)
        ended = run.end(5)
    assert ended.rc == 1 and events(ended.err)[-1] == "daemon.gave_up"
    after_writing(load, 20, within=5)
    wait_until("the late snapshot is there", lambda: not all(b["finished"] for b in house.backups()), 30)
    plain = house.configure("daemon", schedule={"snapshot": EVERY})
    with daemon(house, plain):
        wait_until("it is finished", lambda: all(b["finished"] for b in house.backups()), 30)
