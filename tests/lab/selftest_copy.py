"""Tables of every kind out of one real server into another, which a replica follows. Needs no ZFS."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab.copy_rig import make_odd_tables
from tests.lab.lock_rig import VARIANTS, room, start
from tests.lab.mysql_fixture import DatabaseServer
from zbackup.engines.mysql.copy.account import grants
from zbackup.engines.mysql.copy.brake import BrakeOptions
from zbackup.engines.mysql.copy.session import MysqlCopier
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing, RowConnection
from zbackup.model.copying import (
    CopiedTable,
    CopyPlan,
    CopyWish,
    Difference,
    Entrance,
    TableName,
    parse_table,
)
from zbackup.model.errors import DatabaseError, Refused, Taken
from zbackup.model.progress import Silent

__all__ = ["room"]


@dataclass(frozen=True)
class Rig:
    """Production with its replica, and a server that plays the clone."""

    production: DatabaseServer
    replica: DatabaseServer
    clone: DatabaseServer

    def copier(self) -> MysqlCopier:
        account = ConnectOptions(
            socket=str(self.production.settings.socket), user="zcopy", password=lambda: "x"
        )
        follower = ConnectOptions(port=self.replica.settings.port or 0, user="zcopy", password=lambda: "x")
        return MysqlCopier(
            instance="shop", account=account, brake=BrakeOptions(max_lag=3600, replicas=(follower,))
        )

    @contextmanager
    def session(self, *names: str, **wish: Any) -> Iterator[Any]:
        wanted = CopyWish(tables=tuple(map(parse_table, names)), moment="20260101T000000", clone="c", **wish)
        entrance = Entrance(socket=str(self.clone.settings.socket), user="root")
        with self.copier().session(entrance, wanted, Silent()) as session:
            yield session

    def copy(self, *names: str, **wish: Any) -> tuple[CopiedTable, ...]:
        with self.session(*names, **wish) as session:
            done: tuple[CopiedTable, ...] = session.act(session.plan())
            return done

    def compare(self, name: str) -> Difference:
        with self.session(name, missing=True, changed=True) as session:
            found: Difference = session.compare(session.plan().steps[0])
            return found

    def plan(self, *names: str, **wish: Any) -> CopyPlan:
        with self.session(*names, **wish) as session:
            found: CopyPlan = session.plan()
            return found

    def forget(self, schema: str = "odd") -> None:
        with self.production.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET foreign_key_checks = 0")
            cursor.execute(f"DROP DATABASE IF EXISTS {schema}")
            cursor.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")

    def sums(self, server: DatabaseServer, schema: str = "odd") -> dict[str, int | None]:
        """Checksums by the tables' names without their schema; those of views are None."""
        found = server.checksum([t for t in server.tables() if t.startswith(f"{schema}.")])
        return {name.partition(".")[2]: value for name, value in found.items()}


@pytest.fixture(scope="module", params=["mysql-9.7-gtid", "mariadb-11.8"])
def rig(request: pytest.FixtureRequest, room: Path) -> Iterator[Rig]:
    flavour, gtid = VARIANTS[request.param]
    home = room / request.param
    with (
        start(home / "p", flavour, gtid) as production,
        start(home / "r", flavour, gtid) as replica,
        start(home / "c", flavour, gtid) as clone,
    ):
        replica.make_replica_of(production)
        for statement in (
            "CREATE USER zcopy@localhost IDENTIFIED BY 'x'",
            "CREATE DATABASE odd",
            grants("zcopy@localhost", "odd").rstrip(";"),
            "GRANT REPLICATION CLIENT ON *.* TO zcopy@localhost",
            "SET GLOBAL log_bin_trust_function_creators = ON",  # as whoever may make triggers needs
            *(["GRANT SLAVE MONITOR ON *.* TO zcopy@localhost"] if "mariadb" in flavour else []),
        ):
            production.sql(statement)
        clone.sql("CREATE USER zcopy@localhost IDENTIFIED BY 'x'")
        make_odd_tables(clone)
        yield Rig(production, replica, clone)


