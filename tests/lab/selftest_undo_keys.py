"""Foreign keys that act when a transaction is taken back, on real servers. Needs no ZFS; pytest by name.

No row of others goes, changes or loses its key with one that is taken back; what `--dry-run` says is what is
done.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.lab.lock_rig import room, start
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.said import said
from tests.lab.servers.accounts import ZBACKUP_PASSWORD, ZBACKUP_USER
from zbackup.config.copying import CopyBack
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.production.account import ProductionAccount
from zbackup.features.undo.mysql.session import MysqlUndo, MysqlUndoer, TransactionLog
from zbackup.features.undo.undoing import UndoneTable, UndoWish
from zbackup.model.log import LogPosition
from zbackup.model.progress import Silent

__all__ = ["room"]

SERVERS = {
    "mysql-9.7": ("mysql-9.7", ()),
    "mysql-9.7-native": ("mysql-9.7", ("--innodb-native-foreign-keys=ON",)),
    "mariadb-10.11": ("mariadb-10.11", ()),
    "mariadb-11.8": ("mariadb-11.8", ()),
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, room: Path) -> Iterator[DatabaseServer]:
    flavour, options = SERVERS[request.param]
    with start(room / request.param, flavour, True, *options) as running:
        running.sql("CREATE USER zcopy@localhost IDENTIFIED BY 'x'")
        running.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON fk.* TO zcopy@localhost")
        yield running


def logs_cascades(server: DatabaseServer) -> bool:
    found = server.sql("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    return bool(found) and found[0][1] == "OFF"


def _end(server: DatabaseServer) -> LogPosition:
    words = "SHOW BINARY LOG STATUS" if server.settings.kind == "mysql" else "SHOW MASTER STATUS"
    row = server.sql(words)[0]
    return LogPosition.of(str(row[0]), int(str(row[1])))


def fresh(server: DatabaseServer, *statements: str) -> None:
    server.sql("DROP DATABASE IF EXISTS fk")
    server.sql("CREATE DATABASE fk CHARACTER SET utf8mb4")
    for statement in statements:
        server.sql(statement)


def transaction(server: DatabaseServer, *statements: str) -> TransactionLog:
    connection = server.connect(autocommit=False)
    start_at = _end(server)
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.commit()
    connection.close()
    return TransactionLog(server.settings.datadir / start_at.file, start_at, _end(server))


@contextmanager
def session(server: DatabaseServer, log: TransactionLog) -> Iterator[MysqlUndo]:
    usual = ConnectOptions(
        socket=str(server.settings.socket), user=ZBACKUP_USER, password=lambda: ZBACKUP_PASSWORD
    )
    rules = CopyBack.model_construct(user="zcopy", password=said("x"), max_lag=3600.0, replicas=())
    undoer = MysqlUndoer(account=ProductionAccount(instance="shop", usual=usual, rules=rules))
    with undoer.of(log, UndoWish(name="it"), None, Silent()) as opened:
        yield opened


@dataclass
class Outcome:
    """What was done, which is what the plan said; `refused` by table, `lines` are conflicts."""

    changes: int
    refused: dict[str, int]
    lines: list[str] = field(default_factory=list)
    unlogged: list[str] = field(default_factory=list)


def outcome(tables: Sequence[UndoneTable]) -> Outcome:
    return Outcome(
        changes=sum(table.changes for table in tables),
        refused={table.table.table: table.refused for table in tables if table.refused},
        lines=[line for table in tables for line in table.conflicts],
        unlogged=[line for table in tables for line in table.unlogged],
    )


def undo(server: DatabaseServer, log: TransactionLog) -> Outcome:
    with session(server, log) as opened:
        planned = outcome(opened.plan().tables)
    with session(server, log) as opened:
        opened.plan()
        done = outcome(opened.act())
    assert (planned.changes, planned.refused) == (done.changes, done.refused), "the dry run said another"
    assert [line.partition(":")[0] for line in planned.lines] == [
        line.partition(":")[0] for line in done.lines
    ]
    return done


SELF = (
    "CREATE TABLE fk.t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES fk.t (id) ON DELETE CASCADE)"
)
PARENT = "CREATE TABLE fk.p (id INT PRIMARY KEY, v INT)"


def child(rules: str) -> str:
    return (
        "CREATE TABLE fk.c (id INT PRIMARY KEY, pid INT, n INT NOT NULL DEFAULT 0, "
        f"CONSTRAINT c_p FOREIGN KEY (pid) REFERENCES fk.p (id) {rules})"
    )


def rows(server: DatabaseServer, table: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in server.sql(f"SELECT * FROM fk.{table} ORDER BY 1")]


def test_children_of_the_same_table_that_came_since_stay(server: DatabaseServer) -> None:
    fresh(server, SELF, "INSERT INTO fk.t VALUES (1, NULL)")
    log = transaction(server, "INSERT INTO fk.t VALUES (10, 1), (20, 1), (30, 30)")
    server.sql("INSERT INTO fk.t VALUES (11, 10), (12, 11)")
    done = undo(server, log)
    assert (done.changes, done.refused) == (2, {"t": 1})
    assert "fk.t id=10: rows refer to it now, and would go with it: fk.t id=11" in done.lines[0]
    assert "ON DELETE CASCADE" in done.lines[0]
    assert rows(server, "t") == [(1, None), (10, 1), (11, 10), (12, 11)]


@pytest.mark.parametrize("rule", ["CASCADE", "SET NULL", "RESTRICT"])
def test_children_of_a_changed_key_that_came_since_keep_theirs(server: DatabaseServer, rule: str) -> None:
    fresh(server, PARENT, child(f"ON UPDATE {rule}"), "INSERT INTO fk.p VALUES (1, 0), (2, 0)")
    log = transaction(server, "UPDATE fk.p SET id = id + 100")
    server.sql("INSERT INTO fk.c VALUES (5, 101, 0)")
    done = undo(server, log)
    assert (done.changes, done.refused) == (1, {"p": 1})
    assert "fk.p id=101: rows refer to it now" in done.lines[0] and "fk.c id=5" in done.lines[0]
    assert rows(server, "c") == [(5, 101, 0)]
    assert rows(server, "p") == [(2, 0), (101, 0)]


def test_children_that_followed_a_key_follow_it_back_where_the_log_tells(server: DatabaseServer) -> None:
    fresh(server, PARENT, child("ON UPDATE CASCADE"), "INSERT INTO fk.p VALUES (1, 0), (2, 0)")
    server.sql("INSERT INTO fk.c VALUES (1, 1, 0), (2, 1, 0), (3, 2, 0)")
    log = transaction(
        server, "UPDATE fk.p SET id = 101, v = 9 WHERE id = 1", "UPDATE fk.c SET n = 5 WHERE id = 2"
    )
    done = undo(server, log)
    if logs_cascades(server):
        assert (done.changes, done.refused, done.unlogged) == (3, {}, [])
        assert rows(server, "p") == [(1, 0), (2, 0)]
        assert rows(server, "c") == [(1, 1, 0), (2, 1, 0), (3, 2, 0)]
    else:
        assert done.refused == {"p": 1} and "would get its key: fk.c id=1" in done.lines[0]
        assert rows(server, "p") == [(2, 0), (101, 9)]
        assert rows(server, "c") == [(1, 101, 0), (2, 101, 0), (3, 2, 0)]


def test_one_that_was_changed_since_keeps_its_parent_where_it_is(server: DatabaseServer) -> None:
    fresh(server, PARENT, child("ON UPDATE CASCADE"), "INSERT INTO fk.p VALUES (1, 0)")
    server.sql("INSERT INTO fk.c VALUES (1, 1, 0), (2, 1, 0)")
    log = transaction(server, "UPDATE fk.p SET id = 101 WHERE id = 1")
    server.sql("UPDATE fk.c SET n = 7 WHERE id = 2")
    assert undo(server, log).refused["p"] == 1
    assert rows(server, "p") == [(101, 0)]
    assert rows(server, "c") == [(1, 101, 0), (2, 101, 7)]


def test_children_that_lost_their_key_have_it_again_or_are_named(server: DatabaseServer) -> None:
    fresh(server, PARENT, child("ON UPDATE SET NULL ON DELETE SET NULL"))
    server.sql("INSERT INTO fk.p VALUES (1, 0), (2, 0)")
    server.sql("INSERT INTO fk.c VALUES (1, 1, 0), (2, 2, 0)")
    log = transaction(server, "UPDATE fk.p SET id = 101 WHERE id = 1", "DELETE FROM fk.p WHERE id = 2")
    done = undo(server, log)
    assert done.refused == {} and rows(server, "p") == [(1, 0), (2, 0)]
    if logs_cascades(server):
        assert done.unlogged == [] and rows(server, "c") == [(1, 1, 0), (2, 2, 0)]
    else:
        assert ["ON DELETE SET NULL" in line for line in done.unlogged] == [True, False]
        assert "ON UPDATE SET NULL) that went with rows of fk.p" in done.unlogged[1]


def test_what_goes_through_several_tables_is_followed(server: DatabaseServer) -> None:
    chain = (
        "CREATE TABLE fk.b (id INT PRIMARY KEY, CONSTRAINT b_p FOREIGN KEY (id) REFERENCES fk.p (id) "
        "ON UPDATE CASCADE ON DELETE CASCADE)",
        "CREATE TABLE fk.d (id INT PRIMARY KEY, bid INT, CONSTRAINT d_b FOREIGN KEY (bid) "
        "REFERENCES fk.b (id) ON UPDATE CASCADE ON DELETE CASCADE)",
    )
    filled = (
        "INSERT INTO fk.p VALUES (1, 0)",
        "INSERT INTO fk.b VALUES (1)",
        "INSERT INTO fk.d VALUES (7, 1)",
    )
    fresh(server, PARENT, *chain, *filled)
    log = transaction(server, "UPDATE fk.p SET id = 101 WHERE id = 1")
    if logs_cascades(server):
        assert undo(server, log).refused == {}
        assert (rows(server, "p"), rows(server, "b"), rows(server, "d")) == ([(1, 0)], [(1,)], [(7, 1)])
        log = transaction(server, "UPDATE fk.p SET id = 101 WHERE id = 1")
    server.sql("INSERT INTO fk.d VALUES (8, 101)")
    assert undo(server, log).refused["p"] == 1
    assert rows(server, "p") == [(101, 0)] and rows(server, "d") == [(7, 101), (8, 101)]
    fresh(server, PARENT, *chain)
    log = transaction(server, *filled)
    server.sql("INSERT INTO fk.d VALUES (8, 1)")
    assert undo(server, log).refused == {"p": 1, "b": 1}
    assert (rows(server, "p"), rows(server, "b"), rows(server, "d")) == ([(1, 0)], [(1,)], [(8, 1)])


def test_a_row_that_comes_between_the_plan_and_the_work_stays(server: DatabaseServer) -> None:
    fresh(server, PARENT, child("ON DELETE CASCADE"))
    log = transaction(server, "INSERT INTO fk.p VALUES (1, 0), (2, 0)")
    with session(server, log) as opened:
        assert outcome(opened.plan().tables).changes == 2
        server.sql("INSERT INTO fk.c VALUES (5, 1, 0)")
        done = outcome(opened.act())
    assert (done.changes, done.refused) == (1, {"p": 1})
    assert rows(server, "c") == [(5, 1, 0)] and rows(server, "p") == [(1, 0)]


def test_a_trigger_that_nobody_sees_is_counted(
    server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever makes the server change more rows than planned: nothing is changed."""
    from zbackup.features.undo.mysql import put_back
    from zbackup.features.undo.mysql import session as undoing
    from zbackup.model.errors import VerificationFailed

    fresh(server, PARENT, child("ON DELETE CASCADE"))
    log = transaction(server, "INSERT INTO fk.p VALUES (1, 0)")
    server.sql("INSERT INTO fk.c VALUES (5, 1, 0)")
    for module in put_back, undoing:
        monkeypatch.setattr(module.ReferringRows, "of", lambda *_, **__: [])
    with session(server, log) as opened:
        opened.plan()
        with pytest.raises(VerificationFailed, match="the server changed 2 rows instead of 1"):
            opened.act()
    assert rows(server, "c") == [(5, 1, 0)] and rows(server, "p") == [(1, 0)]


def test_a_row_that_is_too_large_is_named_and_the_rest_is_back(server: DatabaseServer) -> None:
    fresh(server, "CREATE TABLE fk.big (id INT PRIMARY KEY, t LONGTEXT)")
    server.sql("INSERT INTO fk.big VALUES (1, REPEAT('x', 3000000)), (2, 'y')")
    log = transaction(server, "DELETE FROM fk.big")
    before = server.sql("SELECT @@global.max_allowed_packet")[0][0]
    server.sql("SET GLOBAL max_allowed_packet = 1048576")
    try:
        done = undo(server, log)
        assert (done.changes, done.refused) == (1, {"big": 1})
        assert "fk.big id=1: the statement that restores the row has 3000" in done.lines[0]
        assert "max_allowed_packet" in done.lines[0]
    finally:
        server.sql(f"SET GLOBAL max_allowed_packet = {before}")
    assert undo(server, log).changes == 1
    assert server.sql("SELECT COUNT(*) FROM fk.big") == [(2,)]
