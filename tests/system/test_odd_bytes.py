"""Bytes that are no text, in what clients sent: ids of XA transactions, and statements that run."""

import contextlib
import threading
import time
from collections.abc import Iterator

import pymysql

from tests.system.house import House, next_second

VARIANTS = ("mysql-9.7", "mariadb-11.8")
SLOW_VARIANTS = ("mariadb-10.11",)

HELD, LATER = "0x0a0b00ff80c3,0x00ff01,1096044365", "0x0a0b00ff80c4,0x00ff02,1096044365"
"""Ids as Java's transaction managers make them."""
RUNS_S = 8


def prepare(house: House, xid: str, number: int) -> None:
    """Leave a transaction in doubt."""
    with house.server.connect() as session, session.cursor() as cursor:
        for statement in (
            f"XA START {xid}",
            f"INSERT INTO doubt.t VALUES ({number})",
            f"XA END {xid}",
            f"XA PREPARE {xid}",
        ):
            cursor.execute(statement)


def rows(connection: "pymysql.connections.Connection[pymysql.cursors.Cursor]") -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT a FROM doubt.t ORDER BY a")
        return [row[0] for row in cursor.fetchall()]


class TestOddBytes:
    """The tests."""

    def test_a_restore_across_transactions_in_doubt_with_binary_ids(self, house: House) -> None:
        house.server.sql("CREATE DATABASE doubt")
        house.server.sql("CREATE TABLE doubt.t (a INT PRIMARY KEY) ENGINE=InnoDB")
        prepare(house, HELD, 1)
        try:
            house.zb("check", "--json").data  # noqa: B018  checks the exit status
            house.snapshot()
            house.server.sql("INSERT INTO doubt.t VALUES (2)")
            prepare(house, LATER, 3)
            house.server.sql("INSERT INTO doubt.t VALUES (4)")
            moment = next_second()
            house.server.sql("INSERT INTO doubt.t VALUES (5)")
            done = house.zb(*house.restoring(moment, "odd"))
            report, said = done.data, done.err.lower().replace(" ", "")
            assert "x'0a0b00ff80c3',x'00ff01',1096044365" in said
            assert "x'0a0b00ff80c4',x'00ff02',1096044365" in said
            with house.clone(report) as clone:
                assert rows(clone) == [2, 4]
                with clone.cursor() as cursor:
                    cursor.execute(f"XA COMMIT {HELD}")
                assert rows(clone) == [1, 2, 4]
            house.destroy("odd")
        finally:
            for xid in (HELD, LATER):
                with contextlib.suppress(pymysql.MySQLError):
                    house.server.sql(f"XA ROLLBACK {xid}")

    def test_a_snapshot_beside_a_statement_that_is_no_text(self, house: House) -> None:
        with running(house, f"SELECT SLEEP({RUNS_S}), ".encode() + b"_binary'\xff\xfe\xc3'"):
            taken = house.snapshot(house.configure("ftwrl", lock="ftwrl"))
        assert taken["lock"] == "ftwrl"


@contextlib.contextmanager
def running(house: House, statement: bytes) -> Iterator[None]:
    """Run a statement meanwhile."""
    session = house.server.connect()
    thread = threading.Thread(target=session.query, args=(statement,))
    thread.start()
    time.sleep(1)
    assert thread.is_alive()
    try:
        yield
    finally:
        thread.join()
        session.close()