def test_a_whole_schema_with_every_kind_of_table_is_the_same_here_and_on_the_replica(rig: Rig) -> None:
    rig.forget()
    done = rig.copy("odd")
    assert all(each.verified or each.action == "view" for each in done)
    assert rig.sums(rig.production) == rig.sums(rig.clone)
    for table in rig.clone.tables():
        if table.startswith("odd."):
            ask = f"SHOW CREATE TABLE {table}"
            assert rig.production.sql(ask) == rig.clone.sql(ask)
    assert rig.production.sql("SELECT COUNT(*) FROM odd.seen")[0][0] == 60
    triggers = (
        "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_STATEMENT FROM information_schema.TRIGGERS "
        "WHERE TRIGGER_SCHEMA = 'odd'"
    )
    assert list(rig.production.sql(triggers)) == list(rig.clone.sql(triggers)) != []
    rig.replica.catch_up(rig.production)
    assert rig.sums(rig.replica) == rig.sums(rig.clone)


def test_rows_that_are_gone_and_rows_that_differ_come_back(rig: Rig) -> None:
    rig.forget()
    rig.copy("odd")
    for statement in (
        "DELETE FROM odd.kinds WHERE id % 3 = 0",
        "UPDATE odd.kinds SET f = f * 1.0001, j = '{}' WHERE id % 5 = 1",
        "DELETE FROM odd.comp WHERE p2 % 3 = 0",
        "UPDATE odd.comp SET v = NULL WHERE p2 % 7 = 1",
        "DELETE FROM odd.ci WHERE k < 'm'",
        "UPDATE odd.at SET v = -1 LIMIT 5",
        "DELETE FROM odd.child WHERE id = 3",
    ):
        rig.production.sql(statement)
    names = ("odd.kinds", "odd.comp", "odd.ci", "odd.at", "odd.child")
    lacked = {name: rig.compare(name) for name in names}
    assert (lacked["odd.at"].missing, lacked["odd.at"].changed) == (0, 5)
    assert lacked["odd.at"].examples[0].values[0] == ("v", "-1", "0")
    done = rig.copy(*names, missing=True, changed=True)
    assert {str(t.into): (t.inserted, t.updated, t.refused) for t in done} == {
        name: (found.missing, found.changed, 0) for name, found in lacked.items()
    }
    assert rig.sums(rig.production) == rig.sums(rig.clone)
    rig.replica.catch_up(rig.production)
    assert rig.sums(rig.replica) == rig.sums(rig.clone)


def test_only_missing_and_only_some(rig: Rig) -> None:
    rig.forget()
    rig.copy("odd.part")
    rig.production.sql("DELETE FROM odd.part WHERE id % 2 = 0")
    rig.production.sql("UPDATE odd.part SET v = 'later' WHERE id = 1")
    (some,) = rig.copy("odd.part", missing=True, where="id < 100")
    assert some.inserted == 50
    (rest,) = rig.copy("odd.part", missing=True)
    assert (rest.inserted, rest.updated) == (150, 0)
    assert rig.production.sql("SELECT v FROM odd.part WHERE id = 1")[0][0] == "later"
    (beside,) = rig.copy("odd.part", where="v LIKE 'v1%' -- a comment")
    counted = rig.production.sql("SELECT COUNT(*) FROM odd.part_restored WHERE v LIKE 'v1%'")[0][0]
    assert beside.inserted == counted == 111


def test_rows_that_production_s_own_keep_out_are_named(rig: Rig) -> None:
    rig.forget()
    rig.copy("odd.parent", "odd.child", "odd.kinds")
    rig.production.sql("DELETE FROM odd.parent WHERE id >= 59")
    rig.production.sql("DELETE FROM odd.kinds WHERE id = 3")
    rig.production.sql("UPDATE odd.kinds SET b = 'é\\\\\\'\"3', a = 3 WHERE id = 5")
    (taken,) = rig.copy("odd.kinds", missing=True)
    assert (taken.inserted, taken.refused) == (0, 1)
    assert taken.conflicts[0].startswith("id=3: ") and "Duplicate" in taken.conflicts[0]


