"""Every kind of transaction, replayed.

One base is taken, with tables of every engine being written to. Then statements of every kind run, in every
format of the log, over several files of it. At two moments everything stands still, and what the server holds
then is written down; both are restored from that one base and compared.
"""

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.lab.variants import Variant
from tests.system.house import Connection, House, next_second, utc, wait_until
from tests.system.portrait import Portrait, ask, portrait
from tests.system.transaction_kinds import COMMON, UNREPEATABLE, ZONE, Kinds, play
from tests.system.transaction_kinds_own import MARIADB, MIXED_ENGINES, MYSQL, MYSQL_GTIDS, SINCE

VARIANTS = ("mysql-9.7", "mariadb-10.11")
SLOW_VARIANTS = ("mysql-9.7-no-gtid", "mariadb-11.8")

OPTIONS = ("--local-infile=ON", "--max-allowed-packet=64M", "--event-scheduler=ON")
LINES = 3000
CLEAR_S = 5.0
READING_S = 3.0
BEFORE = (
    "CREATE DATABASE before_base",
    "USE before_base",
    "CREATE TABLE busy (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60), KEY (v)) ENGINE=MyISAM",
    "CREATE TABLE fleeting (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60), KEY (v) USING HASH) "
    "ENGINE=MEMORY",
    "INSERT INTO fleeting (v) VALUES ('lost'), ('with'), ('the base')",
    "CREATE TABLE doubtful (a INT PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TABLE from_open (a INT) ENGINE=InnoDB",
    "CREATE EVENT old_one ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DO DELETE FROM busy",
    "CREATE EVENT old_sleeper ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DISABLE "
    "DO DELETE FROM busy",
)


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened, and what the server was like at the two moments."""

    base: dict[str, Any]
    rows: datetime
    """After everything had been logged as rows, with a transaction prepared and in doubt."""
    rows_like: Portrait
    last: datetime
    """After everything."""
    last_like: Portrait


@pytest.fixture(scope="module")
def variant(variant: Variant) -> Variant:
    return replace(variant, options=OPTIONS)


@pytest.fixture(scope="module")
def history(house: House) -> Iterator[History]:
    """Let it happen."""
    server = house.server
    csv = house.home / "lines.csv"
    csv.write_text("".join(f"line {n} \U0001f40b \u00e4\n" for n in range(LINES)))
    play(session := _session(house), (*ZONE, *BEFORE))
    play(_session(house), _prepared("before_base.doubtful", 1, "prepared before the base"))
    # Lost with the base, as no crash recovery brings it back; what was made with it is logged as rows.
    play(keeping := _session(house), ("USE before_base", "SET SESSION binlog_format = 'ROW'"))
    play(keeping, ("CREATE TEMPORARY TABLE open_at_base (a INT)", "INSERT INTO open_at_base VALUES (1), (2)"))
    with _writing(server.connect(), "before_base.busy"):
        base = house.snapshot()
    # A clock reading less than two seconds old does not tell that a time of years ago is wrong.
    time.sleep(READING_S)
    play(session, ("USE before_base", "XA COMMIT 'prepared before the base'"))
    play(keeping, ("INSERT INTO from_open SELECT a FROM open_at_base", "DROP TEMPORARY TABLE open_at_base"))
    play(session, ("UPDATE fleeting SET v = 'changed' WHERE id = 2", "DELETE FROM fleeting WHERE id = 1"))
    play(session, ("INSERT INTO fleeting (v) VALUES ('later')", "ALTER TABLE fleeting ADD COLUMN w INT"))
    _chapter(house, "ROW", csv)
    play(_session(house), _prepared("before_base.doubtful", 2, "in doubt"))
    rows, rows_like = _stand_still(house)
    play(session, ("XA COMMIT 'in doubt'", "FLUSH BINARY LOGS"))
    _chapter(house, "MIXED", csv)
    play(session, ("FLUSH BINARY LOGS",))
    _chapter(house, "STATEMENT", csv)
    _of_this_kind(house)
    last, last_like = _stand_still(house)
    play(session, ("CREATE DATABASE too_late",))
    yield History(base=base, rows=rows, rows_like=rows_like, last=last, last_like=last_like)


class TestTransactions:
    """The tests."""

    def test_tables_without_transactions_are_held_still_for_the_base(
        self, house: House, history: History
    ) -> None:
        exact = "ftwrl" if house.server.settings.kind == "mysql" else "backup-stage"
        assert history.base["lock"] == exact

    def test_a_moment_with_a_transaction_in_doubt(self, house: House, history: History) -> None:
        _compare(house, history.rows, history.rows_like, "rows")

    def test_everything_that_can_be_logged(self, house: House, history: History) -> None:
        _compare(house, history.last, history.last_like, "last")


def _compare(house: House, moment: datetime, wanted: Portrait, name: str) -> None:
    # Whoever restores may live elsewhere than the server.
    restored = house.zb(*house.restoring(moment, name), environment={"TZ": "Asia/Tokyo"})
    report, said = restored.data, restored.err
    assert utc(report["replay"]["effective_target"]) == moment
    assert report["replay"]["transactions"] > 100
    with house.clone(report) as clone:
        found = portrait(clone)
        statuses = ask(
            clone, "SELECT DISTINCT EVENT_SCHEMA = 'before_base', STATUS FROM information_schema.EVENTS"
        )
    if _is_mysql(house):
        # What the applier prepared a MySQL forgets at its next start: it holds no locks until then, either.
        assert (wanted["in doubt"] > 0) == ("prepared but not committed then are rolled back" in said)
        assert found["in doubt"] == 0
        found["in doubt"] = wanted["in doubt"]
    different = [
        f"{key}: {found.get(key)!r} and not {wanted.get(key)!r}"
        for key in sorted(found.keys() | wanted.keys())
        if found.get(key) != wanted.get(key)
    ]
    assert not different, "\n".join(text[:500] for text in different[:20])
    # A replica's rules, which hold for any replay; who restores is told.
    disabled = "REPLICA_SIDE_DISABLED" if _is_mysql(house) else "SLAVESIDE_DISABLED"
    assert set(statuses) == {(1, "ENABLED"), (1, "DISABLED"), (0, disabled)}
    assert "events" in said and "in_row.yearly" in said
    house.destroy(name)


def _session(house: House) -> "Connection[Any]":
    return house.server.connect(local_infile=True, charset="utf8mb4")


def _prepared(table: str, number: int, xid: str) -> tuple[str, ...]:
    return (
        f"XA START '{xid}'",
        f"INSERT INTO {table} VALUES ({number})",
        f"XA END '{xid}'",
        f"XA PREPARE '{xid}'",
    )


class _writing:  # noqa: N801  used like a function
    """Rows are added to a table without a pause while the body runs, and were added before it begins."""

    def __init__(self, connection: "Connection[Any]", table: str) -> None:
        self._connection, self._table = connection, table
        self._over = threading.Event()
        self._written = 0
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with self._connection.cursor() as cursor:
            while not self._over.is_set():
                cursor.execute(f"INSERT INTO {self._table} (v) VALUES (CONCAT('row ', RAND()))")
                cursor.execute(f"UPDATE {self._table} SET v = CONCAT('r', id) ORDER BY id DESC LIMIT 1")
                self._written += 1

    def __enter__(self) -> None:
        self._thread.start()
        wait_until("rows are written", lambda: self._written > 20, 120)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _chapter(house: House, form: str, csv: Path) -> None:
    """Everything that every server knows, logged in one format."""
    schema = f"in_{form.lower()}"
    session = _session(house)
    play(session, (f"CREATE DATABASE {schema}", f"USE {schema}", f"SET SESSION binlog_format = '{form}'"))
    for statements in COMMON.values():
        play(session, statements, schema=schema, csv=str(csv))
    if form != "STATEMENT":
        play(session, UNREPEATABLE)
    _temporary_tables_of_two(house, schema, form)
    wait_until("the event ran", lambda: bool(house.server.sql(f"SELECT * FROM {schema}.ev")), 120)


def _temporary_tables_of_two(house: House, schema: str, form: str) -> None:
    """Two sessions with temporary tables of one name, in turn."""
    sessions = [_session(house) for _ in range(2)]
    for number, session in enumerate(sessions):
        play(session, (f"USE {schema}", f"SET SESSION binlog_format = '{form}'"))
        play(session, ("CREATE TEMPORARY TABLE mine (a INT)", f"INSERT INTO mine VALUES ({number})"))
    for session in sessions:
        play(session, ("INSERT INTO from_temporary SELECT a + 500 FROM mine",))
    for session in sessions:
        session.close()


def _of_this_kind(house: House) -> None:
    """What only this kind of server knows."""
    for name, statements in _own_kinds(house).items():
        schema = "own_" + re.sub(r"\W", "_", name).lower()
        session = _session(house)
        play(session, (f"CREATE DATABASE {schema}", f"USE {schema}"))
        uuid = str(house.server.sql("SELECT @@server_uuid")[0][0]) if _is_mysql(house) else ""
        play(session, statements, schema=schema, uuid=uuid, long="l" * 5000)
        session.close()


def _own_kinds(house: House) -> Kinds:
    text = str(house.server.sql("SELECT VERSION()")[0][0])
    version = tuple(int(part) for part in text.split("-")[0].split("."))
    more = MYSQL_GTIDS if house.server.settings.gtid else {"both engines": MIXED_ENGINES}
    known = MYSQL | more if _is_mysql(house) else MARIADB
    return {name: kind for name, kind in known.items() if version >= SINCE.get(name, ())}


def _is_mysql(house: House) -> bool:
    return house.server.settings.kind == "mysql"


def _stand_still(house: House) -> tuple[datetime, Portrait]:
    """A moment before which all is committed, and after which nothing is for a while."""
    moment = next_second()
    with house.server.connect() as connection:
        like = portrait(connection)
    # What comes next writes into the past: within two seconds of the moment a restore would ask.
    time.sleep(CLEAR_S)
    return moment, like
