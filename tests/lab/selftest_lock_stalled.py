"""Servers that stand still while a lock is taken: no lock outlives its ceiling. Needs no ZFS, but root.

A commit that waits for a semi-sync replica, a metadata lock, a full disk, a server that is stopped.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pymysql
import pytest

from tests.lab.lock_rig import KINDS, SERVERS, Writers, engine_of, room, sessions, start
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.servers.accounts import ZBACKUP_USER
from tests.system.house import wait_until
from zbackup.engines.mysql.lock.lock import STOPS_COMMITS
from zbackup.model.errors import DatabaseError, LockNotTaken

__all__ = ["room"]

COMMIT_WAITS_S = 600
LOG_OPTIONS = {
    "mysql": (
        "--plugin-load-add=semisync_source.so",
        f"--rpl-semi-sync-source-timeout={COMMIT_WAITS_S * 1000}",
    ),
    "mariadb": (
        f"--rpl-semi-sync-master-timeout={COMMIT_WAITS_S * 1000}",
        "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
    ),
}
WORD = {"mysql": "source", "mariadb": "master"}
WAITS = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for semi-sync ACK%'"


@pytest.fixture(scope="module", params=["mysql-9.7-gtid", "mariadb-10.11", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, room: Path) -> Iterator[DatabaseServer]:
    flavour, gtid = SERVERS[request.param]
    with start(room / request.param, flavour, gtid, *LOG_OPTIONS[flavour.partition("-")[0]]) as running:
        running.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE) ENGINE=InnoDB")
        yield running


@contextmanager
def commit_waits(server: DatabaseServer) -> Iterator[threading.Thread]:
    """One commit is in the log, and no replica acknowledges it. At the end it goes on."""
    enabled = f"SET GLOBAL rpl_semi_sync_{WORD[server.settings.kind]}_enabled"
    server.sql(f"{enabled} = 1")

    def commit() -> None:
        with suppress(pymysql.MySQLError):
            server.sql("INSERT INTO shop.work (t) VALUES (0)")

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        wait_until("the commit waits", lambda: bool(server.sql(WAITS)), 10)
        yield thread
        assert thread.is_alive(), "the commit went on by itself: nothing was tried"
    finally:
        server.sql(f"{enabled} = 0")
        thread.join(30)
        assert not thread.is_alive(), "the commit does not go on"


def took(server: DatabaseServer, kind: str, **lock: object) -> tuple[float, str]:
    """How long a lock took, and why it was not had."""
    zbackup = engine_of(server, kind=kind, **lock)
    began, why = time.monotonic(), ""
    try:
        with zbackup.consistent(zbackup.inspect(), kind) as held:  # type: ignore[arg-type]
            assert held.position
            held.confirm()
    except (DatabaseError, LockNotTaken) as failure:
        why = str(failure)
    return time.monotonic() - began, why


def test_a_commit_that_waits_for_a_replica_keeps_no_lock(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind]:
        with commit_waits(server):
            seconds, why = took(server, kind)
            assert seconds < 3 + 5 + 5, f"{kind}: {why}"
            wait_until("all sessions are gone", lambda: sessions(server) == [], 3)
            if kind in STOPS_COMMITS:
                assert "commits waiting for a semi-sync replica: 1." in why
                assert "\n" not in why
            else:
                assert why == "", "nobody waits for a commit"
        with Writers(server) as writers:
            assert writers.more() < 5
        assert took(server, kind)[1] == ""


def test_it_is_warned_of(server: DatabaseServer) -> None:
    name = f"rpl_semi_sync_{WORD[server.settings.kind]}"
    with commit_waits(server):
        (said,) = [w for w in engine_of(server).inspect().warnings if w.startswith("semi-sync")]
    assert f"0 of 1 replicas are connected, timeout {COMMIT_WAITS_S} s ({name}_timeout)" in said
    assert not [w for w in engine_of(server).inspect().warnings if w.startswith("semi-sync")]


def waiting(server: DatabaseServer) -> list[str]:
    rows = server.sql("SHOW FULL PROCESSLIST")
    return [str(row[6]) for row in rows if row[1] == ZBACKUP_USER and str(row[6]).startswith("Waiting")]


def test_who_is_killed_while_he_waits_for_a_lock_waits_no_more(server: DatabaseServer) -> None:
    """MySQL does not look whether the client is there: everybody would wait on, for lock.wait."""
    for kind in [kind for kind in KINDS[server.settings.kind] if kind in STOPS_COMMITS]:
        with commit_waits(server):
            argv = [sys.executable, "-m", "tests.lab.lock_holder", str(server.settings.socket), kind, "600"]
            holder = subprocess.Popen(
                [*argv, str(server.settings.run_dir), "600"],
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            wait_until("it waits for the lock", lambda: bool(waiting(server)), 30)
            holder.kill()
            holder.wait()
            wait_until("the session is gone", lambda: sessions(server) == [], 5)


def test_a_metadata_lock_keeps_it_no_longer_than_the_ceiling(server: DatabaseServer) -> None:
    blocker = server.connect()
    with blocker.cursor() as cursor:
        cursor.execute("LOCK TABLES shop.work WRITE")
        seconds, why = took(server, "ftwrl")
        assert "not granted within 3 s" in why and seconds < 3 + 5
        wait_until("all sessions are gone", lambda: sessions(server) == [], 2)
    blocker.close()


def test_a_server_that_is_stopped_has_no_lock_when_it_goes_on(server: DatabaseServer) -> None:
    """Nothing can be done meanwhile: zbackup ends, and the server ends the session first thing."""
    pid = next(int(pid) for pid in _children(server.pid))
    for kind in KINDS[server.settings.kind][:2]:
        zbackup = engine_of(server, kind=kind, hold=4)
        facts = zbackup.inspect()
        began = time.monotonic()
        try:
            with pytest.raises((DatabaseError, LockNotTaken)), zbackup.consistent(facts, kind) as held:
                os.kill(pid, signal.SIGSTOP)
                held.confirm()
            assert time.monotonic() - began < 30
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_until("all sessions are gone", lambda: sessions(server) == [], 10)
        with Writers(server) as writers:
            assert writers.more() < 5


def _children(pid: int) -> list[int]:
    """The server itself, which may have been started by another program."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for each in found for child in _children(int(each))] or [pid]


