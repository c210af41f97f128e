"""The MySQL/MariaDB engine on a server in a container, by TCP with a password."""

import os
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pymysql
import pytest

from tests.containers.server import ContainerServer
from zbackup.config.tls import Tls
from zbackup.engines.mysql.lock.lock import STOPS_COMMITS
from zbackup.engines.mysql.server.connection import LoginRefused, connect
from zbackup.engines.mysql.server.status import LogStatus, dialect, log_status
from zbackup.model.log import LogPosition
from zbackup.model.record import LockKind

KINDS: dict[str, tuple[LockKind, ...]] = {
    "mysql": ("ftwrl", "backup-lock", "none"),
    "mariadb": ("ftwrl", "backup-stage", "none"),
}
GENTLEST = {"mysql": "backup-lock", "mariadb": "backup-stage"}


class Writer:
    """An application that commits one row after the other."""

    def __init__(self, server: ContainerServer) -> None:
        self.rows = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write, args=(server.connect(),))

    def _write(self, connection: "pymysql.connections.Connection[pymysql.cursors.Cursor]") -> None:
        with connection, connection.cursor() as cursor, suppress(pymysql.MySQLError):
            while not self._end.is_set():
                cursor.execute("INSERT INTO workload.written () VALUES ()")
                self.rows += 1

    def __enter__(self) -> "Writer":
        self._thread.start()
        self.go_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the writer hangs"

    def go_on(self) -> None:
        """Wait until more was written."""
        had, deadline = self.rows, time.monotonic() + 5
        while self.rows < had + 5:
            assert time.monotonic() < deadline, "the writer stands still"
            time.sleep(0.01)


@pytest.fixture(scope="module", autouse=True)
def table(server: ContainerServer) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE workload.written (id BIGINT AUTO_INCREMENT PRIMARY KEY)")


def _log(server: ContainerServer) -> LogStatus:
    with connect(server.engine().connect) as connection:
        return log_status(connection, dialect(connection))


def _sessions(server: ContainerServer) -> int:
    """Sessions of zbackup's account, without the one that looks."""
    with connect(server.engine().connect) as connection:
        users = [str(row["User"]) for row in connection.rows("SHOW PROCESSLIST")]
        return users.count(server.engine().connect.user) - 1


def test_it_is_looked_at_from_outside(server: ContainerServer) -> None:
    facts = server.engine().inspect()
    datadir = server.settings.datadir
    assert (facts.flavor, facts.role, facts.blockers) == (server.settings.kind, "primary", ())
    assert facts.version.startswith(server.settings.flavour.partition("-")[2] + ".")
    assert facts.non_transactional == ()
    assert facts.data_paths[0].path == str(datadir)
    assert (datadir / LogPosition.parse(facts.position).file).exists()
    assert facts.server["uid"] == str(datadir.stat().st_uid)
    assert server.engine().choose_lock(facts).kind == GENTLEST[facts.flavor]


def test_another_process_is_not_taken_for_the_server(server: ContainerServer) -> None:
    """The process id that a server in a container writes down is some other process's outside."""
    pid_file = server.settings.run_dir / "server.pid"
    inside = pid_file.read_text()
    pid_file.write_text(str(os.getpid()))
    try:
        assert "mysqld" not in server.engine().inspect().server
    finally:
        pid_file.write_text(inside)


@pytest.mark.parametrize("number", range(3))
def test_each_lock_holds_and_is_gone_afterwards(server: ContainerServer, number: int) -> None:
    kind = KINDS[server.settings.kind][number]
    zbackup = server.engine()
    facts = zbackup.inspect()
    assert zbackup.choose_lock(facts).kind == GENTLEST[facts.flavor]
    assert (
        replace(zbackup, lock=zbackup.lock.model_copy(update={"kind": kind})).choose_lock(facts).kind == kind
    )
    with Writer(server) as writer:
        with zbackup.consistent(facts, kind) as held:
            position = LogPosition.parse(held.position)
            assert held.gtid
            if kind in STOPS_COMMITS:
                time.sleep(0.5)
                now = _log(server)
                assert (now.position, now.gtid) == (position, held.gtid)
                # A snapshot of the files taken now would end exactly there.
                assert (server.settings.datadir / position.file).stat().st_size == position.offset
            else:
                writer.go_on()
                assert _log(server).position > position  # type: ignore[operator]
            assert _sessions(server) > 0
            held.confirm()
        assert _sessions(server) == 0
        assert held.held_ms > 0 or kind == "none"
        writer.go_on()


def test_a_wrong_password_is_told_without_it(server: ContainerServer) -> None:
    with pytest.raises(LoginRefused, match=rf"127\.0\.0\.1:{server.port} .*check user") as refused:
        server.engine(password="no-such-secret").inspect()
    assert "no-such-secret" not in str(refused.value)


def test_the_connection_can_be_encrypted(server: ContainerServer) -> None:
    encrypted = server.engine(tls=Tls(verify=False))
    with connect(encrypted.connect) as connection:
        assert connection.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'")["Value"]
    with encrypted.consistent(encrypted.inspect(), "ftwrl") as held:
        held.confirm()
