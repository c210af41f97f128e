"""A statement is found that needs a temporary table of a session that was there before the base."""

import struct
import zlib
from pathlib import Path

import pytest

from tests.unit.engines.binlog.builder import Builder
from zbackup.engines.mysql.binlog import events, temporary_tables
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.engines.mysql.binlog.temporary_tables import (
    OpenTables,
    TemporarySessions,
    ThreadStatement,
    find_doubtful,
    find_foreign,
)
from zbackup.engines.mysql.sql.grammar import read_statement
from zbackup.model.log import LogPosition
from zbackup.model.log_entry import LogEntry, LogFilter
from zbackup.model.unreplayable import Unreplayable

OPEN = "CREATE TEMPORARY TABLE orders (id INT)"


class Log:
    """One log: a file that the base ends with, and one behind it."""

    def __init__(self, room: Path) -> None:
        self.paths = [room / f"binlog.{number:06}" for number in (1, 2)]
        self.files = [Builder(mariadb=True), Builder(mariadb=True)]
        self.number = 0

    def say(self, file: int, thread: int, text: str, *, flags: int = 4, schema: bytes = b"shop") -> None:
        builder = self.files[file]
        start = len(builder.data)
        self.number += 1
        if builder.mariadb:
            builder.event(events.MARIADB_GTID, struct.pack("<QIB", self.number, 0, 1) + bytes(6))
        else:
            builder.event(events.ANONYMOUS_GTID, bytes(42))
        head = struct.pack("<IIBHH", thread, 0, len(schema), 0, 0)
        builder.event(events.QUERY, head + schema + b"\0" + text.encode(), flags=flags)
        builder.note(start, 0, f"0-1-{self.number}")

    def restart(self, file: int = 1) -> None:
        """The server was started for that file."""
        data = self.files[file].data
        data[FIRST_EVENT + 71 : FIRST_EVENT + 75] = b"\1\2\3\4"
        (size,) = struct.unpack_from("<I", data, FIRST_EVENT + 9)
        end = FIRST_EVENT + size
        data[end - 4 : end] = struct.pack("<I", zlib.crc32(data[FIRST_EVENT : end - 4]))

    def found(self, newest: int | None = 50, *, drops_fail: bool = True) -> Unreplayable | None:
        for path, builder in zip(self.paths, self.files, strict=True):
            path.write_bytes(builder.data)
        first, second = (len(builder.data) for builder in self.files)
        span = LogPosition.of("binlog.000001", first), LogPosition.of("binlog.000002", second)
        return find_foreign(self.paths, span, lambda: self.paths[:1], newest, drops_fail=drops_fail)

    def touched(self, *tables: str, backwards: bool = False) -> dict[str, list[str]]:
        """What a search finds in the second file: each statement, and the tables that it is of."""
        self.found()
        found = search(self.paths, LogFilter(tables=tables, backwards=backwards))
        entries = [each for each in found if isinstance(each, LogEntry)]
        assert backwards is (
            len(entries) > 1 and entries[0].transaction.start > entries[-1].transaction.start
        )
        return {e.logged: sorted(t.name for t in e.tables) for e in entries}

    def doubtful(self, newest: int | None) -> str:
        self.found()
        first, second = (len(builder.data) for builder in self.files)
        span = LogPosition.of("binlog.000001", first), LogPosition.of("binlog.000002", second)
        return find_doubtful(self.paths, span, lambda: self.paths[:1], newest)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.mark.parametrize(
    ("made", "text", "named"),
    [
        (OPEN, "DELETE FROM orders", "shop.orders"),
        (OPEN, "DELETE FROM `ORDERS`", "shop.orders"),
        (OPEN, "INSERT INTO x.real SELECT o.id FROM shop.orders AS o", "shop.orders"),
        (OPEN, "CALL p()", "shop.orders"),
        (OPEN, "INSERT INTO orders VALUES (CONNECTION_ID())", "shop.orders"),
        ("CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS a.`b` (id INT)", "UPDATE a.b SET id = 1", "a.b"),
        ("CREATE /*!40005 TEMPORARY */ TABLE t (id INT)", "TRUNCATE t", "shop.t"),
    ],
)
def test_what_was_open_in_the_base_is_named(log: Log, made: str, text: str, named: str) -> None:
    log.say(0, 7, made)
    log.say(1, 8, "INSERT INTO sink VALUES (CONNECTION_ID())")
    log.say(1, 7, text)
    found = log.found()
    assert found and found.of_base and "session 7" in found.why and named in found.why
    assert found.transaction.gtid == f"0-1-{log.number}"