@pytest.fixture(params=["mysql-9.7-gtid", "mariadb-10.11"])
def full(request: pytest.FixtureRequest, room: Path) -> Iterator[tuple[DatabaseServer, Path]]:
    """A server whose log has a small disk of its own."""
    flavour, gtid = SERVERS[request.param]
    home = room / f"full-{request.param}"
    log = home / "log"
    log.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0777", "none", str(log)], check=True)
    option = f"--log-bin={log / 'binlog'}"
    try:
        with start(home, flavour, gtid, option) as running:
            running.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE)")
            yield running, log
    finally:
        subprocess.run(["umount", "-l", str(log)], check=True)


def test_a_full_disk_keeps_no_lock(full: tuple[DatabaseServer, Path]) -> None:
    """A commit waits for space in the middle of the log, and whoever asks for its end waits with it."""
    server, log = full
    filler = log / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    thread = threading.Thread(target=_commits, args=(server,))
    thread.start()
    time.sleep(3)
    assert thread.is_alive(), "the commits did not wait for space"
    for kind in KINDS[server.settings.kind]:
        seconds, why = took(server, kind)
        assert seconds < 40, why
        assert why, "the log was asked for its end"
        assert "\n" not in why
    filler.unlink()
    thread.join(90)
    assert not thread.is_alive()
    wait_until("all sessions are gone", lambda: sessions(server) == [], 10)
    with Writers(server) as writers:
        assert writers.more() < 5


def _commits(server: DatabaseServer) -> None:
    with suppress(pymysql.MySQLError):
        for _ in range(200):
            server.sql("INSERT INTO shop.work (t) VALUES (0)")
