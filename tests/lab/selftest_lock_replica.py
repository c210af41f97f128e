"""A replica's applier around a lock: it pauses, and runs again whatever happens. Run with pytest by name."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lock_rig import SERVERS, Writers, engine_of, held_by, room, start
from tests.lab.mysql_fixture import DatabaseServer
from tests.system.house import wait_until
from tests.system.replica_story import applier_runs
from zbackup.engines.mysql.server.connection import PrivilegeMissing
from zbackup.model.errors import LockNotTaken
from zbackup.model.record import LockKind

__all__ = ["room"]


@pytest.fixture(scope="module", params=["mysql-9.7-gtid", "mariadb-10.11"])
def pair(request: pytest.FixtureRequest, room: Path) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    flavour, gtid = SERVERS[request.param]
    home = room / f"pair-{request.param}"
    with start(home / "s", flavour, gtid) as source, start(home / "r", flavour, gtid) as replica:
        replica.make_replica_of(source)
        source.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE) ENGINE=InnoDB")
        replica.catch_up(source)
        yield source, replica


def test_the_applier_pauses_and_runs_again(pair: tuple[DatabaseServer, DatabaseServer]) -> None:
    source, replica = pair
    kind: LockKind = "ftwrl" if replica.settings.kind == "mysql" else "backup-stage"
    zbackup = engine_of(replica)
    facts = zbackup.inspect()
    assert (facts.role, facts.applier_running, facts.blockers) == ("replica", True, ())
    with Writers(source):
        for _ in range(3):
            with zbackup.consistent(facts, kind) as held:
                assert not applier_runs(replica)
                time.sleep(0.3)
                held.confirm()
            assert applier_runs(replica)
    replica.catch_up(source)
    assert not list(replica.settings.run_dir.glob("*.applier-stopped"))


def test_the_applier_runs_again_after_a_failure_in_the_body(
    pair: tuple[DatabaseServer, DatabaseServer],
) -> None:
    _, replica = pair
    zbackup = engine_of(replica)
    with pytest.raises(ZeroDivisionError), zbackup.consistent(zbackup.inspect(), "ftwrl"):
        raise ZeroDivisionError
    assert applier_runs(replica)


def test_an_applier_that_was_stopped_stays_stopped(pair: tuple[DatabaseServer, DatabaseServer]) -> None:
    _, replica = pair
    word = "REPLICA" if replica.settings.kind == "mysql" else "SLAVE"
    replica.sql(f"STOP {word} SQL_THREAD")
    zbackup = engine_of(replica)
    with zbackup.consistent(zbackup.inspect(), "ftwrl") as held:
        held.confirm()
    assert not applier_runs(replica)
    replica.sql(f"START {word} SQL_THREAD")
    wait_until("it runs", lambda: applier_runs(replica), 60)


@pytest.mark.parametrize("group", [False, True], ids=["process", "process-group"])
def test_the_applier_runs_again_after_sigkill(
    pair: tuple[DatabaseServer, DatabaseServer], group: bool
) -> None:
    _, replica = pair
    with held_by(replica, "ftwrl") as holder:
        assert not applier_runs(replica)
        if group:
            os.killpg(holder.pid, signal.SIGKILL)
        else:
            holder.kill()
        wait_until("the applier runs", lambda: applier_runs(replica), 60)
    wait_until("the note is gone", lambda: not list(replica.settings.run_dir.glob("*.applier-stopped")), 60)


def test_the_next_run_heals_what_a_dead_watchdog_could_not(
    pair: tuple[DatabaseServer, DatabaseServer],
) -> None:
    _, replica = pair
    with held_by(replica, "ftwrl") as holder:
        for watchdog in _children(holder.pid):
            os.kill(watchdog, signal.SIGKILL)
        holder.kill()
        holder.wait()
        time.sleep(0.5)
        assert not applier_runs(replica)
    engine_of(replica).heal()
    assert applier_runs(replica)
    assert not list(replica.settings.run_dir.glob("*.applier-stopped"))


def _children(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return [int(line) for line in listed.stdout.split()]


def test_an_applier_that_does_not_stop_in_time_runs_on(pair: tuple[DatabaseServer, DatabaseServer]) -> None:
    source, replica = pair
    source.sql("INSERT INTO shop.work (id) VALUES (1000000)")
    replica.catch_up(source)
    zbackup = engine_of(replica, applier_stop=2)
    facts = zbackup.inspect()
    with replica.connect() as somebody, somebody.cursor() as cursor:
        somebody.begin()
        cursor.execute("SELECT t FROM shop.work WHERE id = 1000000 FOR UPDATE")
        source.sql("UPDATE shop.work SET t = 1 WHERE id = 1000000")
        wait_until("the applier waits for the row", lambda: _row_waits(replica), 60)
        with pytest.raises(LockNotTaken, match="did not stop"), zbackup.consistent(facts, "ftwrl"):
            pytest.fail("a lock was granted")
        somebody.rollback()
    wait_until("the applier runs", lambda: applier_runs(replica), 60)
    replica.catch_up(source)


def _row_waits(server: DatabaseServer) -> bool:
    rows = server.sql("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'")
    return bool(rows[0][0])


def test_a_missing_applier_privilege_is_named(pair: tuple[DatabaseServer, DatabaseServer]) -> None:
    _, replica = pair
    name = "REPLICATION_SLAVE_ADMIN" if replica.settings.kind == "mysql" else "REPLICATION SLAVE ADMIN"
    replica.sql(f"REVOKE {name} ON *.* FROM zbackup@localhost")
    try:
        zbackup = engine_of(replica)
        with pytest.raises(PrivilegeMissing, match=name), zbackup.consistent(zbackup.inspect(), "ftwrl"):
            pass
    finally:
        replica.sql(f"GRANT {name} ON *.* TO zbackup@localhost")
    assert applier_runs(replica)
