"""Rows that are loaded as lines, between real servers: part of selftest_copy."""

import time

import pytest

from tests.lab.copy_rig import Rig, cut_at, places
from tests.lab.repeats import step
from zbackup.engines.mysql.production import statements, throttle
from zbackup.engines.mysql.production.tables import ServerTable
from zbackup.engines.mysql.server.connection import RowConnection, StatementFailed
from zbackup.features.copyback.mysql import load_data_lines, load_lacking, load_rows, session
from zbackup.model.errors import DatabaseError


def interrupted(*_: object) -> None:
    time.sleep(1)  # until the clone's server is at it
    raise KeyboardInterrupt


class TestLoads:
    """`more` is a production and a clone, with a schema of that name."""

    def test_long_values_and_many_keys_are_bounded(self, more: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        """MariaDB would take minutes to make a line of the longest of these."""
        more.production.sql("SET GLOBAL local_infile = ON")
        more.clone.sql("CREATE TABLE more.long (id INT PRIMARY KEY, t MEDIUMTEXT)")
        more.clone.sql("INSERT INTO more.long VALUES (1, REPEAT('\\\\', 500000)), (2, 'a\\n'), (3, NULL)")
        taken: list[str] = []
        load = load_rows._load
        monkeypatch.setattr(load_rows, "_load", lambda *all_: taken.__iadd__([load(*all_)])[-1])
        more.copy("more.long")
        assert set(taken) == {"no"}
        more.clone.sql("UPDATE more.long SET t = REPEAT('\\n', 16384) WHERE id = 1")
        taken.clear()
        more.copy("more.long", replace=True)
        assert set(taken) == {"proven"}
        assert more.production.checksum(["more.long"]) == more.clone.checksum(["more.long"])
        more.production.sql("DELETE FROM more.long WHERE id = 3")
        more.production.sql("INSERT INTO more.long VALUES (8, '8'), (9, '9'), (10, '10')")
        monkeypatch.setattr(load_data_lines, "MOST_KEYS", 3)
        assert more.copy("more.long", missing=True)[0].inserted == 1

    def test_no_value_is_taken_for_something_else(self, more: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every byte, words that mean something to a load, and character sets that have bytes of these."""
        more.production.sql("SET GLOBAL local_infile = ON")
        more.clone.sql(
            "CREATE TABLE more.odd (id INT PRIMARY KEY, b BLOB, t VARCHAR(40), sj VARCHAR(20) CHARACTER SET "
            "sjis, u VARCHAR(20) CHARACTER SET utf16, j JSON, e ENUM('a''b', 'NULL'), s SET('p', 'q'), "
            "f FLOAT, d DOUBLE, n DECIMAL(20, 5), at TIMESTAMP(3) NULL, y YEAR, tm TIME)"
        )
        every = bytes(range(256)).hex()
        words = ("", "NULL", "\\N", "\t", "\n", "'", "''", "a'\t'b\\", "\0\x1a", "'\n\t")
        for number, word in enumerate(words):
            text = f"CONVERT(0x{word.encode().hex()} USING utf8mb4)" if word else "''"
            more.clone.sql(
                f"INSERT INTO more.odd VALUES ({number}, 0x{every}, {text}, 0x835C5C8F5C, {text}, "
                f"JSON_OBJECT('a', {text}, 'b', NULL), 'NULL', 'p,q', -0.1, 1e-300, -1.50000, "
                "'2026-01-01 00:00:00.001', 2026, '-01:00:00')"
            )
        more.clone.sql("INSERT INTO more.odd (id, e) VALUES (100, 'a''b'), (101, NULL)")
        taken: list[str] = []
        load = load_rows._load
        monkeypatch.setattr(load_rows, "_load", lambda *all_: taken.__iadd__([load(*all_)])[-1])
        more.copy("more.odd")
        assert taken == ["proven"]
        wanted = more.clone.checksum(["more.odd"])
        assert more.production.checksum(["more.odd"]) == wanted
        more.production.sql("DELETE FROM more.odd WHERE id % 2 = 0")
        with monkeypatch.context() as patch:
            patch.setattr(load_lacking, "insert_lacking", None)
            assert more.copy("more.odd", missing=True)[0].inserted == 6
        assert more.production.checksum(["more.odd"]) == wanted

    def test_missing_rows_that_a_load_does_not_take_are_written_or_refused_one_by_one(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What came meanwhile stays, and what production's own rows keep out is named."""
        more.production.sql("SET GLOBAL local_infile = ON")
        more.both(
            "CREATE TABLE more.up (id INT PRIMARY KEY)",
            "CREATE TABLE more.own (id INT PRIMARY KEY, u INT, p INT, UNIQUE (u), "
            "CONSTRAINT ofup FOREIGN KEY (p) REFERENCES more.up (id))",
            "INSERT INTO more.up VALUES (1), (2)",
            f"INSERT INTO more.own VALUES {', '.join(f'({n}, {n}, {1 + n % 2})' for n in range(20))}",
        )
        for statement in (
            "DELETE FROM more.own WHERE id >= 4",
            "DELETE FROM more.own WHERE p = 2",
            "DELETE FROM more.up WHERE id = 2",
            "INSERT INTO more.own VALUES (50, 12, NULL)",
        ):
            more.production.sql(statement)
        monkeypatch.setattr(load_data_lines, "LINES_AT_MOST", 3)
        with more.session("more.own", missing=True) as copy:
            plan = copy.plan()
            assert "LOAD DATA" in plan.steps[0].statements[0]
            assert copy.compare(plan.steps[0]).missing == 18
            more.production.sql("INSERT INTO more.own VALUES (8, 88, NULL)")
            (done,) = copy.act(plan)
        # The odd ones lack a parent; 12 is somebody else's, and 8 is there by now.
        assert (done.inserted, done.refused) == (6, 11)
        assert any("id=12" in line and "Duplicate" in line for line in done.conflicts)
        assert list(more.production.sql("SELECT u FROM more.own WHERE id = 8")) == [(88,)]
        more.production.sql("DELETE FROM more.own WHERE id IN (8, 50)")
        done = more.copy("more.up", "more.own", missing=True)
        assert {str(t.into): (t.inserted, t.refused) for t in done} == {
            "more.up": (1, 0),
            "more.own": (12, 0),
        }
        assert more.production.checksum(["more.own"]) == more.clone.checksum(["more.own"])

    def test_a_copy_that_is_stopped_holds_no_row_for_long(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As by Ctrl-Z, in the middle of a transaction in production's own table."""
        more.production.sql("SET GLOBAL local_infile = ON")
        more.both("CREATE TABLE more.stopped (id INT PRIMARY KEY, v INT)")
        more.clone.sql("INSERT INTO more.stopped VALUES (1, 1), (2, 2), (3, 3)")
        more.production.sql("INSERT INTO more.stopped VALUES (3, 30)")
        write = RowConnection.write

        others = ["INSERT INTO more.stopped VALUES (1, 10)", "UPDATE more.stopped SET v = 31 WHERE id = 3"]

        def stopped(self: RowConnection, statement: bytes) -> int:
            if statement == b"COMMIT":
                more.production.sql(others.pop(0))  # waits for the lock
            return write(self, statement)

        for wish in ({"missing": True}, {"changed": True}):
            with monkeypatch.context() as patch:
                patch.setattr(throttle, "SILENT_S", 1)
                patch.setattr(RowConnection, "write", stopped)
                with pytest.raises(DatabaseError):
                    more.copy("more.stopped", **wish)
        assert list(more.production.sql("SELECT * FROM more.stopped")) == [(1, 10), (3, 31)]
        assert more.copy("more.stopped", missing=True, changed=True)[0].inserted == 1
        assert more.production.checksum(["more.stopped"]) == more.clone.checksum(["more.stopped"])

    def test_who_stops_does_not_wait_for_a_clone_that_never_answers(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As by Ctrl-C, while the clone's server makes the second portion for an hour."""
        more.production.sql("SET GLOBAL local_infile = ON")
        more.clone.sql("CREATE TABLE more.slow (id INT PRIMARY KEY)")
        more.clone.sql("INSERT INTO more.slow VALUES (1), (2), (3), (4)")
        monkeypatch.setattr(load_data_lines, "LINES_AT_MOST", 2)
        lines, asked = load_data_lines.lines, []

        def slow(table: ServerTable, condition: bytes) -> bytes:
            asked.append(condition)
            return lines(table, condition) if len(asked) == 1 else b"SELECT SLEEP(3600)"

        monkeypatch.setattr(load_data_lines, "lines", slow)
        monkeypatch.setattr(load_rows.Loading, "begin", interrupted)
        with pytest.raises(KeyboardInterrupt):
            more.copy("more.slow")
        assert len(asked) == 2

    @pytest.mark.parametrize("lines", ["ON", "OFF"])
    def test_what_was_shown_is_put_back_and_nothing_else(self, more: Rig, lines: str) -> None:
        """A row that was deleted meanwhile stays away. One that no partition is for is named."""
        more.production.sql(f"SET GLOBAL local_infile = {lines}")
        parts = "CREATE TABLE more.parts (id INT PRIMARY KEY) PARTITION BY RANGE (id) ({})"
        more.clone.sql(parts.format("PARTITION p0 VALUES LESS THAN (100)"))
        more.production.sql(parts.format("PARTITION p0 VALUES LESS THAN (6)"))
        more.clone.sql("INSERT INTO more.parts VALUES (1), (2), (3), (4), (7)")
        more.production.sql("INSERT INTO more.parts VALUES (1), (2)")
        with more.session("more.parts", missing=True) as copy:
            plan = copy.plan()
            assert ("LOAD DATA" in plan.steps[0].statements[0]) is (lines == "ON")
            assert copy.compare(plan.steps[0]).missing == 3
            more.production.sql("DELETE FROM more.parts WHERE id = 2")
            more.production.sql("INSERT INTO more.parts VALUES (4)")
            (done,) = copy.act(plan)
        assert (done.inserted, done.refused) == (1, 1)
        assert "id=7" in done.conflicts[0] and "partition" in done.conflicts[0]
        assert list(more.production.sql("SELECT id FROM more.parts ORDER BY id")) == [(1,), (3,), (4,)]

    def test_missing_rows_come_back_whichever_statement_was_the_last(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        more.production.sql("SET GLOBAL local_infile = ON")
        rows = ", ".join(f"({n}, REPEAT('x', {n}), 'k{n}')" for n in range(9))
        more.both(
            "CREATE TABLE more.gone (id INT, t TEXT, k VARCHAR(9) PRIMARY KEY)",
            f"INSERT INTO more.gone VALUES {rows}",
        )
        monkeypatch.setattr(load_data_lines, "LINES_AT_MOST", 2)
        for number in places(more, 1, step(2)):
            more.production.sql("DELETE FROM more.gone WHERE id > 1")
            with monkeypatch.context() as patch:
                cut = cut_at(patch, number)
                try:
                    more.copy("more.gone", missing=True)
                except DatabaseError:
                    more.copy("more.gone", missing=True)
            assert more.production.checksum(["more.gone"]) == more.clone.checksum(["more.gone"]), number
            if not cut:
                break
        assert number > 7

    def test_portions_are_loaded_side_by_side_and_committed_in_their_order(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Some cannot come as lines. What a cut leaves is a beginning, and the next run goes on behind it."""
        more.production.sql("SET GLOBAL local_infile = ON")
        more.clone.sql("CREATE TABLE more.side (id INT PRIMARY KEY, t MEDIUMTEXT, UNIQUE (t(20)))")
        values = (
            f"({n}, CONCAT('{n}-', REPEAT('x', {20_000 if n in (5, 6, 13) else 9})))" for n in range(1, 24)
        )
        more.clone.sql(f"INSERT INTO more.side VALUES {', '.join(values)}")
        monkeypatch.setattr(load_data_lines, "LINES_AT_MOST", 2)
        for number in places(more, 3, step(4)):
            more.production.sql("DROP TABLE IF EXISTS more.side")
            with monkeypatch.context() as patch:
                cut = cut_at(patch, number)
                try:
                    more.copy("more.side")
                except DatabaseError:
                    work = [t for t in more.production.tables() if t.startswith("more.zbackup_copy_")]
                    for name in work:
                        ids = [
                            int(row[0]) for row in more.production.sql(f"SELECT id FROM {name} ORDER BY 1")
                        ]
                        assert ids == list(range(1, len(ids) + 1)), number
                    more.copy("more.side")
            assert more.production.checksum(["more.side"]) == more.clone.checksum(["more.side"]), number
            if not cut:
                break
        assert number > 20

    def test_a_global_read_lock_of_somebody_else_is_waited_for(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """From a COMMIT on until an INSERT was not taken."""
        more.production.sql("SET GLOBAL local_infile = ON")
        more.clone.sql("CREATE TABLE more.held (id INT PRIMARY KEY)")
        more.clone.sql(f"INSERT INTO more.held VALUES {', '.join(f'({n})' for n in range(9))}")
        monkeypatch.setattr(load_data_lines, "LINES_AT_MOST", 2)
        quick = statements.SETTINGS.replace(", lock_wait_timeout = 5", ", lock_wait_timeout = 1")
        monkeypatch.setattr(session, "SETTINGS", quick)
        write = RowConnection.write
        waited: list[tuple[bytes, int]] = []

        def held(self: RowConnection, statement: bytes) -> int:
            if statement == b"COMMIT" and not waited:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
            try:
                return write(self, statement)
            except StatementFailed as failure:
                waited.append((statement[:6], failure.code))
                if statement.startswith(b"INSERT"):
                    cursor.execute("UNLOCK TABLES")
                raise

        monkeypatch.setattr(RowConnection, "write", held)
        with more.production.connect() as other, other.cursor() as cursor:
            assert more.copy("more.held")[0].inserted == 9
        assert waited == [(b"COMMIT", 1205), (b"INSERT", 1205)]
        assert more.production.checksum(["more.held"]) == more.clone.checksum(["more.held"])

    @pytest.mark.parametrize("most", [1, 2, 3])
    def test_as_many_sessions_are_taken_as_the_account_may_have(self, more: Rig, most: int) -> None:
        more.both("SET GLOBAL local_infile = ON", "CREATE TABLE more.few (id INT PRIMARY KEY)")
        more.clone.sql("INSERT INTO more.few VALUES (1), (2)")
        more.production.sql(f"ALTER USER zcopy@localhost WITH MAX_USER_CONNECTIONS {most}")
        try:
            if most == 1:
                with pytest.raises(DatabaseError, match="takes two sessions of zcopy"):
                    more.copy("more.few")
            else:
                assert [t.inserted for t in more.copy("more.few", missing=True)] == [2]
                assert [t.inserted for t in more.copy("more.few", replace=True)] == [2]
        finally:
            more.production.sql("ALTER USER zcopy@localhost WITH MAX_USER_CONNECTIONS 0")
        names = ["more.few"] if most == 1 else ["more.few", "more.few_before_20260101T000000"]
        assert [t for t in more.production.tables() if t.startswith("more.")] == names
