"""Tables of every kind, for copies between real servers."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.said import said
from tests.lab.servers.accounts import ZBACKUP_PASSWORD, ZBACKUP_USER
from zbackup.config.copying import CopyBack
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.production.account import ProductionAccount
from zbackup.engines.mysql.server.connection import Connection, RowConnection
from zbackup.features.copyback.copying import CopiedTable, CopyPlan, CopyWish, Difference
from zbackup.features.copyback.mysql.session import MysqlCopier
from zbackup.model.errors import DatabaseError
from zbackup.model.progress import Silent
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import EVERY_TABLE, TableName, separated

EVERYWHERE = (
    "CREATE TABLE odd.kinds (a INT, b VARCHAR(20) CHARACTER SET latin1, "
    "id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, f FLOAT, d DOUBLE, de DECIMAL(30,10), t TEXT, bl LONGBLOB, "
    "bi BIT(12), dt DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(2), y YEAR, e ENUM('x','ÿ','z'), "
    "s SET('p','q'), g GEOMETRY, j JSON, u16 VARCHAR(10) CHARACTER SET utf16, "
    "sj VARCHAR(20) CHARACTER SET sjis, gen INT AS (a * 2) VIRTUAL, "
    "gens VARCHAR(50) AS (CONCAT(b, '!')) STORED, "
    "`we``ird. col` INT DEFAULT 5 COMMENT 'it''s\nok), x', PRIMARY KEY (id), KEY genk (gens), "
    "FULLTEXT KEY ft (t), UNIQUE KEY ub (b, a)) COMMENT='c, )\n;'",
    "CREATE TABLE odd.comp (p1 VARCHAR(10) NOT NULL, p2 INT NOT NULL, p3 DATE NOT NULL, v TEXT, "
    "PRIMARY KEY (p1, p2, p3))",
    "CREATE TABLE odd.nokey (a INT, b VARCHAR(10))",
    "CREATE TABLE odd.part (id INT NOT NULL PRIMARY KEY, v VARCHAR(10)) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "CREATE TABLE odd.parent (id INT PRIMARY KEY, up INT, "
    "CONSTRAINT selfref FOREIGN KEY (up) REFERENCES parent (id))",
    "CREATE TABLE odd.child (id INT PRIMARY KEY, pid INT, n INT, CONSTRAINT toparent FOREIGN KEY (pid) "
    "REFERENCES parent (id) ON DELETE CASCADE, CONSTRAINT pos CHECK (n > 0))",
    "CREATE TABLE odd.compressed (id INT PRIMARY KEY, t TEXT) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
    "CREATE TABLE odd.my (id INT PRIMARY KEY, t TEXT) ENGINE=MyISAM",
    "CREATE TABLE odd.ci (k VARCHAR(20) PRIMARY KEY, v INT)",
    "CREATE TABLE odd.enumk (k ENUM('b','a') PRIMARY KEY, v INT)",
    "CREATE TABLE odd.at (k TIMESTAMP(6) PRIMARY KEY, v INT)",
    "CREATE TABLE odd.vec (id INT PRIMARY KEY, v VECTOR(3) NOT NULL)",
    "CREATE DEFINER = owner@localhost VIEW odd.seen AS SELECT id, pid FROM odd.child",
)
OF_ONE = {
    "mysql": (
        "CREATE TABLE odd.own (id INT PRIMARY KEY, v VARCHAR(20), inv INT INVISIBLE, KEY f ((UPPER(v))))",
    ),
    "mariadb": (
        "CREATE TABLE odd.own (u UUID PRIMARY KEY, i INET6)",
        "CREATE TABLE odd.secret (id INT PRIMARY KEY, v VARCHAR(20)) ENCRYPTED=YES ENCRYPTION_KEY_ID=2",
        "CREATE TABLE elsewhere.past (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE SEQUENCE elsewhere.numbers",
    ),
}
COLUMNS = "a, b, id, f, d, de, t, bl, bi, dt, ts, tm, y, e, s, g, j, u16, sj, `we``ird. col`"
ROWS = 400


@dataclass(frozen=True)
class Rig:
    """Production with its replica, and a server that plays the clone."""

    production: DatabaseServer
    replica: DatabaseServer
    clone: DatabaseServer

    def copier(self) -> MysqlCopier:
        usual = ConnectOptions(
            socket=str(self.production.settings.socket),
            user=ZBACKUP_USER,
            password=lambda: ZBACKUP_PASSWORD,
        )
        replicas = (("127.0.0.1", self.replica.settings.port or 0),)
        rules = CopyBack.model_construct(user="zcopy", password=said("x"), max_lag=3600.0, replicas=replicas)
        return MysqlCopier(account=ProductionAccount(instance="shop", usual=usual, rules=rules))

    @contextmanager
    def session(self, *names: str, **wish: Any) -> Iterator[Any]:
        wish = {"moment": "20260101T000000", "clone": "c"} | wish
        pairs = map(separated, names)
        tables = tuple(TableName(schema, table or EVERY_TABLE) for schema, table in pairs)
        wanted = CopyWish(tables=tables, **wish)
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

    def both(self, *statements: str) -> None:
        for server in (self.production, self.clone):
            for statement in statements:
                server.sql(statement)

    def forget(self, schema: str = "odd") -> None:
        with self.production.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET foreign_key_checks = 0")
            cursor.execute(f"DROP DATABASE IF EXISTS {schema}")
            cursor.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")

    def sums(self, server: DatabaseServer, schema: str = "odd") -> dict[str, int | None]:
        """Checksums by the tables' names without their schema; those of views are None."""
        found = server.checksum([t for t in server.tables() if t.startswith(f"{schema}.")])
        return {name.partition(".")[2]: value for name, value in found.items()}


