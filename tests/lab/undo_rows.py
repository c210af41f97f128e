"""Transactions that are taken back by their row images, between real servers: part of selftest_copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lab.copy_rig import Rig, places
from tests.lab.repeats import step
from zbackup.engines.mysql.server.connection import PrivilegeMissing, RowConnection
from zbackup.features.undo.mysql.session import MysqlUndo, MysqlUndoer, TransactionLog
from zbackup.features.undo.undoing import ImagesIncomplete, UndoneTable, UndoWish
from zbackup.model.errors import Refused
from zbackup.model.log import LogPosition
from zbackup.model.progress import Silent
from zbackup.model.recovery import Entrance

CHANGES = (
    "DELETE FROM odd.kinds WHERE id % 3 = 0",
    "UPDATE odd.kinds SET id = id + 100000, f = f * 1.5, d = -d, de = de / 3, t = REVERSE(t), bl = NULL, "
    "bi = 1, dt = NULL, ts = '2030-02-03 04:05:06.789', tm = '-11:22:33.44', y = 2001, e = 'z', s = 'q,p', "
    "j = '{\"a\": [1, 2.5, -70000, \"é\", null, true]}', u16 = 'ÿ', a = 9 WHERE id % 3 = 1 AND id < 50",
    "UPDATE odd.kinds SET b = NULL WHERE id % 3 = 2",
    "INSERT INTO odd.kinds (id, a, b) VALUES (500001, 100001, 'new'), (500002, 100002, 'é')",
    "DELETE FROM odd.comp WHERE p2 % 3 = 0",
    "UPDATE odd.comp SET v = NULL, p3 = '2031-01-01' WHERE p2 % 7 = 1",
    "DELETE FROM odd.part",
    "DELETE FROM odd.child WHERE id % 2 = 0",
    "UPDATE odd.child SET n = n + 7",
    "UPDATE odd.at SET v = v + 1",
    "DELETE FROM odd.ci",
    "DELETE FROM odd.compressed",
    "DELETE FROM odd.vec",
    "DELETE FROM odd.own",
)


class TestUndo:
    """Each transaction is made in production, and taken back there; a replica follows."""

    def test_every_kind_of_value_is_what_it_was(self, rig: Rig) -> None:
        before = _anew(rig)
        log = _transaction(rig, *CHANGES)
        with _session(rig, log) as session:
            plan = session.plan()
            assert [line for table in plan.tables for line in table.conflicts] == []
            statements = list(session.statements())
        again = rig.sums(rig.production)
        assert again != before
        _undo(rig, log)
        assert rig.sums(rig.production) == before
        # The reverse as text is the same.
        connection = rig.production.connect(autocommit=False, charset="utf8mb4")
        for change in CHANGES:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
                )
                cursor.execute(change)
        connection.commit()
        for statement in statements:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        connection.close()
        assert rig.sums(rig.production) == before
        rig.replica.catch_up(rig.production)
        assert rig.sums(rig.replica) == before

    def test_what_was_changed_since_is_left_alone_and_named(self, rig: Rig) -> None:
        _anew(rig, "odd.part", "odd.ci")
        log = _transaction(
            rig,
            "UPDATE odd.part SET v = 'wrong' WHERE id < 10",
            "DELETE FROM odd.part WHERE id >= 390",
            "INSERT INTO odd.part VALUES (1000, 'x'), (1001, 'x')",
            "UPDATE odd.part SET id = id + 5000 WHERE id BETWEEN 100 AND 109",
        )
        for statement in (
            "UPDATE odd.part SET v = 'right' WHERE id = 3",
            "DELETE FROM odd.part WHERE id = 4",
            "INSERT INTO odd.part VALUES (395, 'other')",
            "UPDATE odd.part SET v = 'y' WHERE id = 1001",
            "UPDATE odd.part SET v = 'y' WHERE id = 5105",
        ):
            rig.production.sql(statement)
        (done,) = _undo(rig, log)
        assert (done.inserted, done.updated, done.deleted, done.refused) == (9, 17, 1, 5)
        assert sorted(line.partition(":")[0] for line in done.conflicts) == [
            "odd.part id=1001",
            "odd.part id=3",
            "odd.part id=395",
            "odd.part id=4",
            "odd.part id=5105",
        ]
        (same,) = _undo(rig, log)
        assert (same.changes, same.already, same.refused) == (0, 27, 5)
        rig.replica.catch_up(rig.production)
        assert rig.sums(rig.replica) == rig.sums(rig.production)

    def test_rows_that_were_changed_again_and_again_are_what_they_were_first(self, rig: Rig) -> None:
        before = _anew(rig, "odd.part", "odd.parent", "odd.child")
        log = _transaction(
            rig,
            "INSERT INTO odd.part VALUES (2000, 'x')",
            "UPDATE odd.part SET id = 2001 WHERE id = 2000",
            "UPDATE odd.part SET id = 2000 WHERE id = 1",
            "DELETE FROM odd.part WHERE id = 2001",
            "UPDATE odd.part SET v = 'again' WHERE id = 2000",
            "UPDATE odd.part SET v = 'a' WHERE id = 7",
            "UPDATE odd.part SET v = 'b' WHERE id = 7",
            "DELETE FROM odd.part WHERE id = 8",
            "INSERT INTO odd.part VALUES (8, 'other')",
            "INSERT INTO odd.parent VALUES (9001, 5), (9002, 9001)",
            "INSERT INTO odd.child VALUES (9001, 9002, 1)",
            "UPDATE odd.child SET pid = 9001 WHERE id = 1",
        )
        assert all(table.left == 0 for table in _undo(rig, log))
        assert rig.sums(rig.production) == before

    def test_children_that_would_go_with_a_row_keep_it(self, rig: Rig) -> None:
        _anew(rig, "odd.parent", "odd.child")
        log = _transaction(rig, "INSERT INTO odd.parent VALUES (700, NULL), (701, NULL)")
        rig.production.sql("INSERT INTO odd.child VALUES (700, 700, 1)")
        (done,) = _undo(rig, log)
        assert (done.deleted, done.refused) == (1, 1)
        assert "ON DELETE CASCADE" in done.conflicts[0]
        gone = _transaction(rig, "DELETE FROM odd.parent WHERE id = 59")
        done = next(t for t in _undo(rig, gone) if str(t.table) == "odd.parent")
        assert done.inserted == 1
        assert rig.production.sql("SELECT up FROM odd.parent WHERE id = 59")[0][0] == 58

    def test_a_run_that_is_cut_off_at_any_statement_is_finished_by_the_next(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = _anew(rig, "odd.part", "odd.comp")
        log = _transaction(
            rig, "DELETE FROM odd.part WHERE id < 6", "UPDATE odd.comp SET v = 'x' WHERE p2 < 3"
        )
        wrong = rig.sums(rig.production)
        for at in places(rig, 1, step(2)):
            with monkeypatch.context() as patch:
                left = _cut_at(patch, at)
                try:
                    _undo(rig, log)
                except KeyboardInterrupt:
                    assert rig.sums(rig.production) in (wrong, before), "half of it was there"
            if left[0] > 0:
                break
            _undo(rig, log)
            assert rig.sums(rig.production) == before
            log = _transaction(
                rig, "DELETE FROM odd.part WHERE id < 6", "UPDATE odd.comp SET v = 'x' WHERE p2 < 3"
            )
        assert at > 5
        assert rig.sums(rig.production) == before

    def test_what_cannot_be_taken_back_is_refused_by_name(self, rig: Rig) -> None:
        _anew(rig, "odd.part", "odd.nokey", "odd.my")
        with pytest.raises(Refused, match=r"odd\.nokey has no primary key"):
            _undo(rig, _transaction(rig, "DELETE FROM odd.nokey"))
        with pytest.raises(Refused, match=r"odd\.my is of the engine"):
            _undo(rig, _transaction(rig, "UPDATE odd.my SET t = 'x' LIMIT 1"))
        with pytest.raises(Refused, match=r"as a statement, and not by its rows: ALTER TABLE odd\.part"):
            _undo(rig, _transaction(rig, "ALTER TABLE odd.part COMMENT = 'x'"))
        log = _transaction(rig, "UPDATE odd.part SET v = 'x' WHERE id = 1")
        with pytest.raises(ImagesIncomplete, match=r"odd\.part was altered since"):
            _undo(rig, log, altered={"odd.part": "at noon"})
        rig.production.sql("ALTER TABLE odd.part ADD COLUMN more INT")
        with pytest.raises(Refused, match="it had 2 columns, and has 3 now"):
            _undo(rig, log)
        log = _transaction(rig, "INSERT INTO odd.part VALUES (9000, 'x', 1)")
        rig.production.sql("REVOKE DELETE ON odd.* FROM zcopy@localhost")
        with pytest.raises(PrivilegeMissing, match="GRANT DELETE ON `odd`"):
            _undo(rig, log)
        rig.production.sql("GRANT DELETE ON odd.* TO zcopy@localhost")

    def test_triggers_run_if_they_should_and_nothing_is_taken_back_twice(self, rig: Rig) -> None:
        _anew(rig, "odd.part")
        for statement in (
            "CREATE TABLE odd.counted (id INT PRIMARY KEY, n INT)",
            "INSERT INTO odd.counted SELECT 1, COUNT(*) FROM odd.part",
            "CREATE TRIGGER odd.less AFTER DELETE ON odd.part FOR EACH ROW UPDATE odd.counted SET n = n - 1",
            "CREATE TRIGGER odd.more AFTER INSERT ON odd.part FOR EACH ROW UPDATE odd.counted SET n = n + 1",
        ):
            rig.production.sql(statement)
        before = rig.sums(rig.production)
        log = _transaction(rig, "DELETE FROM odd.part WHERE id < 50")
        with pytest.raises(Refused, match=r"triggers would run .*odd\.part: more"):
            _undo(rig, log)
        done = {str(t.table): t for t in _undo(rig, log, fire_triggers=True)}
        assert (done["odd.part"].inserted, done["odd.counted"].already) == (50, 1)
        assert rig.sums(rig.production) == before

    @pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
    def test_what_the_log_holds_in_part_is_completed_by_a_clone(self, rig: Rig, image: str) -> None:
        before = _anew(rig)
        log = _transaction(
            rig,
            "DELETE FROM odd.kinds WHERE id % 3 = 0",
            "UPDATE odd.kinds SET t = 'x', a = 5 WHERE id % 3 = 1",
            "UPDATE odd.kinds SET a = 6 WHERE id % 3 = 1",
            "UPDATE odd.kinds SET f = f * 1.5, d = d WHERE id % 3 = 2",
            "UPDATE odd.comp SET v = NULL WHERE p2 % 7 = 1",
            "INSERT INTO odd.part VALUES (3000, 'x')",
            "INSERT INTO odd.part (id) VALUES (3001)",
            # Keys that go from one to the next, and on to others' places.
            "UPDATE odd.part SET id = 4001 WHERE id = 1",
            "UPDATE odd.part SET id = 4002, v = 'moved' WHERE id = 4001",
            "UPDATE odd.part SET id = 4003 WHERE id = 4002",
            "UPDATE odd.part SET id = 4010 WHERE id = 12",
            "UPDATE odd.part SET id = 12 WHERE id = 11",
            "DELETE FROM odd.part WHERE id = 13",
            "UPDATE odd.part SET id = 13 WHERE id = 12",
            "UPDATE odd.part SET v = 'last' WHERE id = 13",
            image=image,
        )
        with pytest.raises(ImagesIncomplete, match="binlog_row_image") as why:
            _undo(rig, log)
        assert why.value.by_clone
        rig.production.sql("UPDATE odd.part SET v = 'since' WHERE id = 3001")
        done = {str(table.table): table for table in _undo(rig, log, clone=True)}
        assert [line for table in done.values() for line in table.conflicts] == [
            "odd.part id=3001: changed since (v is 'since', and was left as NULL)"
        ]
        rig.production.sql("UPDATE odd.part SET v = NULL WHERE id = 3001")
        assert all(table.left == 0 for table in _undo(rig, log, clone=True))
        assert rig.sums(rig.production) == before
        rig.replica.catch_up(rig.production)
        assert rig.sums(rig.replica) == before


def _anew(rig: Rig, *names: str) -> dict[str, int | None]:
    rig.production.sql("GRANT DELETE ON odd.* TO zcopy@localhost")
    rig.forget()
    rig.copy(*(names or ("odd",)))
    return rig.sums(rig.production)


def _transaction(rig: Rig, *statements: str, image: str = "FULL") -> TransactionLog:
    """Do all this in one transaction, and tell where it stands in the log."""
    connection = rig.production.connect(autocommit=False, charset="utf8mb4")
    with connection.cursor() as cursor:
        cursor.execute(
            "SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', "
            f"binlog_row_image = '{image}', binlog_format = 'ROW'"
        )
        start = _end(rig)
        for statement in statements:
            cursor.execute(statement)
        connection.commit()
    connection.close()
    end = _end(rig)
    assert start.file == end.file and start < end
    directory = rig.production.sql("SELECT @@log_bin_basename")[0][0]
    return TransactionLog(Path(str(directory)).parent / start.file, start, end)


def _end(rig: Rig) -> LogPosition:
    words = "SHOW BINARY LOG STATUS" if rig.production.settings.kind == "mysql" else "SHOW MASTER STATUS"
    row = rig.production.sql(words)[0]
    return LogPosition.of(str(row[0]), int(str(row[1])))


@contextmanager
def _session(rig: Rig, log: TransactionLog, *, clone: bool = False, **wish: Any) -> Iterator[MysqlUndo]:
    entrance = Entrance(socket=str(rig.clone.settings.socket), user="root") if clone else None
    undoer = MysqlUndoer(account=rig.copier().account)
    with undoer.of(log, UndoWish(name="it", **wish), entrance, Silent()) as session:
        yield session


def _undo(rig: Rig, log: TransactionLog, *, clone: bool = False, **wish: Any) -> tuple[UndoneTable, ...]:
    with _session(rig, log, clone=clone, **wish) as session:
        session.plan()
        return session.act()


def _cut_at(patch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Break the Nth statement that writes; what is left of the count tells whether there were so many."""
    left = [number]
    write = RowConnection.write

    def broken(connection: RowConnection, statement: bytes) -> int:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return write(connection, statement)

    patch.setattr(RowConnection, "write", broken)
    return left
