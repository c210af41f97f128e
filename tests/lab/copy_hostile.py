"""Names and texts that look like statements, between real servers: part of selftest_copy.

Each kind of statement that zbackup makes of names is given all of them; what arrives is what was named.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from tests.lab.copy_rig import Rig
from tests.lab.undo_rows import _transaction, _undo
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.production import tables
from zbackup.engines.mysql.production.tables import quoted_name
from zbackup.engines.mysql.recovery.check_tables import check_tables
from zbackup.engines.mysql.recovery.memory_tables import set_aside
from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing, connect
from zbackup.engines.mysql.sql.quoting import identifier, literal, qualified
from zbackup.features.copyback.copying import CopyWish
from zbackup.features.copyback.mysql import session as session_module
from zbackup.features.copyback.mysql.definition import Definition
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.model.errors import DatabaseError, Refused
from zbackup.model.progress import Silent
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName, parse_table

LONGEST = 64
PIECES = (
    *(
        "`",
        "``",
        "'",
        "''",
        '"',
        "\\",
        "\\'",
        "\n",
        "\r",
        "\t",
        "\x01",
        "\x1a",
        "\x7f",
        ";",
        "--",
        "-- ",
        "#",
    ),
    *(
        "/*",
        "*/",
        "/*!",
        "/*!50000 ",
        "/*M!",
        "(",
        ")",
        ",",
        ".",
        "@",
        "$$",
        "%s",
        "{",
        "%",
        "_",
        "é",
        "表ソ",
    ),
    *(
        "\n  KEY `",
        "\n) ENGINE=InnoDB",
        "` (`id`) ",
        ";DROP TABLE x",
        " AUTO_INCREMENT ",
        "\n  PRIMARY KEY (`",
    ),
    *(
        "CONSTRAINT `x` CHECK",
        "FOREIGN KEY",
        " REFERENCES ",
        " VIEW ",
        " ON ",
        " FOR EACH ROW ",
        " AS SELECT 1",
    ),
)
PLAIN = (
    "x\n  KEY ` y",
    "`(id))SELECT pay id,who x FROM hr.salaries",
    "x\n  KEY `` (id)#",
    "*/ /*!50000 , `b` INT",
    "a' COMMENT 'b",
    "l" * LONGEST,
    "表" * 21,
)


def names(seed: int) -> Iterator[str]:
    """Names that servers take: none ends with a blank, and letters are of Unicode's first plane."""
    yield from PLAIN
    chance = random.Random(seed)
    for number in range(1000):
        text = "".join(chance.choices(PIECES, k=chance.randint(1, 9)))
        yield f"{text[: LONGEST - 5]}{number}"


