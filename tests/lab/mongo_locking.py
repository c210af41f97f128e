"""Real mongods that are held still and written to, for the lab's tests of locks."""

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import PyMongoError

from tests.lab import servers
from tests.lab.mongo_fixture import MongoServer, MongoSettings, locked, start_single
from tests.lab.mongo_lock_holder import engine
from zbackup.config.lock import Lock
from zbackup.engines.mongodb.engine import MongoEngine

PAUSE_S = 0.01
"""With three writers that are up to 300 inserts a second, without all of the machine's time."""


def settings_in(home: Path, flavour: str, **more: Any) -> MongoSettings:
    return MongoSettings(flavour=flavour, datadir=home / "data", run_dir=home / "run", **more)


def engine_of(server: MongoServer, **lock: Any) -> MongoEngine:
    limits: dict[str, Any] = {"wait": 3, "hold": 5, "long_query": 1}
    return engine(server.settings.socket, server.settings.run_dir, Lock.model_construct(**(limits | lock)))


@pytest.fixture(scope="module")
def room() -> Iterator[Path]:
    """A directory with a short name that the servers' user may enter."""
    path = Path(tempfile.mkdtemp(prefix="zm", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def primary(room: Path) -> Iterator[MongoServer]:
    """A set of one member."""
    servers.ensure(["mongodb-6.0"])
    with start_single(settings_in(room / "p", "mongodb-6.0", replica_set="rs0")) as running:
        yield running


class Writers:
    """Inserts on a few connections, `PAUSE_S` after each answer."""

    def __init__(self, server: MongoServer) -> None:
        self._end = threading.Event()
        self.count = 0
        self._threads = [threading.Thread(target=self._write, args=(server,)) for _ in range(3)]

    def _write(self, server: MongoServer) -> None:
        with server.client() as client, suppress(PyMongoError):
            while not self._end.wait(PAUSE_S):
                client.shop.work.insert_one({"at": time.time()})
                self.count += 1

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        self.more()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a writer hangs"

    def more(self, within: float = 10) -> None:
        """Wait until more has been written."""
        had = self.count
        await_that("writers go on", lambda: self.count >= had + 20, within)

    def stand_still(self) -> bool:
        time.sleep(0.3)
        had = self.count
        time.sleep(0.5)
        return self.count == had


@contextmanager
def holder(server: MongoServer, hold: float = 600) -> Iterator["subprocess.Popen[str]"]:
    with started(server, hold) as process:
        assert process.stdout
        assert any(line == "held\n" for line in iter(process.stdout.readline, ""))
        yield process


@contextmanager
def started(server: MongoServer, hold: float, *, long: float = 1) -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-m", "tests.lab.mongo_lock_holder", str(server.settings.socket), str(hold)]
    process = subprocess.Popen(
        [*argv, str(server.settings.run_dir), str(long)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def await_that(what: str, condition: Callable[[], object], within: float) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.05)


def is_locked(server: MongoServer) -> bool:
    with server.client() as client:
        return locked(client)


def note_of(server: MongoServer) -> Path:
    return server.settings.run_dir / "lab.fsync-locked"


def watchdog_of(process: "subprocess.Popen[str]") -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


def lock_as_another(server: MongoServer) -> None:
    with server.client() as other:
        other.admin.command({"fsync": 1, "lock": True})


@contextmanager
def open_transaction(server: MongoServer, *, gone_after: float = 10) -> Iterator[None]:
    """Until the block ends, which asks a server that is gone for so many seconds, and again."""
    with server.client(serverSelectionTimeoutMS=round(gone_after * 1000)) as client:
        client.shop.work.insert_one({"collection": "there"})
        with client.start_session() as session, session.start_transaction():
            client.shop.work.insert_one({"open": True}, session=session)
            yield
