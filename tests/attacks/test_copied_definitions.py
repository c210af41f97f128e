"""An account with rights on one schema, and a developer with a clone, put SQL into names that a copy reads.

Whoever brings a table back into production has an account that may do more. Nothing of what a table, a view
or a trigger is called may run as that account, then or later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.system.clone_story import create, entered
from tests.system.forked import forks
from tests.system.house import Connection, House, Result, next_second
from zbackup.engines.mysql.production.account import grants
from zbackup.engines.mysql.sql.quoting import identifier, literal

VARIANTS = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")

SECRETS = ("ceo", "999999")
COLUMN = " LEFT JOIN shop.e"
INVERTS = "x\n  KEY ` y"
"""Printed over two lines: read by lines, the second is an index of its own."""
READS = "`(id))SELECT pay id,who x FROM hr.salaries"
INVERTS_WELL = "x\n  KEY `` (id)#"
ADDS_COLUMNS = "`(id))SELECT*FROM shop.s,hr.salaries"
ENDS, ENDS_WELL = "x` ON 1=1 -- ", "x` ON 0 GROUP BY id -- "
ODD_USER, ODD_SCHEMA = "o'b`r\\' OR --;#", "we`i'r\"d\\_%\n; -- "[:-1] + "#"
"""An account and a schema of production's, which each clone has."""
USERS = {"app": "app-pw-1", "zcopy": "copy-secret"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """Production, where `config` has an account for copies that may write to two schemas."""

    house: House
    config: Path

    def restored(self, table: str, *words: str) -> Result:
        """What an administrator does for a table that was dropped."""
        asked = ("restore", "shop", "--before-drop", table, "--table", table, "--yes", "--json", "-q")
        return self.house.zb(*asked, *words, config=self.config)

    def leaked(self) -> list[str]:
        """Tables of the attacker's schema that hold a secret, and columns that nobody has made."""
        found = []
        for (name,) in self.house.server.sql("SHOW TABLES FROM shop"):
            rows = self.house.server.sql(f"SELECT * FROM shop.{identifier(str(name))}")
            text = repr(list(rows))
            found += [f"{name}: {rows}" for secret in SECRETS if secret in text]
        return found

    def definition(self, table: str) -> str:
        return str(self.house.server.sql(f"SHOW CREATE TABLE {table}")[0][1])

    def end_clones(self) -> None:
        for clone in self.house.zb("clone", "list", "--json").data:
            self.house.zb("clone", "destroy", clone["name"], "--yes", "--json")


@pytest.fixture(scope="module")
def target(house: House) -> Iterator[Target]:
    server = house.server
    for statement in (
        "CREATE DATABASE hr",
        "CREATE TABLE hr.salaries (who VARCHAR(20) PRIMARY KEY, pay INT)",
        "INSERT INTO hr.salaries VALUES ('ceo', 999999), ('cfo', 888888)",
        *(f"CREATE USER {user}@localhost IDENTIFIED BY '{word}'" for user, word in USERS.items()),
        "GRANT ALL ON shop.* TO app@localhost",
        *(grants("zcopy@localhost", schema).rstrip(";") for schema in ("shop", "hr")),
        # What copies of triggers and views of others need.
        f"GRANT {'SET USER' if server.settings.kind == 'mariadb' else 'SET_ANY_DEFINER'} ON *.* "
        "TO zcopy@localhost",
        "SET GLOBAL log_bin_trust_function_creators = ON",
    ):
        server.sql(statement)
    server.sql(f"CREATE DATABASE {identifier(ODD_SCHEMA)}")
    server.sql(f"CREATE TABLE {identifier(ODD_SCHEMA)}.t (id INT PRIMARY KEY)")
    server.sql("CREATE USER %s@'%%' IDENTIFIED BY 'prod-pw-1'", (ODD_USER,))
    pattern = ODD_SCHEMA.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")
    server.sql(f"GRANT ALL ON {identifier(pattern).replace('%', '%%')}.* TO %s@'%%'", (ODD_USER,))
    secret = house.home / "copy-password"
    secret.write_text(USERS["zcopy"])
    secret.chmod(0o600)
    account = {"user": "zcopy", "password": {"file": str(secret)}}
    with forks(house.home) as house.forks:
        yield Target(house=house, config=house.configure("copies", copy_back=account))


def as_user(house: House, user: str) -> "Connection[Any]":
    return pymysql.connect(
        unix_socket=str(house.server.settings.socket), user=user, password=USERS[user], autocommit=True
    )


def attack(connection: "Connection[Any]", table: str, index: str, payload: str, comment: str) -> None:
    """Make a table whose indexes are called so."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS shop.e (e INT)")
        cursor.execute(
            f"CREATE TABLE shop.{table} (id INT NOT NULL PRIMARY KEY, {identifier(COLUMN)} VARCHAR(10), "
            f"KEY {identifier(index)} (id), FULLTEXT KEY {identifier(payload)} ({identifier(COLUMN)})) "
            f"ENGINE=InnoDB COMMENT={literal(comment)}"
        )
        cursor.execute(f"INSERT INTO shop.{table} VALUES (1, 'a'), (2, 'b')")


def dropped(target: Target, table: str) -> str:
    """Back up, and drop it; returns its definition."""
    made = target.definition(f"shop.{table}")
    target.house.snapshot()
    next_second()
    with as_user(target.house, "app") as app, app.cursor() as cursor:
        cursor.execute(f"DROP TABLE shop.{table}")
    return made


class TestOneSchema:
    """The account of an application, which may do everything in its own schema."""

    def test_it_has_no_other_way(self, target: Target) -> None:
        with (
            as_user(target.house, "app") as app,
            app.cursor() as cursor,
            pytest.raises(pymysql.MySQLError, match="denied"),
        ):
            cursor.execute("SELECT * FROM hr.salaries")

    def test_a_dropped_table_comes_back_and_its_names_run_nothing(self, target: Target) -> None:
        with as_user(target.house, "app") as app:
            attack(app, "t", INVERTS, READS, ENDS)
        made = dropped(target, "t")
        done = target.restored("shop.t")
        assert target.leaked() == []
        assert [t["inserted"] for t in done.data["copied"]["tables"]] == [2]
        assert target.definition("shop.t") == made
        assert list(target.house.server.sql("SELECT * FROM shop.t")) == [(1, "a"), (2, "b")]

    def test_it_comes_back_with_no_other_columns(self, target: Target) -> None:
        """The rows of the columns that the clone has are right in this one: no proof of these finds it."""
        with as_user(target.house, "app") as app:
            attack(app, "more", INVERTS_WELL, ADDS_COLUMNS, ENDS_WELL)
            with app.cursor() as cursor:
                cursor.execute("CREATE TABLE shop.s SELECT * FROM shop.more")
        made = dropped(target, "more")
        done = target.restored("shop.more")
        assert target.leaked() == []
        assert [t["inserted"] for t in done.data["copied"]["tables"]] == [2]
        assert target.definition("shop.more") == made

    @pytest.mark.parametrize("what", ["trigger", "view"])
    def test_nothing_comes_back_that_would_run_as_the_account_of_the_copies(
        self, target: Target, what: str
    ) -> None:
        server, name = target.house.server, f"shop.own_{what}"
        if what == "view":
            server.sql(f"CREATE DEFINER = zcopy@localhost VIEW {name} AS SELECT * FROM hr.salaries")
            drop = f"DROP VIEW {name}"
        else:
            server.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, said TEXT)")
            server.sql(
                f"CREATE DEFINER = zcopy@localhost TRIGGER shop.runs BEFORE INSERT ON {name} FOR EACH ROW "
                "SET NEW.said = (SELECT MAX(who) FROM hr.salaries)"
            )
            drop = f"DROP TABLE {name}"
        target.house.snapshot()
        next_second()
        server.sql(drop)
        refused = target.restored(name)
        target.end_clones()
        assert "an account of zbackup's" in refused.refused(9)
        assert not server.sql(f"SHOW TABLES FROM shop LIKE 'own_{what}'")


class TestDeveloper:
    """A developer who has a login in a clone, and none in production."""

    def test_no_name_in_his_clone_runs_in_production(self, target: Target) -> None:
        server = target.house.server
        server.sql("CREATE TABLE IF NOT EXISTS shop.e (e INT)")
        target.house.snapshot()
        create(target.house, "--name", "dev")
        own = (target.house.home / "clones" / "dev" / "password").read_text().strip()
        with pytest.raises(pymysql.MySQLError, match="denied"):
            entered(target.house, "dev", ODD_USER, "prod-pw-1")
        with entered(target.house, "dev", ODD_USER, own) as odd, odd.cursor() as cursor:
            cursor.execute(f"INSERT INTO {identifier(ODD_SCHEMA)}.t VALUES (1)")
            with pytest.raises(pymysql.MySQLError, match="denied"):
                cursor.execute("SELECT * FROM hr.salaries")
        with entered(target.house, "dev") as clone:
            attack(clone, "his", INVERTS, READS, ENDS)
        made = target.house.zb("copy", "dev", "shop.his", "--json", "-q", config=target.config)
        assert target.leaked() == []
        assert [t["inserted"] for t in made.data["tables"]] == [2]
        assert [row[0] for row in server.sql("SHOW COLUMNS FROM shop.his")] == ["id", COLUMN]

    @pytest.mark.parametrize("name", ["shop.triggered", "shop.seen"])
    def test_nothing_of_his_clone_runs_as_an_account_of_production(self, target: Target, name: str) -> None:
        """He may log in there as any account of production's, with a password that he has set."""
        server = target.house.server
        with entered(target.house, "dev") as clone, clone.cursor() as cursor:
            cursor.execute("ALTER USER 'app'@'localhost' IDENTIFIED BY 'Zz-1secret-secret'")
            if name == "shop.triggered":
                cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
        with entered(target.house, "dev", "app", "Zz-1secret-secret") as clone, clone.cursor() as cursor:
            if name == "shop.triggered":
                cursor.execute(
                    f"CREATE TRIGGER shop.his_{name[5:]} BEFORE INSERT ON {name} FOR EACH ROW SET @a = 1"
                )
            else:
                cursor.execute(f"CREATE VIEW {name} AS SELECT * FROM shop.e")
        refused = target.house.zb("copy", "dev", name, "--json", "-q", config=target.config).refused(9)
        assert "people have a login in this clone" in refused
        assert not server.sql(f"SHOW TABLES FROM shop LIKE '{name[5:]}'")
        if name == "shop.triggered":
            done = target.house.zb("copy", "dev", name, "--bare", "--json", "-q", config=target.config)
            assert done.data["tables"][0]["action"] == "new"
            assert not server.sql("SHOW TRIGGERS FROM shop LIKE 'triggered'")
