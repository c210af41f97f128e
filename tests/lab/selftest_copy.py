"""Tables of every kind out of one real server into another, which a replica follows. Needs no ZFS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.copy_encrypted import TestEncrypted
from tests.lab.copy_hostile import TestHostileNames
from tests.lab.copy_loads import TestLoads
from tests.lab.copy_rig import Rig, cut_at, make_odd_tables, places, with_keys
from tests.lab.lock_rig import SERVERS, room, start
from tests.lab.repeats import step
from tests.lab.undo_rows import TestUndo
from zbackup.engines.mysql.production.account import grants
from zbackup.engines.mysql.server.connection import PrivilegeMissing
from zbackup.features.copyback.copying import CopyWish
from zbackup.features.copyback.mysql import finish, plan_table
from zbackup.model.errors import DatabaseError, Refused, Taken, UsageError
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName, parse_table

__all__ = ["TestEncrypted", "TestHostileNames", "TestLoads", "TestUndo", "room"]


@pytest.fixture(scope="module", params=["mysql-9.7-gtid", "mariadb-11.8"])
def rig(request: pytest.FixtureRequest, room: Path) -> Iterator[Rig]:
    flavour, gtid = SERVERS[request.param]
    home, keys = room / request.param, with_keys(room, flavour, 1, 2)
    with (
        start(home / "p", flavour, gtid, *keys) as production,
        start(home / "r", flavour, gtid, *keys) as replica,
        start(home / "c", flavour, gtid, *with_keys(room, flavour, 1, 2, 3)) as clone,
    ):
        replica.make_replica_of(production)
        for statement in (
            "CREATE USER zcopy@localhost IDENTIFIED BY 'x'",
            "CREATE USER owner@localhost",
            "CREATE DATABASE odd",
            *(f"GRANT ALL ON {schema}.* TO owner@localhost" for schema in ("odd", "more", "theirs")),
            # As whoever may copy views and triggers of others needs.
            f"GRANT {'SET USER' if 'mariadb' in flavour else 'SET_ANY_DEFINER'} ON *.* TO zcopy@localhost",
            grants("zcopy@localhost", "odd").rstrip(";"),
            "GRANT REPLICATION CLIENT ON *.* TO zcopy@localhost",
            "SET GLOBAL log_bin_trust_function_creators = ON",  # as whoever may make triggers needs
            *(["GRANT SLAVE MONITOR ON *.* TO zcopy@localhost"] if "mariadb" in flavour else []),
        ):
            production.sql(statement)
        clone.sql("CREATE USER zcopy@localhost IDENTIFIED BY 'x'")
        clone.sql("CREATE USER owner@localhost")
        clone.sql("GRANT ALL ON *.* TO owner@localhost")
        make_odd_tables(clone)
        yield Rig(production, replica, clone)


@pytest.mark.parametrize("lines", ["ON", "OFF"])
def test_a_whole_schema_with_every_kind_of_table_is_the_same_here_and_on_the_replica(
    rig: Rig, lines: str
) -> None:
    rig.forget()
    rig.production.sql(f"SET GLOBAL local_infile = {lines}")
    loaded = {str(step.source) for step in rig.plan("odd").steps if "LOAD DATA" in "".join(step.statements)}
    assert loaded >= ({"odd.comp", "odd.ci", "odd.child"} if lines == "ON" else set())
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
        "WHERE TRIGGER_SCHEMA = 'odd' ORDER BY 1"
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
    with rig.session("odd.part", missing=True) as session:
        found = session.compare(session.plan().steps[0])
    assert (found.missing, found.changed) == (200, None)
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
    for number in places(rig, 1, step(3)):
        rig.forget()
        with monkeypatch.context() as patch:
            cut = cut_at(patch, number)
            try:
                rig.copy(*names)
            except DatabaseError:
                there = rig.production.checksum(names)
                assert set(there.values()) == {None} or there == wanted, "half of it has its name"
        if not cut:
            break
        with monkeypatch.context() as patch:
            # By now the table is estimated to be too large for that, and lacks its indexes.
            patch.setattr(plan_table, "KEYS_LATER_BYTES", 0)
            if rig.production.checksum(names) != wanted:
                rig.copy(*names)
        assert rig.production.checksum(names) == wanted, number
        for ask in (f"SHOW CREATE TABLE {name}" for name in names):
            assert rig.production.sql(ask) == rig.clone.sql(ask), number
        assert not [t for t in rig.production.tables() if "zbackup_copy_" in t]
    assert number > 9


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
    with pytest.raises(Refused, match=r"refer to missing rows of odd\.parent"):
        rig.copy("odd.child")
    assert rig.production.checksum(["odd.child"]) == {"odd.child": None}
    rig.copy("odd.parent", missing=True)
    rig.copy("odd.child")
    assert rig.production.checksum(["odd.child"]) == rig.clone.checksum(["odd.child"])


@pytest.fixture
def more(rig: Rig) -> Iterator[Rig]:
    """The same servers with an empty schema on both sides, and one of a team that copies may not write to."""
    for schema in (schemas := ("theirs", "more")):
        rig.both(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    rig.production.sql(grants("zcopy@localhost", "more").rstrip(";"))
    yield rig
    for schema in schemas:
        rig.both(f"DROP DATABASE {schema}")


def test_what_is_attached_to_the_old_table_keeps_it_whoever_may_see_it(more: Rig) -> None:
    child = "id INT PRIMARY KEY, o INT, CONSTRAINT {} FOREIGN KEY (o) REFERENCES more.`or``d é` (id)"
    more.both("CREATE TABLE more.`or``d é` (id INT PRIMARY KEY, v INT)")
    more.both(f"CREATE TABLE theirs.`in-v` ({child.format('f')})")
    with pytest.raises(Refused, match=r"f of theirs\.in-v"):
        more.plan("more.or`d é", replace=True)
    more.production.sql("DROP TABLE theirs.`in-v`")
    for late in (
        f"CREATE TABLE theirs.late ({child.format('g')})",
        "CREATE TRIGGER more.late BEFORE INSERT ON more.`or``d é` FOR EACH ROW SET NEW.v = 5",
    ):
        with more.session("more.or`d é", replace=True) as session:
            plan = session.plan()
            more.production.sql(late)
            with pytest.raises(Refused, match="late"):
                session.act(plan)
        assert not [t for t in more.production.tables() if "_before_" in t]
        more.production.sql("DROP TABLE IF EXISTS theirs.late")


def test_a_run_that_is_cut_off_behind_the_exchange_is_ended_by_the_next(
    more: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    more.both(
        "CREATE TABLE more.parent (id INT PRIMARY KEY)",
        "CREATE TABLE more.child (id INT AUTO_INCREMENT PRIMARY KEY, p INT, "
        "CONSTRAINT ofp FOREIGN KEY (p) REFERENCES more.parent (id))",
        "INSERT INTO more.child (p) VALUES (NULL)",
    )
    more.production.sql("INSERT INTO more.parent VALUES (2)")
    more.production.sql("INSERT INTO more.child VALUES (7, 2)")
    with monkeypatch.context() as patch:
        patch.setattr(finish, "release", _cut_off)
        with pytest.raises(DatabaseError, match="cut off"):
            more.copy("more.child", replace=True, moment="20260101T000000")
    (done,) = more.copy("more.child", replace=True, moment="20260101T000500")
    assert done.kept == TableName("more", "child_before_20260101T000000")
    more.production.sql("DELETE FROM more.parent")
    more.production.sql("INSERT INTO more.child (p) VALUES (NULL)")
    assert list(more.production.sql("SELECT id FROM more.child")) == [(1,), (8,)]
    assert {t for t in more.production.tables() if t.startswith("more.")} == {
        "more.child", "more.parent", str(done.kept)
    }  # fmt: skip


def _cut_off(*_: object) -> None:
    raise DatabaseError("cut off")


def test_triggers_and_views_are_what_they_were(more: Rig) -> None:
    owner = "CREATE DEFINER = owner@localhost"
    more.production.sql("GRANT SELECT ON theirs.* TO zcopy@localhost")
    with more.clone.connect(database="more") as connection, connection.cursor() as cursor:
        for statement in (
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9)) CHARACTER SET utf8mb4",
            f"{owner} VIEW z (`é`) AS SELECT s FROM t",
            f"{owner} VIEW a AS SELECT `é` FROM z",
            "SET NAMES latin1",
            "SET sql_mode = 'PIPES_AS_CONCAT'",
        ):
            cursor.execute(statement)
        cursor.execute(
            f"{owner} TRIGGER made BEFORE INSERT ON t FOR EACH ROW SET NEW.s = 'é' || 'b'".encode("latin1")
        )
        cursor.execute("INSERT INTO t VALUES (1, '')")
    more.clone.sql("CREATE TABLE theirs.gone (id INT)")
    more.clone.sql(f"{owner} VIEW more.lost AS SELECT id FROM theirs.gone")
    done = {str(each.into): each for each in more.copy("more")}
    assert done["more.lost"].refused == 1 and "theirs.gone" in done["more.lost"].conflicts[0]
    more.production.sql("INSERT INTO more.t VALUES (2, '')")
    assert [row[0] for row in more.production.sql("SELECT `é` FROM more.a")] == ["éb", "éb"]
    how = "SELECT SQL_MODE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION FROM information_schema.TRIGGERS "
    how += "WHERE TRIGGER_NAME = 'made'"
    assert more.production.sql(how) == more.clone.sql(how)
    more.production.sql("CREATE TABLE theirs.gone (id INT)")
    assert [(str(t.into), t.refused) for t in more.copy("more")] == [("more.t", 0), ("more.lost", 0)]
    assert {f"more.{row[0]}" for row in more.production.sql("SHOW TABLES FROM more")} == set(done)
    more.production.sql("REVOKE SELECT ON theirs.* FROM zcopy@localhost")
    assert more.plan("more.z", replace=True).overwrites


def test_rows_come_back_whatever_servers_make_of_them(more: Rig) -> None:
    settings = {
        more.production: "foreign_key_checks = 0, GLOBAL max_allowed_packet = 1048576",
        more.clone: "sql_select_limit = 2, GLOBAL max_allowed_packet = 1048576",
    }
    more.both(
        "CREATE TABLE more.z (id INT PRIMARY KEY, up INT, CONSTRAINT own FOREIGN KEY (up) REFERENCES z (id))",
        "CREATE TABLE more.a (id INT PRIMARY KEY, p INT, CONSTRAINT ofz FOREIGN KEY (p) REFERENCES z (id))",
        "INSERT INTO more.z VALUES (5, NULL), (4, 5), (3, 4), (2, 3), (1, 2)",
        "INSERT INTO more.a VALUES (1, 1)",
        "CREATE TABLE more.word (k VARCHAR(20) PRIMARY KEY, v INT)",
        "INSERT INTO more.word VALUES ('apple', 1), ('pear', 2)",
        "CREATE TABLE more.upd (id INT PRIMARY KEY, v INT, "
        "at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)",
        "INSERT INTO more.upd VALUES (1, 1, '2020-01-01')",
        "CREATE TABLE more.big (id INT PRIMARY KEY, b LONGBLOB)",
        "INSERT INTO more.big VALUES (1, REPEAT('a', 700000)), (2, REPEAT('a', 700000))",
    )
    for statement in (
        "DELETE FROM more.a",
        "UPDATE more.z SET up = NULL",
        "DELETE FROM more.z",
        "UPDATE more.word SET k = UPPER(k), v = 0",
        "UPDATE more.upd SET v = 9, at = at",
        "UPDATE more.big SET b = NULL WHERE id = 1",
    ):
        more.production.sql(statement)
    more.clone.sql("CREATE VIEW more.seen AS SELECT id FROM more.a")
    for server, setting in settings.items():
        server.sql(f"SET GLOBAL {setting}")
    try:
        done = more.copy("more", missing=True, changed=True)
    finally:
        for server, setting in settings.items():
            server.sql(
                f"SET GLOBAL {setting.partition(' ')[0]} = DEFAULT, GLOBAL max_allowed_packet = DEFAULT"
            )
    assert {str(t.into): (t.inserted, t.updated, t.refused) for t in done} == {
        "more.a": (1, 0, 0),
        "more.z": (5, 0, 0),
        "more.word": (0, 2, 0),
        "more.upd": (0, 1, 0),
        "more.big": (0, 1, 0),
    }
    for name in ("a", "z", "word", "upd", "big"):
        ask = f"SELECT * FROM more.{name} ORDER BY 1"
        assert list(more.production.sql(ask)) == list(more.clone.sql(ask))


def test_names_and_types_that_would_not_come_out_right_are_refused(more: Rig) -> None:
    more.clone.sql("CREATE TABLE theirs.t (id INT PRIMARY KEY)")
    more.clone.sql("CREATE TABLE more.t (id INT PRIMARY KEY, j JSON)")
    with pytest.raises(UsageError, match="64 letters"):
        more.plan("more.t", into=TableName("more", "x" * 65))
    with pytest.raises(UsageError, match=r"more\.t and theirs\.t would both be odd\.t"):
        more.plan("more.t", "theirs.t", into=TableName("odd", "*"))
    if more.clone.settings.kind == "mysql":
        for value in ("2.50", "CAST('2024-01-01' AS DATE)", "CAST('abc' AS BINARY(3))"):
            more.clone.sql(
                f"REPLACE INTO more.t VALUES (1, JSON_OBJECT('v', {value})), (2, JSON_ARRAY(1, 2.5))"
            )
            with pytest.raises(Refused, match="1 values of its JSON column j"):
                more.plan("more.t")
        (done,) = more.copy("more.t", where="id = 2")
        assert (done.inserted, done.verified) == (1, True)


def test_an_account_that_sees_less_is_no_way_into_a_clone(more: Rig) -> None:
    more.clone.sql("CREATE TABLE more.t (id INT PRIMARY KEY)")
    wish = CopyWish(tables=tuple(parse_table(name, "mysql") for name in ("more.t", "odd")))
    entrance = Entrance(socket=str(more.clone.settings.socket))
    more.clone.sql("REVOKE ALL, GRANT OPTION FROM zcopy@localhost")
    more.clone.sql("GRANT SELECT, SHOW VIEW ON *.* TO zcopy@localhost")
    more.clone.sql("GRANT TRIGGER ON odd.* TO zcopy@localhost")
    assert more.copier().admits(entrance, wish) is None
    more.clone.sql("GRANT TRIGGER ON more.* TO zcopy@localhost")
    assert more.copier().admits(entrance, wish)