def statements(seed: int, kind: str) -> Iterator[str]:
    """A parent, a child that has all that tables have, one with partitions, a view, and rows."""
    told = names(seed)
    parent, child, parts, a, b, c, made, index, unique, check, foreign, view, trigger, p0, p1 = (
        next(told) for _ in range(15)
    )
    text = next(told) + next(told)
    at = {name: qualified("more", name) for name in (parent, child, parts, view)}
    yield f"CREATE TABLE {at[parent]} ({identifier(a)} INT PRIMARY KEY) COMMENT={literal(text)}"
    yield (
        f"CREATE TABLE {at[child]} ({identifier(a)} INT NOT NULL AUTO_INCREMENT, "
        f"{identifier(b)} VARCHAR(300) NOT NULL DEFAULT {literal(text + '😀')} COMMENT {literal(text)}, "
        f"{identifier(c)} ENUM({literal(a)}, {literal(text)}) CHARACTER SET utf8mb4 DEFAULT {literal(text)}, "
        f"{identifier(made)} VARCHAR(600) AS (CONCAT({identifier(b)}, {literal(text)})) STORED, "
        f"parent INT, PRIMARY KEY ({identifier(a)}), "
        f"KEY {identifier(index)} ({identifier(b)}(20)) COMMENT {literal(text)}, "
        f"UNIQUE KEY {identifier(unique)} ({identifier(c)}, {identifier(a)}), "
        f"CONSTRAINT {identifier(check)} CHECK ({identifier(b)} <> {literal(check)}), "
        f"CONSTRAINT {identifier(foreign)} FOREIGN KEY (parent) REFERENCES {identifier(parent)} "
        f"({identifier(a)}) ON DELETE CASCADE) COMMENT={literal(text)} ENGINE=InnoDB"
    )
    yield (
        f"CREATE TABLE {at[parts]} ({identifier(a)} INT PRIMARY KEY, {identifier(b)} VARCHAR(50) DEFAULT "
        f"{literal(b)}) PARTITION BY RANGE ({identifier(a)}) "
        f"(PARTITION {identifier(p0)} VALUES LESS THAN (10) COMMENT = {literal(text)}, "
        f"PARTITION {identifier(p1)} VALUES LESS THAN MAXVALUE)"
    )
    for table in (parent, parts):
        yield f"INSERT INTO {at[table]} ({identifier(a)}) VALUES (1), (2), (30)"
    yield f"INSERT INTO {at[child]} (parent) VALUES (1), (2), (30), (30)"
    yield (
        f"CREATE DEFINER = owner@localhost VIEW {at[view]} ({identifier(b)}) AS SELECT {identifier(b)} AS "
        f"{identifier(c)} FROM {at[child]} WHERE {identifier(b)} <> {literal(text)}"
    )
    for mode in ("", "ANSI_QUOTES"):
        yield f"SET sql_mode = '{mode}'"
        quoted = '"' + child.replace('"', '""') + '"' if mode else identifier(child)
        yield (
            f"CREATE DEFINER = owner@localhost TRIGGER {qualified('more', trigger[:50] + mode)} "
            f"BEFORE INSERT ON more.{quoted} FOR EACH ROW "
            f"SET NEW.{identifier(b)} = CONCAT({literal(text)}, {literal(view)})"
        )


def shown(rig: Rig, what: str) -> list[Any]:
    """What each server says of the schema; of definitions, but for the next number."""
    found = []
    for server in (rig.production, rig.clone):
        rows = list(server.sql(what))
        found.append(sorted(map(repr, rows)))
    return found


DEFINITIONS = (
    "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, COLUMN_DEFAULT, COLUMN_COMMENT, GENERATION_EXPRESSION "
    "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'more'",
    "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, INDEX_COMMENT FROM information_schema.STATISTICS "
    "WHERE TABLE_SCHEMA = 'more'",
    "SELECT TABLE_NAME, CONSTRAINT_NAME, CONSTRAINT_TYPE FROM information_schema.TABLE_CONSTRAINTS "
    "WHERE TABLE_SCHEMA = 'more'",
    "SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS "
    "WHERE CONSTRAINT_SCHEMA = 'more'",
    "SELECT TABLE_NAME, PARTITION_NAME, PARTITION_DESCRIPTION, PARTITION_COMMENT "
    "FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = 'more'",
    "SELECT TABLE_NAME, TABLE_TYPE, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'more'",
    "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_STATEMENT, DEFINER, SQL_MODE "
    "FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'more'",
    "SELECT TABLE_NAME, VIEW_DEFINITION, DEFINER FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'more'",
)


_MORE = "ENGINE=InnoDB SELECT TABLE_NAME FROM information_schema.TABLES -- ' */ '') ENGINE=InnoDB"
LIES = (
    "CREATE TABLE `t` (`id` int) ENGINE=InnoDB (TABLE `mysql`.`user`)",
    f"CREATE TABLE `t` (`id` int COMMENT /*!99999 ' */ 'x') {_MORE}",
    f"CREATE TABLE `t` (`id` int COMMENT /*M! ' */ 'x') {_MORE}",
    "CREATE TABLE `t` (`id` int) ENGINE=FEDERATED CONNECTION='mysql://u@127.0.0.1/d/t'",
)
"""Definitions that no server prints, but one that others have taken over."""


