"""Looking at real servers and holding them still. Needs no ZFS; run with pytest by name."""

import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.lab.lock_rig import KINDS, VARIANTS, Writers, engine_of, held_by, room, sessions, start
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.servers.accounts import APP_PASSWORD, APP_USER, ZBACKUP_GRANTS, ZBACKUP_USER
from tests.system.house import wait_until
from zbackup.engines.mysql.connection import PrivilegeMissing
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.lock import STOPS_COMMITS
from zbackup.engines.mysql.long_queries import FLUSH_AWAITED
from zbackup.model.errors import DatabaseError, LockNotTaken, Refused
from zbackup.model.server import ServerFacts

__all__ = ["room"]

ROW_AWAITED = "SELECT trx_id FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
LOCK_AWAITED = re.compile("Waiting for (global read|backup) lock")


@pytest.fixture(scope="module", params=["mysql-9.7-gtid", "mariadb-10.11"])
def server(request: pytest.FixtureRequest, room: Path) -> Iterator[DatabaseServer]:
    with start(room / request.param, *VARIANTS[request.param]) as running:
        running.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE) ENGINE=InnoDB")
        yield running


def test_every_lock_holds_the_position_and_is_gone_afterwards(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind]:
        zbackup = engine_of(server, kind=kind)
        facts = zbackup.inspect()
        assert zbackup.choose_lock(facts).kind == kind
        with Writers(server) as writers:
            for _ in range(5):
                with zbackup.consistent(facts, kind) as held:
                    assert held.position
                    assert held.gtid or not server.settings.gtid
                    assert held.seconds_left() > 1
                    if kind in STOPS_COMMITS:
                        assert writers.stand_still()
                    else:
                        writers.more()
                    held.confirm()
                wait_until("all sessions are gone", lambda: sessions(server) == [], 2)
                assert held.lock_wait_ms < 3000
                assert writers.more() < 2
        assert kind == "none" or held.held_ms > 0


def test_inspection_tells_what_is_there(server: DatabaseServer) -> None:
    facts = engine_of(server).inspect()
    assert facts.flavor == server.settings.kind
    assert (facts.role, facts.blockers, facts.non_transactional) == ("primary", (), ())
    assert facts.places[0].path == str(server.settings.datadir)
    assert facts.server["innodb_page_size"] == "16384"
    assert facts.server["uid"] == str(server.settings.datadir.stat().st_uid)
    wanted = "backup-lock" if facts.flavor == "mysql" else "backup-stage"
    assert engine_of(server).choose_lock(facts).kind == wanted


def test_tables_without_recovery_rule_gentle_locks_out(server: DatabaseServer) -> None:
    server.sql("CREATE TABLE shop.old (a INT) ENGINE=MyISAM")
    try:
        facts = engine_of(server).inspect()
        assert facts.non_transactional == ("shop.old (MyISAM)",)
        with pytest.raises(Refused, match=r"shop\.old \(MyISAM\)"):
            engine_of(server, kind="none").choose_lock(facts)
        auto = engine_of(server).choose_lock(facts)
        assert auto.kind == ("ftwrl" if facts.flavor == "mysql" else "backup-stage")
    finally:
        server.sql("DROP TABLE shop.old")


