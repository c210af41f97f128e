"""Servers to be held still, writers to see it by, and another process that holds the lock. Needs no ZFS."""

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.lab.lock_holder import engine
from tests.lab.mysql_fixture import DatabaseServer, Settings, free_port
from tests.lab.servers.accounts import APP_PASSWORD, APP_USER, ZBACKUP_USER
from zbackup.config.lock import Lock
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.model.record import LockKind

SERVERS = {
    "mysql-9.7-gtid": ("mysql-9.7", True),
    "mysql-9.7-plain": ("mysql-9.7", False),
    "mariadb-10.11": ("mariadb-10.11", True),
    "mariadb-11.8": ("mariadb-11.8", True),
}
KINDS: dict[str, tuple[LockKind, ...]] = {
    "mysql": ("ftwrl", "backup-lock", "none"),
    "mariadb": ("ftwrl", "backup-stage", "none"),
}


@pytest.fixture(scope="module")
def room() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="zl", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def start(home: Path, flavour: str, gtid: bool, *options: str) -> DatabaseServer:
    return DatabaseServer(
        Settings(
            flavour=flavour,
            datadir=home / "data",
            run_dir=home / "run",
            port=free_port(),
            gtid=gtid,
            options=options,
        )
    ).start()


@pytest.fixture(scope="module", params=["mysql-9.7-gtid", "mariadb-10.11"])
def server(request: pytest.FixtureRequest, room: Path) -> Iterator[DatabaseServer]:
    with start(room / request.param, *SERVERS[request.param]) as running:
        running.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE) ENGINE=InnoDB")
        yield running


def engine_of(server: DatabaseServer, **lock: object) -> MysqlEngine:
    limits: dict[str, Any] = {"wait": 3, "hold": 5, "long_query": 1, "applier_stop": 5}
    return engine(
        server.settings.socket,
        server.settings.run_dir,
        Lock.model_construct(**(limits | lock)),
    )


class Writers:
    """Commits on a few connections, `pause` seconds after each answer; knows when it last got one."""

    def __init__(self, server: DatabaseServer, *, pause: float = 0.01) -> None:
        self._end, self._pause = threading.Event(), pause
        self.last = time.monotonic()
        self.count = 0
        self._threads = [threading.Thread(target=self._write, args=(server,)) for _ in range(3)]

    def _write(self, server: DatabaseServer) -> None:
        connection = server.connect()
        with connection.cursor() as cursor, suppress(pymysql.MySQLError):
            while not self._end.wait(self._pause):
                cursor.execute("INSERT INTO shop.work (t) VALUES (RAND())")
                self.last = time.monotonic()
                self.count += 1
        connection.close()

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

    def more(self, within: float = 5) -> float:
        """Wait until more has been committed; how many seconds that took."""
        began, had = time.monotonic(), self.count
        while self.count < had + 20:
            assert time.monotonic() - began < within, f"writers stand still for more than {within} s"
            time.sleep(0.01)
        return time.monotonic() - began

    def stand_still(self) -> bool:
        time.sleep(0.3)
        had = self.count
        time.sleep(0.5)
        return self.count == had


@contextmanager
def held_by(server: DatabaseServer, kind: str, hold: float = 600) -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-m", "tests.lab.lock_holder", str(server.settings.socket), kind, str(hold)]
    process = subprocess.Popen(
        [*argv, str(server.settings.run_dir)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout
        assert "held" in "".join(iter(process.stdout.readline, "held\n")) + "held"
        yield process
    finally:
        process.kill()
        process.wait()


def sessions(server: DatabaseServer) -> list[int]:
    rows = server.sql("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s", (ZBACKUP_USER,))
    return [int(row[0]) for row in rows]


@contextmanager
def busy(server: DatabaseServer, statement: str) -> Iterator[threading.Thread]:
    """A long statement of the application's: one of an administrator's could not be killed by zbackup."""
    connection = server.connect(APP_USER, APP_PASSWORD)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        number = cursor.fetchone()[0]

    def run() -> None:
        with suppress(pymysql.MySQLError), connection.cursor() as cursor:
            cursor.execute(statement)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(2.2)
    try:
        yield thread
    finally:
        with suppress(pymysql.MySQLError):
            server.sql(f"KILL {number}")
        thread.join()