def with_keys(room: Path, flavour: str, *numbers: int) -> tuple[str, ...]:
    """Options of a MariaDB that has these keys; MySQL needs a file beside its program, which others run."""
    if "mariadb" not in flavour:
        return ()
    keys = room / f"keys-{'-'.join(map(str, numbers))}"
    keys.write_text("".join(f"{number};{str(number) * 64}\n" for number in numbers))
    keys.chmod(0o444)
    return "--plugin-load-add=file_key_management", f"--file-key-management-filename={keys}"


def places(rig: Rig, first: int, apart: int) -> Iterator[int]:
    """Numbers of statements to cut at, `apart` from each other; with a MariaDB others than with a MySQL.

    Where every repeat is told these are all, from the `first` on.
    """
    other = rig.production.settings.kind == "mariadb" and apart > 1
    return count(first + 1 if other else first, apart)


def cut_at(patch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Lose the connection at the statement of that number that changes something; [] if it never came."""
    seen = count(1)
    cut: list[int] = []

    def changing(statement: str) -> bool:
        return statement.split()[0] in (
            *("CREATE", "INSERT", "LOAD", "ALTER", "RENAME", "TRUNCATE", "DROP", "COMMIT"),
        )

    def patched(original: Any, text: Any) -> Any:
        def run(self: Any, statement: Any, *rest: Any) -> Any:
            # Several sessions may be at work at once.
            mine = next(seen) if changing(text(statement)) and not cut else 0
            answer = original(self, statement, *rest)
            if mine == number:
                cut.append(1)
                raise DatabaseError("cut off")
            return answer

        return run

    patch.setattr(Connection, "execute", patched(Connection.execute, str))
    for name in ("write", "load"):
        patch.setattr(
            RowConnection, name, patched(getattr(RowConnection, name), lambda b: b.decode("latin1"))
        )
    return cut


def make_odd_tables(server: DatabaseServer) -> None:
    """Schemas `odd` and `elsewhere` with rows whose every value is the same in each call."""
    for schema in ("odd", "elsewhere"):
        server.sql(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    kind = server.settings.kind
    connection = server.connect(charset="utf8mb4", database="odd")
    with connection.cursor() as cursor:
        # What production's programs have written in years gone by is not always what is strict today.
        cursor.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00'")
        for statement in (*EVERYWHERE, *OF_ONE[kind]):
            cursor.execute(statement)
        _fill(cursor, kind)
        cursor.execute(
            "CREATE DEFINER = owner@localhost TRIGGER odd.same BEFORE INSERT ON odd.my FOR EACH ROW "
            "SET NEW.t = NEW.t"
        )
        cursor.execute(
            "CREATE DEFINER = owner@localhost TRIGGER odd.once BEFORE INSERT ON odd.nokey FOR EACH ROW "
            "SET NEW.a = NEW.a + 100"
        )
    connection.commit()
    connection.close()


def _fill(cursor: Any, kind: str) -> None:
    chance = random.Random(1)
    values = ", ".join(["%s"] * 15 + ["ST_GeomFromText('POINT(1 2)')"] + ["%s"] * 4)
    for n in range(ROWS):
        cursor.execute(f"INSERT INTO kinds ({COLUMNS}) VALUES ({values})", _row(chance, n))
        cursor.execute("INSERT INTO part VALUES (%s, %s)", (n, f"v{n}"))
        cursor.execute(
            "INSERT INTO comp VALUES (%s, %s, %s, %s)",
            (f"k{n % 13}", n, f"2024-01-{1 + n % 28:02}", "v" * (n % 50)),
        )
    for n in range(60):
        cursor.execute("INSERT INTO nokey VALUES (%s, 'x')", (n % 7,))
        cursor.execute("INSERT INTO parent VALUES (%s, %s)", (n, n - 1 if n else None))
        cursor.execute("INSERT INTO child VALUES (%s, %s, %s)", (n, n % 9, n + 1))
        cursor.execute("INSERT INTO compressed VALUES (%s, %s)", (n, "t" * n))
        cursor.execute("INSERT INTO my VALUES (%s, %s)", (n, "t" * n))
        cursor.execute("INSERT INTO at VALUES (%s, %s)", (f"2024-10-27 00:{n % 60:02}:00.{n:06}", n))
        vector = "STRING_TO_VECTOR" if kind == "mysql" else "VEC_FromText"
        cursor.execute(f"INSERT INTO vec VALUES (%s, {vector}(%s))", (n, f"[1.5,{n},0.1]"))
        if kind == "mysql":
            cursor.execute("INSERT INTO own (id, v, inv) VALUES (%s, %s, %s)", (n, f"vé{n}", n))
        else:
            cursor.execute("INSERT INTO own VALUES (%s, %s)", (f"{n:08x}-0000-1000-8000-{n:012x}", f"::{n}"))
            cursor.execute("INSERT INTO secret VALUES (%s, %s)", (n, f"v{n}"))
    for word in ("Apple", "banana", "Ärger", "zebra", "Éa", "straße", "it's", "back\\slash"):
        cursor.execute("INSERT INTO ci VALUES (%s, 1)", (word,))
    cursor.execute("INSERT INTO enumk VALUES ('a', 1), ('b', 2)")


def _row(chance: random.Random, n: int) -> tuple[object, ...]:
    return (
        n,
        f"é\\'\"{n}",
        n if n < ROWS - 50 else 2**64 - 1 - n,
        chance.random() * 10 ** chance.randint(-20, 20) if n % 9 else -0.0,
        chance.random() * 10 ** chance.randint(-200, 200),
        f"-123456789.{n:010}",
        f"𝄞 text \0\n\r\x1a {n}",
        bytes(chance.randrange(256) for _ in range(chance.randint(0, 300))),
        n % 4096,
        f"2024-02-31 02:30:00.{n:06}" if n % 7 else "0000-00-00",
        f"2024-10-27 00:{n % 60:02}:{n * 7 % 60:02}.123",
        f"-{n}:00:01.25",
        1901 + n % 250,
        ["x", "ÿ", "z", None][n % 4],
        "p,q" if n % 2 else "",
        f'{{"a": [1, 2.5, "é", null], "b": {n}}}',
        f"ü€{n}",
        f"表ソ能{n}",
        n,
    )