def test_a_copy_that_is_cut_off_at_any_statement_is_finished_by_the_next(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind every statement that production is told, until one goes through."""
    names = ("odd.parent", "odd.child", "odd.nokey")
    wanted = {name: rig.clone.checksum([name])[name] for name in names}
    number = 0
    while True:
        number += 1
        rig.forget()
        with monkeypatch.context() as patch:
            cut = _cut_at(patch, number)
            try:
                rig.copy(*names)
            except DatabaseError:
                there = rig.production.checksum(names)
                assert set(there.values()) == {None} or there == wanted, "half of it has its name"
        if not cut:
            break
        if rig.production.checksum(names) != wanted:
            rig.copy(*names)
        assert rig.production.checksum(names) == wanted, number
        assert not [t for t in rig.production.tables() if "zbackup_copy_" in t]
    assert number > 9


def _cut_at(patch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Lose the connection at the statement of that number that changes something; [] if it never came."""
    seen: list[int] = []
    cut: list[int] = []

    def changing(statement: str) -> bool:
        return statement.split()[0] in ("CREATE", "INSERT", "ALTER", "RENAME", "TRUNCATE", "DROP")

    def patched(original: Any, text: Any) -> Any:
        def run(self: Any, statement: Any, *rest: Any) -> Any:
            mine = changing(text(statement)) and not cut
            if mine:
                seen.append(1)
            answer = original(self, statement, *rest)
            if mine and len(seen) == number:
                cut.append(1)
                raise DatabaseError("cut off")
            return answer

        return run

    patch.setattr(Connection, "execute", patched(Connection.execute, str))
    patch.setattr(RowConnection, "write", patched(RowConnection.write, lambda b: b.decode("latin1")))
    return cut


def test_in_the_old_one_s_place_and_beside_it(rig: Rig) -> None:
    rig.forget()
    rig.copy("odd.parent", "odd.child", "odd.part")
    rig.production.sql("DELETE FROM odd.child")
    (beside,) = rig.copy("odd.child")
    assert (str(beside.into), beside.inserted) == ("odd.child_restored", 60)
    assert "toparent" in beside.notes[0]
    with pytest.raises(Taken, match="--into"):
        rig.plan("odd.child")
    (done,) = rig.copy("odd.child", replace=True)
    assert str(done.kept) == "odd.child_before_20260101T000000"
    assert rig.production.checksum(["odd.child"]) == rig.clone.checksum(["odd.child"])
    keys = "SELECT TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'odd'"
    assert sorted(row[0] for row in rig.production.sql(keys)) == ["child", "parent"]
    with pytest.raises(Refused, match=r"of odd\.child"):
        rig.plan("odd.parent", replace=True)


def test_what_would_not_come_out_right_is_refused_by_name(rig: Rig) -> None:
    rig.forget()
    for name, words in (("odd.nokey", "no primary key"), ("odd.enumk", "no primary key")):
        rig.production.sql(f"CREATE TABLE {name} (k INT, v INT)")
        with pytest.raises(Refused, match=words):
            rig.plan(name, missing=True)
    rig.production.sql("CREATE TABLE odd.part (id INT PRIMARY KEY, v VARCHAR(5))")
    with pytest.raises(Refused, match="the column v is varchar"):
        rig.plan("odd.part", changed=True)
    rig.production.sql("CREATE TABLE odd.ci (k VARCHAR(20) PRIMARY KEY, v INT)")
    rig.production.sql("CREATE TRIGGER odd.t BEFORE INSERT ON odd.ci FOR EACH ROW SET NEW.v = 5")
    with pytest.raises(Refused, match="triggers that would run"):
        rig.plan("odd.ci", missing=True)
    with pytest.raises(Refused, match="triggers, which would stay"):
        rig.plan("odd.ci", replace=True)
    with pytest.raises(Refused, match=r"refers to odd\.parent"):
        rig.plan("odd.child")
    with pytest.raises(PrivilegeMissing, match="GRANT SELECT, INSERT"):
        rig.copy("odd.part", into=TableName("elsewhere", "part"))
    if rig.clone.settings.kind == "mariadb":
        for name, words in (("elsewhere.past", "history"), ("elsewhere.numbers", "sequence")):
            with pytest.raises(Refused, match=words):
                rig.plan(name)


def test_rows_without_a_parent_are_refused_before_the_table_has_its_name(rig: Rig) -> None:
    rig.forget()
    rig.copy("odd.parent")
    rig.production.sql("DELETE FROM odd.parent WHERE id >= 5 ORDER BY id DESC")
    with pytest.raises(Refused, match=r"have no partner in odd\.parent"):
        rig.copy("odd.child")
    assert rig.production.checksum(["odd.child"]) == {"odd.child": None}
    rig.copy("odd.parent", missing=True)
    rig.copy("odd.child")
    assert rig.production.checksum(["odd.child"]) == rig.clone.checksum(["odd.child"])