@pytest.mark.parametrize(("newest", "doubted"), [(None, True), (7, True), (6, False)])
def test_a_session_older_than_the_log_is_a_doubt_and_no_refusal(
    log: Log, newest: int | None, doubted: bool
) -> None:
    """A trigger that calls CONNECTION_ID() has its statement marked as a temporary table does."""
    log.say(1, 7, "DELETE FROM orders")
    assert log.found(newest) is None
    assert ("session 7" in log.doubtful(newest)) is doubted


@pytest.mark.parametrize(
    ("text", "doubted"),
    [
        ("CREATE OR REPLACE TABLE `a`.`t` (\n  `like` int DEFAULT 1\n) ENGINE=InnoDB", False),
        ("CREATE OR REPLACE SEQUENCE s", False),
        ("DROP TABLE IF EXISTS `t`/* Generated to handle failed CREATE OR REPLACE */", False),
        ("CREATE OR REPLACE TABLE t LIKE orders", True),
        ("CREATE OR REPLACE TABLE t AS SELECT * FROM orders", True),
    ],
)
def test_what_is_replaced_is_no_temporary_table(log: Log, text: str, *, doubted: bool) -> None:
    """MariaDB marks all that drops a table; what is copied may be a temporary one."""
    log.say(0, 7, text)
    log.say(1, 7, text)
    assert bool(log.doubtful(9)) is doubted
    assert log.found() is None


def test_where_the_log_reaches_back_to_the_servers_start_there_is_no_doubt(log: Log) -> None:
    log.restart(0)
    log.say(0, 7, "INSERT INTO sink VALUES (CONNECTION_ID())")
    log.say(1, 7, "DELETE FROM orders")
    assert log.doubtful(None) == ""


def test_a_trigger_may_have_made_a_table_before_the_base(log: Log) -> None:
    """What it makes is in no log: the statement that it ran for is marked, and names no temporary table."""
    log.restart(0)
    log.say(0, 7, "DELETE FROM orders LIMIT 1")
    log.say(1, 8, "DELETE FROM orders LIMIT 1")
    assert log.doubtful(50) == ""
    log.say(1, 7, "DELETE FROM orders LIMIT 1")
    assert "session 7" in log.doubtful(50)
    assert log.found() is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [(7, OPEN), (7, "DELETE FROM orders")]),
        ([(7, OPEN), (7, "DROP TEMPORARY TABLE orders")], [(7, OPEN), (7, "DELETE FROM orders")]),
        ([(7, OPEN)], [(7, "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `orders`")]),
        ([(7, OPEN)], [(8, "INSERT INTO sink VALUES (CONNECTION_ID())")]),
        (
            [(7, OPEN), (7, "DROP TEMPORARY TABLE IF EXISTS `t3`,`orders`")],
            [(51, "INSERT INTO a VALUES (1)")],
        ),
        ([], [(7, OPEN), (7, "ALTER TABLE orders RENAME TO o2"), (7, "DELETE FROM o2")]),
        ([(7, OPEN)], [(7, OPEN), (7, "DELETE FROM orders")]),
    ],
)
def test_what_is_explained_by_the_replay_itself_stops_nothing(
    log: Log, before: list[tuple[int, str]], after: list[tuple[int, str]]
) -> None:
    for file, said in enumerate((before, after)):
        for thread, text in said:
            log.say(file, thread, text)
    assert log.found() is None


