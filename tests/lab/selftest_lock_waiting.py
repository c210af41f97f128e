"""Waiting for a lock, and how long others wait behind it. Needs no ZFS; run with pytest by name."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymysql
import pytest

from tests.lab.lock_rig import KINDS, Writers, busy, engine_of, room, server, sessions
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.servers.accounts import APP_PASSWORD, APP_USER, ZBACKUP_USER
from tests.system.house import wait_until
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.lock.long_queries import FLUSH_AWAITED
from zbackup.model.errors import LockNotTaken
from zbackup.model.server import ServerFacts

__all__ = ["room", "server"]

ROW_AWAITED = "SELECT trx_id FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
LOCK_AWAITED = re.compile("Waiting for (global read|backup) lock")


def test_long_queries_are_waited_for_refused_or_ended(server: DatabaseServer) -> None:
    facts = engine_of(server).inspect()
    long = "SELECT /* report */ COUNT(*), SLEEP(60) FROM shop.orders WHERE id < 3"
    with busy(server, long) as query, Writers(server) as writers:
        with (
            pytest.raises(LockNotTaken, match=r"of app.*SLEEP"),
            engine_of(server, on_long_query="wait", wait=1).consistent(facts, "ftwrl"),
        ):
            pytest.fail("a lock was granted")
        assert writers.more() < 1
        with (
            pytest.raises(LockNotTaken, match=r"of app.*SLEEP"),
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
    with busy(server, "UPDATE shop.orders SET amount = amount + SLEEP(60) WHERE id = 1") as update:
        with (
            pytest.raises(LockNotTaken, match="UPDATE"),
            engine_of(server, on_long_query="kill", wait=1).consistent(facts, "ftwrl"),
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
    zbackup = engine_of(server, wait=30, long_query=20, give_way=1)
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
        busy(server, "SELECT /* report */ COUNT(*), SLEEP(60) FROM shop.orders WHERE id < 3"),
    ):
        zbackup = engine_of(server, wait=12, long_query=30, give_way=2)
        locking = threads.submit(_lock_once, zbackup, facts)
        wait_until("the lock waits for it", lambda: FLUSH_AWAITED in _states(server), 60)
        waits = threads.submit(_update, other, 9)
        with pytest.raises(LockNotTaken, match=r"of app.*SLEEP.*; 1 more wait.*KILL QUERY") as refused:
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
                engine_of(server, wait=2).consistent(facts, kind),
            ):
                pytest.fail("a lock was granted")
            assert time.monotonic() - began < 4
            assert writers.more() < 1
            cursor.execute("UNLOCK TABLES" if kind == "ftwrl" else "BACKUP STAGE END")
        wait_until("all sessions are gone", lambda: sessions(server) == [], 2)
    blocker.close()