def test_a_killed_holder_frees_everybody_at_once(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        with Writers(server) as writers, held_by(server, kind) as holder:
            if kind in STOPS_COMMITS:
                assert writers.stand_still()
            holder.kill()
            assert writers.more() < 2
            wait_until("the session is gone", lambda: sessions(server) == [], 2)


def test_a_stopped_holder_loses_the_lock_at_the_ceiling(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        with Writers(server) as writers, held_by(server, kind, hold=3) as holder:
            holder.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            if kind in STOPS_COMMITS:
                assert writers.stand_still()
            wait_until("the lock is gone", lambda: len(sessions(server)) <= 1, 5)
            assert writers.more() < 2
            assert time.monotonic() - began < 5.5


def test_a_lock_that_was_lost_is_not_confirmed(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        zbackup = engine_of(server, kind=kind, hold_s=1)
        with zbackup.consistent(zbackup.inspect(), kind) as held:
            time.sleep(2.5)
            with pytest.raises(LockNotTaken, match="did not last"):
                held.confirm()
        wait_until("all sessions are gone", lambda: sessions(server) == [], 2)


@contextmanager
def _busy(server: DatabaseServer, statement: str) -> Iterator[threading.Thread]:
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


def test_long_queries_are_waited_for_refused_or_ended(server: DatabaseServer) -> None:
    facts = engine_of(server).inspect()
    long = "SELECT /* report */ COUNT(*), SLEEP(60) FROM shop.orders WHERE id < 3"
    with _busy(server, long) as query, Writers(server) as writers:
        with (
            pytest.raises(LockNotTaken, match=r"of app.*report"),
            engine_of(server, on_long_query="wait", wait_s=1).consistent(facts, "ftwrl"),
        ):
            pytest.fail("a lock was granted")
        assert writers.more() < 1
        with (
            pytest.raises(LockNotTaken, match=r"of app.*report"),
            engine_of(server, on_long_query="abort").consistent(facts, "ftwrl"),
        ):
            pytest.fail("a lock was granted")
        assert query.is_alive()
        with engine_of(server, on_long_query="kill").consistent(facts, "ftwrl") as held:
            held.confirm()
        query.join(2)
        assert not query.is_alive()


def test_only_reading_statements_are_killed_unless_told_otherwise(server: DatabaseServer) -> None:
    facts = engine_of(server).inspect()
    with _busy(server, "UPDATE shop.orders SET amount = amount + SLEEP(60) WHERE id = 1") as update:
        with (
            pytest.raises(LockNotTaken, match="UPDATE"),
            engine_of(server, on_long_query="kill", wait_s=1).consistent(facts, "ftwrl"),
        ):
            pytest.fail("a lock was granted")
        assert update.is_alive()
        with engine_of(server, on_long_query="kill", kill="all").consistent(facts, "ftwrl") as held:
            held.confirm()


def _transaction(server: DatabaseServer) -> "pymysql.Connection[Any]":
    """One of the application's that has changed a row."""
    connection = server.connect(APP_USER, APP_PASSWORD)
    connection.begin()
    _update(connection, 1)
    return connection


def _update(connection: "pymysql.Connection[Any]", number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE shop.orders SET amount = amount + 1 WHERE id = %s", (number,))


def _states(server: DatabaseServer) -> list[str]:
    return [str(row[6]) for row in server.sql("SHOW FULL PROCESSLIST") if row[1] == ZBACKUP_USER]


def test_a_lock_gives_way_where_it_would_wait_in_a_circle(server: DatabaseServer) -> None:
    """It waits for a statement, that one for a transaction's row, and the transaction for the lock."""
    zbackup = engine_of(server, wait_s=30, long_query_s=20, give_way_s=1)
    facts = zbackup.inspect()
    transaction, other = _transaction(server), server.connect(APP_USER, APP_PASSWORD)
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(_update, other, 1)
        wait_until("it waits for the row", lambda: bool(server.sql(ROW_AWAITED)), 60)
        locking = threads.submit(_lock_once, zbackup, facts)
        wait_until("the lock waits for it", lambda: any(map(LOCK_AWAITED.search, _states(server))), 60)
        _update(transaction, 2)
        assert not waits.done()
        transaction.commit()
        waits.result(60)
        other.commit()
        assert locking.result(60) > 1000
    transaction.close()
    other.close()


def _lock_once(zbackup: MysqlEngine, facts: ServerFacts) -> int:
    with zbackup.consistent(facts, "ftwrl") as held:
        held.confirm()
    return held.lock_wait_ms


def test_who_holds_up_a_lock_is_named_and_who_waits_for_him(server: DatabaseServer) -> None:
    if server.settings.kind != "mysql":
        return  # MariaDB's lock waits for no reader
    facts = engine_of(server).inspect()
    other = server.connect(APP_USER, APP_PASSWORD)
    with (
        ThreadPoolExecutor() as threads,
        _busy(server, "SELECT /* report */ COUNT(*), SLEEP(60) FROM shop.orders WHERE id < 3"),
    ):
        zbackup = engine_of(server, wait_s=4, long_query_s=30, give_way_s=2)
        locking = threads.submit(_lock_once, zbackup, facts)
        wait_until("the lock waits for it", lambda: FLUSH_AWAITED in _states(server), 60)
        waits = threads.submit(_update, other, 9)
        with pytest.raises(LockNotTaken, match=r"of app.*report.*; 1 more wait.*KILL QUERY") as refused:
            locking.result(60)
        number = re.search(r"KILL QUERY (\d+)", str(refused.value))
        assert number and not waits.done()
        server.sql(number[0])
        waits.result(60)
    other.close()


def test_waiting_for_a_lock_ends_and_nobody_stays_behind_it(server: DatabaseServer) -> None:
    facts = engine_of(server).inspect()
    blocker = server.connect()
    for kind in KINDS[server.settings.kind][:2]:
        take = "LOCK TABLES shop.customers WRITE" if kind != "backup-lock" else "LOCK INSTANCE FOR BACKUP"
        with blocker.cursor() as cursor, Writers(server) as writers:
            if kind == "backup-lock":
                continue
            if kind == "backup-stage":
                take = "BACKUP STAGE START"
            cursor.execute(take)
            began = time.monotonic()
            with (
                pytest.raises(LockNotTaken, match="not granted"),
                engine_of(server, wait_s=2).consistent(facts, kind),
            ):
                pytest.fail("a lock was granted")
            assert time.monotonic() - began < 4
            assert writers.more() < 1
            cursor.execute("UNLOCK TABLES" if kind == "ftwrl" else "BACKUP STAGE END")
        wait_until("all sessions are gone", lambda: sessions(server) == [], 2)
    blocker.close()


def test_login_and_reach_fail_in_one_clear_line(server: DatabaseServer) -> None:
    wrong = engine_of(server)
    bad = replace(wrong, connect=replace(wrong.connect, password=lambda: "no-such-secret"))
    with pytest.raises(DatabaseError, match="check user and password") as refused:
        bad.inspect()
    assert "no-such-secret" not in str(refused.value) + repr(bad)
    away = replace(bad, connect=replace(wrong.connect, socket="/tmp/no/such.sock"))
    with pytest.raises(DatabaseError, match=r"socket /tmp/no/such\.sock.*is it running"):
        away.inspect()
    closed = replace(bad, connect=replace(wrong.connect, socket="", host="127.0.0.1", port=1))
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1:1.*is it running"):
        closed.inspect()


def _privileges(kind: str) -> list[tuple[str, str]]:
    return [
        (name.strip(), grants.partition(" ON ")[2])
        for grants in ZBACKUP_GRANTS[kind]
        for name in grants.partition(" ON ")[0].split(",")
    ]


def _use_everything(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        zbackup = engine_of(server, on_long_query="kill")
        with zbackup.consistent(zbackup.inspect(), kind) as held:
            held.confirm()


def test_each_missing_privilege_is_named_with_its_grant(server: DatabaseServer) -> None:
    kind = server.settings.kind
    _use_everything(server)
    for privilege, where in _privileges(kind):
        if "SLAVE" in privilege and "ADMIN" in privilege:
            continue  # see test_a_missing_applier_privilege_is_named
        server.sql(f"REVOKE {privilege} ON {where} FROM zbackup@localhost")
        try:
            with (
                _busy(server, "SELECT COUNT(*), SLEEP(60) FROM shop.orders WHERE id < 3"),
                pytest.raises(PrivilegeMissing) as missing,
            ):
                _use_everything(server)
        finally:
            server.sql(f"GRANT {privilege} ON {where} TO zbackup@localhost")
        assert f"GRANT {privilege} ON {where} TO 'zbackup'@'localhost'" in str(missing.value)
        assert "\n" not in str(missing.value)
    _use_everything(server)