def test_a_session_that_had_just_begun_is_known_by_its_create(log: Log) -> None:
    log.say(0, 51, OPEN)
    log.say(1, 51, "DELETE FROM orders")
    assert log.found() is not None


def test_a_start_of_the_server_ends_all_sessions(log: Log) -> None:
    log.say(0, 7, OPEN)
    log.say(1, 7, "DELETE FROM orders")
    log.restart()
    assert log.found() is None


def test_an_unmarked_statement_is_anybody_s(log: Log) -> None:
    log.say(0, 7, OPEN)
    log.say(1, 7, "DELETE FROM orders", flags=0)
    assert log.found() is None


@pytest.mark.parametrize("fails", [False, True])
def test_a_drop_alone_counts_where_it_fails(log: Log, *, fails: bool) -> None:
    log.say(0, 7, OPEN)
    log.say(1, 7, "DROP TEMPORARY TABLE `orders` /* generated by server */")
    assert bool(log.found(drops_fail=fails)) == fails


DML = "INSERT INTO orders SELECT id FROM other"


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("before", "statement", "tables"),
    [
        ([OPEN], DML, []),
        ([OPEN], "DELETE FROM `shop`.orders", []),
        ([OPEN], "UPDATE orders, real SET a = 1", ["shop.real"]),
        (["CREATE TEMPORARY TABLE other (id INT)"], DML, ["shop.orders"]),
        ([OPEN, "DROP TEMPORARY TABLE `orders`"], DML, ["shop.orders"]),
        ([OPEN, "ALTER TABLE orders RENAME TO o2"], DML, ["shop.orders"]),
        ([OPEN, "ALTER TABLE orders RENAME TO o2"], "DELETE FROM o2", []),
        ([OPEN], "DROP TABLE orders", ["shop.orders"]),
        ([OPEN], "CREATE TABLE orders (id INT)", ["shop.orders"]),
        ([OPEN], "CREATE INDEX i ON orders (id)", []),
        ([OPEN], "TRUNCATE orders", []),
        # A DEFAULT (CONNECTION_ID()) of a real table has it marked.
        ([], "TRUNCATE orders", ["shop.orders"]),
        ([], "ALTER TABLE orders TRUNCATE PARTITION p", ["shop.orders"]),
        ([OPEN], "ALTER TABLE orders TRUNCATE PARTITION p", []),
        ([], "ALTER TABLE orders ADD COLUMN b INT DEFAULT (CONNECTION_ID())", ["shop.orders"]),
        ([OPEN], "RENAME TABLE orders TO o2", []),
        ([OPEN], "RENAME TABLE real TO orders", ["shop.orders", "shop.real"]),
        ([OPEN], "RENAME TABLE orders TO o2, real TO orders", ["shop.orders", "shop.real"]),
    ],
)
def test_a_search_takes_no_temporary_table_for_a_real_one(
    log: Log, before: list[str], statement: str, tables: list[str], *, backwards: bool
) -> None:
    """Made in the file before, by the same session; with another one's between."""
    for text in before:
        log.say(0, 7, text)
    log.say(0, 8, OPEN)
    # MariaDB marks all of them, but RENAME TABLE.
    log.say(1, 7, statement, flags=0 if statement.startswith("RENAME") else 4)
    log.say(1, 9, "TRUNCATE something")
    assert log.touched(backwards=backwards)[statement] == tables
    assert (statement in log.touched("shop.orders")) == ("shop.orders" in tables)