class TestHostileNames:
    """Everything that has a name is called like a part of a statement."""

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_copies_are_what_was_named(self, more: Rig, seed: int) -> None:
        make(more, seed)
        before = more.production.sql("SHOW DATABASES"), more.production.sql("SHOW TABLES FROM theirs")
        done = more.copy("more")
        assert all(each.verified or each.action == "view" for each in done)
        assert [each.refused for each in done if each.refused] == []
        for what in DEFINITIONS:
            here, there = shown(more, what)
            assert here == there != [], what
        assert contents(more.production) == contents(more.clone)
        assert (
            more.production.sql("SHOW DATABASES"),
            more.production.sql("SHOW TABLES FROM theirs"),
        ) == before

    def test_rows_come_back_and_are_taken_back(self, more: Rig) -> None:
        make(more, 4)
        more.copy("more", bare=True)
        more.production.sql("GRANT DELETE ON more.* TO zcopy@localhost")
        wanted = contents(more.clone)
        tables = [name for name in wanted if "parent" not in wanted[name][0][0]]
        for name in tables:
            more.production.sql(f"DELETE FROM {qualified('more', name)} LIMIT 1")
        bare = [f"more.{name}" for name in tables if not any(ord(c) < 32 for c in name)]
        done = more.copy(*bare, missing=True, changed=True, bare=True, fire_triggers=True)
        assert [each.inserted for each in done] == [1] * len(bare) != []
        whole = contents(more.production)
        key = {name: keys_of(more, name) for name in tables}
        log = _transaction(
            more,
            *(
                f"DELETE FROM {qualified('more', name)} ORDER BY {identifier(key[name])} LIMIT 1"
                for name in tables
            ),
        )
        assert contents(more.production) != whole
        taken = _undo(more, log)
        assert all(table.left == 0 for table in taken)
        assert contents(more.production) == whole

    def test_no_routine_of_the_clone_runs(self, more: Rig) -> None:
        for statement in (
            "CREATE TABLE theirs.called (n INT)",
            "SET GLOBAL log_bin_trust_function_creators = ON",
            "CREATE FUNCTION more.f() RETURNS INT DETERMINISTIC BEGIN INSERT INTO theirs.called VALUES (1); "
            "RETURN 1; END",
            "CREATE DEFINER = owner@localhost VIEW more.calls AS SELECT more.f() AS n",
        ):
            more.clone.sql(statement)
        for where in ("n INT DEFAULT (more.f())", "m INT, n INT AS (more.f())", "n INT CHECK (n < more.f())"):
            with pytest.raises(pymysql.MySQLError, match=r"(?i)function"):
                more.clone.sql(f"CREATE TABLE more.wrong ({where})")
        more.clone.sql("GRANT SELECT, SHOW VIEW, TRIGGER, EXECUTE ON *.* TO zcopy@localhost")
        wish = CopyWish(tables=(parse_table("more.calls", "mysql"),))
        assert more.copier().admits(Entrance(socket=str(more.clone.settings.socket)), wish)
        with pytest.raises(PrivilegeMissing, match=r"more\.f"):
            more.copy("more.calls")
        assert more.clone.sql("SELECT COUNT(*) FROM theirs.called")[0][0] == 0

    def test_a_table_that_production_makes_otherwise_is_not_filled(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        more.clone.sql("CREATE TABLE more.t (id INT PRIMARY KEY, v INT, KEY k (v))")
        more.clone.sql("INSERT INTO more.t VALUES (1, 1)")
        for wrong, named in (
            ("(id INT PRIMARY KEY, v INT, extra INT)", "its columns"),
            ("(id INT PRIMARY KEY, v BIGINT)", "its columns"),
            ("(id INT PRIMARY KEY, v INT DEFAULT 7)", "its columns"),
            ("(id INT PRIMARY KEY, v INT, KEY other (v))", "it has KEY `other`"),
            ("(id INT PRIMARY KEY, v INT, CHECK (v < 9))", "it has CONSTRAINT"),
            ("(id INT PRIMARY KEY, v INT) COMMENT 'x'", "its options"),
            ("(id INT, v INT)", "its columns|it lacks PRIMARY"),
        ):
            with monkeypatch.context() as patch:

                def made(_: Definition, name: TableName, wrong: str = wrong) -> str:
                    return f"CREATE TABLE {quoted_name(name)} {wrong}"

                patch.setattr(Definition, "create", made)
                with pytest.raises(Refused, match=f"another definition than the clone's: (?:{named})"):
                    more.copy("more.t")
            assert not more.production.sql("SHOW TABLES FROM more")
        with monkeypatch.context() as patch:
            patch.setattr(session_module, "add_extras", _one_more)
            with pytest.raises(Refused, match="another definition than the clone's: it has KEY `late`"):
                more.copy("more.t")
        assert not more.production.sql("SHOW TABLES FROM more")

    def test_a_run_that_was_cut_off_before_it_asked_is_no_proof(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        more.clone.sql("CREATE TABLE more.t (id INT PRIMARY KEY)")
        more.clone.sql("INSERT INTO more.t VALUES (1)")

        def cut_off(*_: object) -> None:
            raise DatabaseError("cut off")

        with monkeypatch.context() as patch:
            patch.setattr(session_module, "require_shape", cut_off)
            with pytest.raises(DatabaseError, match="cut off"):
                more.copy("more.t")
        ((work,),) = more.production.sql("SHOW TABLES FROM more")
        more.production.sql(f"ALTER TABLE {qualified('more', str(work))} ADD extra INT")
        for _ in range(2):
            with pytest.raises(Refused, match="an earlier run has made it, which DROP TABLE") as refused:
                more.copy("more.t")
            assert not more.production.sql(f"SELECT * FROM {qualified('more', str(work))}")
        more.production.sql("DROP TABLE" + str(refused.value).partition("DROP TABLE")[2].split(" removes")[0])
        assert [done.inserted for done in more.copy("more.t")] == [1]

    def test_what_a_server_says_that_lies_makes_nothing(
        self, more: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number, lie in enumerate(LIES):
            name = f"liar{number}"
            more.clone.sql(f"CREATE TABLE more.{name} (id INT PRIMARY KEY)")
            with monkeypatch.context() as patch:
                patch.setattr(tables, "definition", lambda *_, lie=lie: lie)
                with pytest.raises(Refused, match=r"cannot parse SHOW CREATE output|of the engine"):
                    more.copy(f"more.{name}")
            assert not more.production.sql("SHOW TABLES FROM more")

    def test_other_statements_of_names(self, more: Rig) -> None:
        for seed, name in enumerate(names(5)):
            if seed > 30:
                break
            more.clone.sql(f"CREATE TABLE {qualified('more', name)} (id INT PRIMARY KEY)")
            more.clone.sql(
                f"CREATE TABLE {qualified('theirs', name)} (id INT) ENGINE=MEMORY COMMENT={literal(name)}"
            )
        with session(more) as connection:
            found = check_tables(connection, Silent())
            assert found.damaged == () and found.tables >= 30
            asked = (
                "SELECT TABLE_NAME, ENGINE, TABLE_COMMENT FROM information_schema.TABLES "
                "WHERE TABLE_SCHEMA = 'theirs'"
            )
            before = sorted(map(repr, more.clone.sql(asked)))
            record: Any = SimpleNamespace(server={"binlog_format": "ROW"})
            with set_aside(connection, record):
                engines = {str(row[1]) for row in more.clone.sql(asked)}
            assert engines in ({"BLACKHOLE"}, {"MEMORY"})
            assert sorted(map(repr, more.clone.sql(asked))) == before


def _one_more(sides: Sides, job: TableJob) -> None:
    sides.production.execute(f"ALTER TABLE {quoted_name(job.work)} ADD KEY late (id, v)")


def make(rig: Rig, seed: int) -> None:
    """The hostile tables in the clone."""
    kind = rig.clone.settings.kind
    with rig.clone.connect(database="more", charset="utf8mb4") as connection, connection.cursor() as cursor:
        for statement in statements(seed, kind):
            cursor.execute(statement)
        connection.commit()


def contents(server: Any) -> Mapping[str, list[Any]]:
    """All rows of the schema's tables."""
    asked = "SHOW FULL TABLES FROM more WHERE Table_type = 'BASE TABLE'"
    found = [str(row[0]) for row in server.sql(asked)]
    return {name: sorted(map(repr, server.sql(f"SELECT * FROM {qualified('more', name)}"))) for name in found}


def keys_of(rig: Rig, name: str) -> str:
    rows = rig.production.sql(
        "SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'more' "
        "AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY'",
        (name,),
    )
    return str(rows[0][0])


@contextmanager
def session(rig: Rig) -> Iterator[Connection]:
    """An administrator's session with the server that plays the clone."""
    options = ConnectOptions(socket=str(rig.clone.settings.socket), user="root", password=lambda: "")
    with connect(options) as connection:
        yield connection