def test_a_table_made_in_the_same_transaction_is_known(log: Log) -> None:
    builder = log.files[1]
    builder.event(events.MARIADB_GTID, struct.pack("<QIB", 9, 0, 0) + bytes(6))
    for text in ("BEGIN", OPEN, "INSERT INTO orders VALUES (1)", "INSERT INTO real VALUES (1)", "COMMIT"):
        head = struct.pack("<IIBHH", 7, 0, 4, 0, 0)
        builder.event(events.QUERY, head + b"shop\0" + text.encode(), flags=4)
    log.say(1, 9, "TRUNCATE something")
    (tables,) = [each for text, each in log.touched().items() if OPEN in text]
    assert tables == ["shop.real"]


def test_a_restart_between_the_files_ends_the_sessions(log: Log) -> None:
    log.say(0, 7, OPEN)
    log.say(1, 7, DML)
    log.say(1, 9, "TRUNCATE something")
    log.restart()
    assert log.touched()[DML] == ["shop.orders"]


def test_mysql_renames_no_temporary_table(log: Log) -> None:
    """The real one of the name is renamed, and the temporary one keeps it (MySQL 9.7.4)."""
    log.files = [Builder(), Builder()]
    log.say(0, 7, OPEN)
    log.say(0, 7, "RENAME TABLE orders TO o2", flags=0)
    log.say(1, 7, "DELETE FROM orders")
    log.say(1, 9, "TRUNCATE something")
    assert log.touched()["DELETE FROM orders"] == []
    assert log.touched()["RENAME TABLE orders TO o2"] == ["shop.o2", "shop.orders"]


def test_each_file_is_read_once_for_what_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path)
    log.paths = [tmp_path / f"binlog.{number:06}" for number in range(1, 31)]
    log.files = [Builder(mariadb=True) for _ in log.paths]
    for file in range(30):
        for thread in range(5):
            log.say(file, 10 * file + thread, OPEN)
            log.say(file, 10 * file + thread, DML)
            log.say(file, 10 * file + thread, "DROP TEMPORARY TABLE orders")
    for path, builder in zip(log.paths, log.files, strict=True):
        path.write_bytes(builder.data)
    read: list[str] = []
    whole = temporary_tables.opened
    monkeypatch.setattr(
        temporary_tables, "opened", lambda file, *at: (read.append(file.name), whole(file, *at))[1]
    )
    tables = OpenTables(log.paths)
    for file, path in enumerate(log.paths):
        assert tables.before(path, path.stat().st_size, 10 * file) == set()
    assert len(read) < 5 * len(log.paths)


def test_a_session_that_dropped_its_tables_is_forgotten() -> None:
    """Those of every session since the server's start would be kept for each file."""
    sessions = TemporarySessions()
    for thread in range(100):
        for text in (OPEN, DML, "DROP TEMPORARY TABLE orders"):
            sessions.take(ThreadStatement(thread, "shop", read_statement(text, "shop")))
    assert sessions.open == {}


@pytest.mark.parametrize(
    "name", ["orders", "`ORDERS`", "shop.orders", "`or``ders`", "żółw", "`ŻÓŁW`", '`o"x`']
)
def test_a_long_statement_is_taken_apart_up_to_its_temporary_table(name: str) -> None:
    sessions = TemporarySessions()
    sessions.take(
        ThreadStatement(7, "shop", read_statement(f"CREATE TEMPORARY TABLE {name} (id INT)", "shop"))
    )
    statement = read_statement(f"INSERT INTO {name} VALUES {','.join(['(1)'] * 1000)}", "shop")
    sessions.take(ThreadStatement(7, "shop", statement))
    assert sessions.unexplained == set()
    assert statement.source is not None and len(statement.source.seen) < 20


@pytest.mark.parametrize("text", ["INSERT INTO others SELECT f()", "INSERT INTO `or``der` VALUES ('orders')"])
def test_a_table_that_is_but_in_a_string_is_not_named(text: str) -> None:
    sessions = TemporarySessions()
    sessions.take(ThreadStatement(7, "shop", read_statement(OPEN, "shop")))
    sessions.take(ThreadStatement(7, "shop", read_statement(text, "shop")))
    assert sessions.unexplained == {7}
