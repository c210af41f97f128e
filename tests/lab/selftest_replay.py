"""A replay gives what production had, whatever its settings and sessions were: real servers, from copies.

Needs root and no ZFS; run with pytest by name.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.lab import servers
from tests.lab.lock_holder import engine
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.repeats import some
from tests.lab.servers.templates import DAEMON
from tests.unit.engines.mysql.applying import Notes
from zbackup.config.lock import Lock
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.recovery.log_reader import MysqlLogReader
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.engines.mysql.recovery.unlogged import require_all_logged
from zbackup.engines.mysql.server.connection import connect
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Refused
from zbackup.model.log import LogPosition
from zbackup.model.record import Record
from zbackup.model.recovery import Recovered, RecoveryFiles, ReplayRange, Serving, process_note
from zbackup.model.relocation import Relocation
from zbackup.model.target import WholeLog

Backup = tuple[Record, Path]
FLAVOURS = ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"]
KINDS = Path(__file__).parents[1] / "unit/engines/mysql/global_variables.txt"


class World:
    """A server whose files are copied while it stands still, and what is recovered from the copies."""

    def __init__(self, flavour: str, home: Path, *options: str) -> None:
        self.flavour, self.home = flavour, home
        settings = Settings(flavour=flavour, datadir=home / "db", run_dir=home / "run", options=options)
        self.server = DatabaseServer(settings)
        self.datadir = settings.datadir
        self.count = 0
        self.served: list[Path] = []
        self.progress = Notes()

    def session(self, socket: Path | None = None) -> "pymysql.Connection[Any]":
        return pymysql.connect(
            unix_socket=str(socket or self.server.settings.socket), user="root", autocommit=True
        )

    def backup(self) -> Backup:
        """All files, as a snapshot would have them, and their record."""
        lock = Lock.model_construct(kind="ftwrl", wait=5, hold=60.0)
        asked = engine(self.server.settings.socket, self.server.settings.run_dir, lock)
        self.count += 1
        copy = self.home / f"backup{self.count}"
        with self.session() as session:
            said(session, "FLUSH TABLES WITH READ LOCK")
            facts = asked.inspect()
            os.kill(self.server.pid, signal.SIGSTOP)
            try:
                subprocess.run(["cp", "-a", str(self.datadir), str(copy)], check=True)
            finally:
                os.kill(self.server.pid, signal.SIGCONT)
            said(session, "UNLOCK TABLES")
        record = Record(
            backup=copy.name,
            instance="lab",
            engine=facts.flavor,
            members=(("lab/db", str(self.datadir)),),
            taken=datetime.now(UTC),
            lock="ftwrl",
            server_uuid=facts.server_uuid,
            server_version=facts.version,
            role=facts.role,
            position=facts.position,
            gtid=facts.gtid,
            server=dict(facts.server),
        )
        return record, copy

    def restore(self, base: Backup, log: Backup) -> Recovered:
        """Recover and serve it: see recovered()."""
        first, second = self._clone(base), self._clone(log)
        first = replace(first, beside=(second.home, first.home))
        program = str(servers.path(self.flavour) / "bin" / DAEMON[self.server.settings.kind])
        table = RecoveryTable.model_validate({"server": [program], "memory": "64MiB"})
        recovery = MysqlRecovery(flavor=first.record.engine, table=table)
        self.served.append(first.run)
        return recovery.recover(first, second, END, Serving(), self.progress)

    def recovered(self) -> "pymysql.Connection[Any]":
        return self.session(self.served[-1] / "mysqld.sock")

    def examine(self, base: Backup, log: Backup) -> ReplayRange:
        files = [BackupFiles(record, self._where(copy)) for record, copy in (base, log)]
        return MysqlLogReader(flavor=base[0].engine).examine(files[0], files[1], END)

    def unlogged(self, file: Path) -> str:
        """What is found in a file of the log that the server as it is now does not explain."""
        stop = LogPosition.of(file.name, file.stat().st_size)
        log = LogRange(files=(file,), start=LogPosition.of(file.name, 4), stop=stop, ends_file=True)
        with connect(
            ConnectOptions(socket=str(self.server.settings.socket), user="root", password=str)
        ) as connection:
            try:
                require_all_logged(connection, log, lambda _: None)
            except Refused as found:
                return str(found)
        return ""

    def _clone(self, backup: Backup) -> RecoveryFiles:
        record, copy = backup
        self.count += 1
        home = self.home / f"clone{self.count}"
        subprocess.run(["cp", "-a", str(copy), str(home)], check=True)
        run = self.home / f"r{self.count}"
        return RecoveryFiles(record=record, where=self._where(home), home=home, run=run, hide=())

    def _where(self, copy: Path) -> Relocation:
        return Relocation(((str(self.datadir), str(copy)),))

    def end(self) -> None:
        for run in self.served:
            with suppress(FileNotFoundError, ProcessLookupError):
                os.kill(int(process_note(run).read_text().split()[0]), signal.SIGKILL)


END = WholeLog(datetime(2100, 1, 1, tzinfo=UTC) - timedelta(days=1))


def said(session: "pymysql.Connection[Any]", *statements: str) -> tuple[tuple[Any, ...], ...]:
    """The rows of the last."""
    with session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return tuple(cursor.fetchall())


@pytest.fixture(params=some(FLAVOURS, *FLAVOURS[:2]))
def flavour(request: pytest.FixtureRequest) -> str:
    servers.ensure([request.param])
    return str(request.param)


@pytest.fixture
def world(flavour: str, request: pytest.FixtureRequest) -> Iterator[World]:
    with made_world(flavour, *getattr(request, "param", ())) as made:
        yield made


@contextmanager
def made_world(flavour: str, *options: str) -> Iterator[World]:
    home = Path(tempfile.mkdtemp(prefix="zr", dir="/tmp"))
    home.chmod(0o755)
    made = World(flavour, home, *options)
    try:
        with made.server:
            yield made
    finally:
        made.end()
        shutil.rmtree(home)


def variables(session: "pymysql.Connection[Any]") -> dict[str, str]:
    """The kind of each global variable: see test_settings.LINES."""
    there = {str(row[0]) for row in said(session, "SHOW GLOBAL VARIABLES")}
    if said(session, "SELECT VERSION()")[0][0].find("MariaDB") > 0:
        rows = said(
            session, "SELECT VARIABLE_NAME, VARIABLE_TYPE, READ_ONLY FROM information_schema.SYSTEM_VARIABLES"
        )
        kinds = {name.lower(): "FIXED" if fixed == "YES" else kind for name, kind, fixed in rows}
    else:
        rows = said(session, "SELECT VARIABLE_NAME, DATA_TYPE FROM performance_schema.variables_metadata")
        kinds = {name.lower(): kind.upper() for name, kind in rows}
        for name in there:
            try:
                said(session, f"SET GLOBAL {name} = @@GLOBAL.{name}")
            except pymysql.MySQLError as failure:
                if failure.args[0] == 1238:
                    kinds[name] = "FIXED"
    plain = {"INTEGER", "BOOLEAN", "NUMERIC", "DOUBLE", "INT", "INT UNSIGNED", "BIGINT", "BIGINT UNSIGNED"}
    return {
        name: "fixed" if kind == "FIXED" else "plain" if kind in plain else "words"
        for name, kind in ((name, kinds.get(name, "?")) for name in there)
    }


def test_the_list_of_variables_is_that_of_the_servers(world: World) -> None:
    """Each of them is given to a recovered server, or is not for a reason: test_settings."""
    lines = [line.split() for line in KINDS.read_text().splitlines()]
    listed = {line[0]: line[1] for line in lines if world.flavour in line[2:]}
    with world.session() as session:
        assert variables(session) == listed


@pytest.mark.parametrize(
    "world", [("--binlog-format=STATEMENT", "--max-allowed-packet=1M", "--sql-mode=")], indirect=True
)
@pytest.mark.parametrize("large", [False, True])
def test_statements_give_what_they_gave(world: World, *, large: bool) -> None:
    """A text that was too long is NULL, and a recursion as deep as it was allowed to be; `large`: rows
    between them are larger than max_allowed_packet."""
    with world.session() as root:
        said(
            root,
            "CREATE TABLE shop.text (id INT, t LONGTEXT, u LONGTEXT)",
            "CREATE TABLE shop.numbers (n INT)",
        )
        mysql = world.server.settings.kind == "mysql"
        depth = "cte_max_recursion_depth = 5000" if mysql else "max_recursive_iterations = 1500"
        said(root, f"SET GLOBAL {depth}", "SET GLOBAL default_week_format = 3")
    base = world.backup()
    with world.session() as session:
        said(
            session,
            "INSERT INTO shop.text VALUES (1, REPEAT('x', 2000000), WEEK('2021-01-03'))",
            "INSERT INTO shop.numbers WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
            "WHERE i < 1400) SELECT i FROM n",
        )
        if large:
            said(
                session,
                "SET binlog_format = ROW",
                "INSERT INTO shop.text VALUES (2, REPEAT('a', 900000), REPEAT('b', 900000))",
                "SET binlog_format = STATEMENT",
                "INSERT INTO shop.text VALUES (3, REPEAT('x', 2000000), '')",
            )
        asked = (
            "SELECT (SELECT GROUP_CONCAT(id, ' ', IFNULL(LENGTH(t), 'none'), ' ', u = '53' ORDER BY id) "
            "FROM shop.text), (SELECT COUNT(*) FROM shop.numbers), @@GLOBAL.max_allowed_packet"
        )
        wanted = said(session, asked)
    done = world.restore(base, world.backup())
    with world.recovered() as session:
        assert said(session, asked) == wanted
    assert wanted[0][1] == 1400
    assert done.other_settings == ""


@pytest.mark.parametrize("world", [("--binlog-format=STATEMENT",)], indirect=True)
def test_a_setting_that_was_changed_since_is_told_of(world: World) -> None:
    base = world.backup()
    with world.session() as root:
        said(root, "SET GLOBAL default_storage_engine = MyISAM")
    with world.session() as session:
        said(session, "CREATE TABLE shop.other (id INT)")
    done = world.restore(base, world.backup())
    assert "default_storage_engine changed from InnoDB to MyISAM" in done.other_settings


ORDERS = "SELECT (SELECT GROUP_CONCAT(id ORDER BY id) FROM shop.o), (SELECT COUNT(*) FROM shop.made)"


@pytest.mark.parametrize("world", [("--binlog-format=STATEMENT",)], indirect=True)
@pytest.mark.parametrize("mixed", [False, True])
def test_a_temporary_table_of_before_the_base_hits_no_real_one(world: World, *, mixed: bool) -> None:
    """The base that lacks it is refused, naming the session; an older one gives the rows."""
    mysql = world.server.settings.kind == "mysql"
    if mixed and not mysql:
        with world.session() as root:
            said(root, "SET GLOBAL binlog_format = MIXED")
    with world.session() as one, world.session() as other:
        said(one, "CREATE TABLE shop.o (id INT PRIMARY KEY)", "INSERT INTO shop.o VALUES (1), (2), (3)")
        said(one, "CREATE TABLE shop.made (id BIGINT)", "USE shop")
        older = world.backup()
        said(one, "CREATE TEMPORARY TABLE o (id INT)")
        base = world.backup()
        said(other, "USE shop", "CREATE TEMPORARY TABLE t (id INT)", "INSERT INTO t VALUES (4)")
        said(other, "INSERT INTO made SELECT * FROM t", "INSERT INTO made VALUES (CONNECTION_ID())")
        between = world.backup()
        said(one, "DELETE FROM o")
        log, wanted = world.backup(), said(other, ORDERS)
    assert world.examine(base, between).stopped is None
    stopped = world.examine(base, log).stopped
    assert stopped and stopped.of_base and "(shop.o)" in stopped.why
    assert world.examine(older, log).stopped is None
    world.restore(older, log)
    with world.recovered() as session:
        assert said(session, ORDERS) == wanted == (("1,2,3", 2),)


@pytest.mark.parametrize("world", [("--binlog-format=STATEMENT",)], indirect=True)
def test_a_temporary_table_that_is_only_dropped_stops_no_replay_in_vain(world: World) -> None:
    """A MariaDB passes over the DROP; a MySQL does not, and lacks its GTID."""
    with world.session() as one:
        said(one, "CREATE TABLE shop.o (id INT PRIMARY KEY)", "CREATE TABLE shop.made (id INT)", "USE shop")
        said(one, "CREATE TEMPORARY TABLE left_over (id INT)")
        base = world.backup()
        said(one, "DROP TEMPORARY TABLE left_over", "INSERT INTO o VALUES (1)")
        log, wanted = world.backup(), said(one, ORDERS)
    stopped = world.examine(base, log).stopped
    assert bool(stopped) == (world.server.settings.kind == "mysql")
    if not stopped:
        world.restore(base, log)
        with world.recovered() as session:
            assert said(session, ORDERS) == wanted


@pytest.mark.parametrize("world", [("--binlog-format=STATEMENT",)], indirect=True)
def test_sessions_end_with_the_server(world: World) -> None:
    with world.session() as one:
        said(one, "CREATE TABLE shop.o (id INT PRIMARY KEY)", "CREATE TABLE shop.made (id INT)", "USE shop")
        said(one, "CREATE TEMPORARY TABLE o (id INT)")
        base = world.backup()
        world.server.kill()
    world.server.start()
    with world.session() as other:
        said(other, "INSERT INTO shop.o VALUES (CONNECTION_ID() * 0 + 7)")
        log, wanted = world.backup(), said(other, ORDERS)
    assert world.examine(base, log).stopped is None
    world.restore(base, log)
    with world.recovered() as session:
        assert said(session, ORDERS) == wanted == (("7", 0),)


ODD = {
    "mysql": (
        "CREATE TABLE shop.odd (id INT, n VARCHAR(20), v INT AS (id + 1) VIRTUAL, KEY ((LOWER(n))))",
        "SET sql_generate_invisible_primary_key = 1",
        "CREATE TABLE shop.keyless (x INT)",
        "SET sql_generate_invisible_primary_key = 0",
        "INSERT INTO shop.odd (id, n) VALUES (1, 'X')",
        "INSERT INTO shop.keyless VALUES (1)",
    ),
    "mariadb": (
        "CREATE TABLE shop.odd (id INT, n BLOB, v INT AS (id + 1) VIRTUAL, UNIQUE (n))",
        "CREATE TABLE shop.keyless (x INT) WITH SYSTEM VERSIONING",
        "INSERT INTO shop.odd (id, n) VALUES (1, 'X')",
        "INSERT INTO shop.keyless VALUES (1)",
    ),
}


@pytest.mark.parametrize("world", [(), ("--binlog-format=MIXED",)], indirect=True)
def test_a_column_that_was_added_without_the_log_is_found(world: World) -> None:
    """And what is logged, or what a server counts in its own way, is not taken for that."""
    making = [one for one in ODD[world.server.settings.kind] if one.startswith(("CREATE", "SET"))]
    filling = [one for one in ODD[world.server.settings.kind] if one not in making]
    rows = "SET binlog_format = ROW"
    with world.session() as one:
        said(one, "CREATE TABLE shop.o (id INT PRIMARY KEY)", "CREATE TABLE shop.two (id INT)", *making)
        base = world.backup()
        said(one, rows, "INSERT INTO shop.o VALUES (1)", "INSERT INTO shop.two VALUES (1)", *filling)
        said(one, "ALTER TABLE `shop`.`two` ADD y INT")
        said(one, "INSERT INTO shop.two VALUES (2, 3)", "RENAME TABLE shop.two TO shop.x, shop.o TO shop.two")
        said(one, "INSERT INTO shop.two VALUES (2)", "CREATE TABLE shop.o (a INT, b INT)")
        said(one, "INSERT INTO shop.o VALUES (1, 2)", "CREATE DATABASE d", "CREATE TABLE d.t (x INT)")
        said(one, "INSERT INTO d.t VALUES (1)", "DROP DATABASE d", "CREATE DATABASE d")
        said(one, "CREATE TABLE d.t (x INT, y INT)", "INSERT INTO d.t VALUES (1, 2)")
        logged = world.backup()
        said(one, "SET sql_log_bin = 0", "ALTER TABLE shop.o ADD note VARCHAR(9)", "SET sql_log_bin = 1")
        said(one, "INSERT INTO shop.o VALUES (2, 3, 'kept')")
        log = world.backup()
    world.restore(base, logged)
    with world.recovered() as session:
        assert said(session, "SELECT * FROM shop.o") == ((1, 2),)
    with pytest.raises(Refused, match=r"shop\.o has 3 columns in .* and had 2 before"):
        world.restore(base, log)


def letters(kind: str, count: int) -> str:
    values = ",".join(f"'v{value}'" for value in range(count))
    return f"{kind}({values})"


_INTS = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")
_SHAPES = ("GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON")
EVERY = (
    *_INTS,
    *(f"{kind} UNSIGNED" for kind in _INTS),
    *("INT ZEROFILL", "BOOL", "YEAR", "BIT", "BIT(7)", "BIT(8)", "BIT(64)", "DATE"),
    *("FLOAT", "FLOAT UNSIGNED", "FLOAT(7,3)", "FLOAT(40)", "DOUBLE", "DOUBLE UNSIGNED", "REAL"),
    *("DECIMAL", "DECIMAL(65,30)", "DECIMAL(5,0) UNSIGNED", "NUMERIC(9,2)"),
    *("TIME", "TIME(3)", "DATETIME", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(5) NULL"),
    *("CHAR", "CHAR(0)", "CHAR(255)", "CHAR(255) CHARACTER SET utf8mb4", "CHAR(9) CHARACTER SET latin1"),
    *("CHAR(9) CHARACTER SET ucs2", "CHAR(5) COLLATE utf8mb4_bin", "NCHAR(9)", "BINARY", "BINARY(255)"),
    *("VARCHAR(0)", "VARCHAR(63)", "VARCHAR(300) CHARACTER SET utf8mb4", "VARCHAR(9) CHARACTER SET utf16"),
    *("VARCHAR(4000) CHARACTER SET latin1", "NVARCHAR(20)", "VARBINARY(9)", "VARBINARY(600)"),
    *("TINYBLOB", "BLOB", "BLOB(100)", "MEDIUMBLOB", "LONGBLOB", "TINYTEXT", "TEXT", "TEXT(70000)"),
    *("MEDIUMTEXT CHARACTER SET latin1", "LONGTEXT", "JSON", "LONG VARCHAR", "LONG VARBINARY"),
    *("ENUM('a','b')", "ENUM('a''b','c,d')", "ENUM('ä','b')", "ENUM('a\\\\b','b')"),
    *("ENUM('x','y') CHARACTER SET ucs2", letters("ENUM", 300)),
    *(letters("SET", count) for count in (1, 8, 9, 17, 25, 33, 64)),
    *(*_SHAPES, "GEOMETRYCOLLECTION"),
)
EVERY_OWN = {
    "mysql": ("VECTOR", "VECTOR(7)", "GEOMCOLLECTION"),
    "mariadb": (
        *("UUID", "INET6", "INET4", "VECTOR(7) NOT NULL", "VARCHAR(90) COMPRESSED", "TEXT COMPRESSED"),
        *("BLOB COMPRESSED", "LONGBLOB COMPRESSED", "VARBINARY(60) COMPRESSED"),
        "CHAR(4) CHARACTER SET utf8mb4 COLLATE uca1400_ai_ci",
    ),
}
"""Types that not all versions have."""
_NULL = ("NULL", "GEOM", "POINT", "LINE", "POLYGON", "VECTOR", "JSON")
STRANGE = {
    "mysql": (
        "--show-gipk-in-create-table-and-information-schema=OFF",
        "--sql-generate-invisible-primary-key=ON",
        "--sql-mode=ANSI_QUOTES,REAL_AS_FLOAT,NO_BACKSLASH_ESCAPES",
        "--binlog-transaction-compression=ON",
    ),
    "mariadb": ("--mysql56-temporal-format=OFF", "--sql-mode=ORACLE", "--log-bin-compress=ON"),
}
METADATA = {"mysql": ("MINIMAL", "FULL"), "mariadb": ("NO_LOG", "MINIMAL", "FULL")}


def made_every(session: "pymysql.Connection[Any]", kind: str) -> list[str]:
    """Tables with columns of every type that the server has, of several engines; some of them NOT NULL, some
    computed, some not shown."""
    tables: list[str] = []
    hidden = ("hidden INT INVISIBLE",) if kind == "mysql" else ("hidden INT INVISIBLE DEFAULT 1",)
    for engine_ in ("InnoDB", "MyISAM", *(("Aria",) if kind == "mariadb" else ())):
        there = []
        for type_ in (*EVERY, *EVERY_OWN[kind]):
            with suppress(pymysql.Error):
                said(
                    session, f"CREATE TABLE shop.probe (c {type_}) ENGINE={engine_}", "DROP TABLE shop.probe"
                )
                there.append(type_)
        assert len(there) >= len(EVERY)
        for at in range(0, len(there), 12):
            columns = []
            for place, type_ in enumerate(there[at : at + 12]):
                nullable = place % 2 or any(word in type_ for word in _NULL)
                columns.append(f"c{place} {type_}{'' if nullable else ' NOT NULL'}")
                if place % 5 == 2:
                    columns.append(f"v{place} INT AS (1 + 1) VIRTUAL")
                    columns.append(f"s{place} BIGINT UNSIGNED AS (2) STORED")
            tables.append(f"shop.t{len(tables)}")
            made = ", ".join((*columns, *hidden))
            said(session, f"CREATE TABLE {tables[-1]} ({made}) ENGINE={engine_}")
    return tables


@pytest.mark.parametrize("strange", [False, True])
def test_nothing_is_found_where_nothing_was_changed(flavour: str, strange: bool) -> None:
    """Every column type, each amount of metadata, logged changes of definitions and partitions."""
    kind = flavour.partition("-")[0]
    with made_world(flavour, *(STRANGE[kind] if strange else ())) as world:
        with world.session() as one:
            said(one, "SET sql_mode = ''")
            tables = made_every(one, kind)
            if strange and kind == "mysql":
                said(one, "SET sql_generate_invisible_primary_key = OFF")
            said(one, "CREATE TABLE shop.parts (id INT, x INT) PARTITION BY HASH (id) PARTITIONS 2")
            said(one, "CREATE TABLE shop.whole (id INT, x INT)")
            base = world.backup()
            for amount in METADATA[kind]:
                said(one, f"SET GLOBAL binlog_row_metadata = {amount}")
                said(one, *(f"INSERT INTO {table} () VALUES ()" for table in tables))
                said(
                    one, "INSERT INTO shop.parts VALUES (1, 1)", "ALTER TABLE shop.parts COALESCE PARTITION 1"
                )
                said(
                    one,
                    "INSERT INTO shop.parts VALUES (2, 2)",
                    "ALTER TABLE shop.parts ADD PARTITION PARTITIONS 1",
                )
                said(one, "INSERT INTO shop.whole VALUES (1, 1)")
                said(one, f"ALTER TABLE shop.whole ADD COLUMN y{amount.lower()} INT FIRST")
                said(one, "INSERT INTO shop.whole () VALUES ()")
                said(one, f"ALTER TABLE shop.whole DROP COLUMN y{amount.lower()}")
                said(one, *(f"ALTER TABLE {table} MODIFY c1 VARCHAR(3) NULL" for table in tables[:3]))
                said(one, *(f"INSERT INTO {table} () VALUES ()" for table in tables))
            said(
                one, "RENAME TABLE shop.t4 TO shop.other, shop.t5 TO shop.t4", "CREATE TABLE shop.t5 (x INT)"
            )
            said(one, "INSERT INTO shop.t5 VALUES (1)", "INSERT INTO shop.t4 () VALUES ()")
            log, wanted = world.backup(), said(one, "SELECT COUNT(*) FROM shop.t0")
        world.restore(base, log)
        with world.recovered() as session:
            assert said(session, "SELECT COUNT(*) FROM shop.t0") == wanted


UNTOLD = (
    # the definition that rows are logged with, that of the base, the metadata that shows it, what is told
    ("x INT", "MODIFY x BIGINT", "", "int in .* and had it as bigint"),
    ("x INT", "MODIFY x VARCHAR(9) CHARACTER SET latin1", "", r"int in .* as varchar\(9\)"),
    ("x VARCHAR(9)", "MODIFY x VARCHAR(10)", "", r"varchar\(\d+\) in .* as varchar\(\d+\)"),
    (
        "x CHAR(9) CHARACTER SET latin1",
        "MODIFY x CHAR(200) CHARACTER SET utf8mb4",
        "",
        r"char\(9\).* in .*\(800\).*",
    ),
    ("x DECIMAL(9,2)", "MODIFY x DECIMAL(10,2)", "", r"decimal\(9,2\) in .* decimal\(10,2\)"),
    ("x DATETIME", "MODIFY x DATETIME(3)", "", r"datetime\(0\) in .* datetime\(3\)"),
    ("x TIMESTAMP NULL", "MODIFY x DATETIME NULL", "", r"timestamp\(0\) in .* datetime\(0\)"),
    ("x BLOB", "MODIFY x LONGBLOB", "", r"blob\(2\) in .* blob\(4\)"),
    ("x BIT(7)", "MODIFY x BIT(9)", "", r"bit\(7\) in .* bit\(9\)"),
    ("x INT", "MODIFY x INT NOT NULL", "", "NULL in .* NOT NULL"),
    ("x INT, y DATE", "MODIFY x INT AFTER y", "", "int in .* date"),
    ("x INT", "MODIFY x INT UNSIGNED", "MINIMAL", "signed in .* unsigned"),
    ("x TEXT", "MODIFY x TEXT CHARACTER SET koi8r", "MINIMAL", "CHARACTER SET .* in .* CHARACTER SET koi8r"),
    ("x TEXT", "MODIFY x BLOB", "MINIMAL", "CHARACTER SET .* in .* CHARACTER SET binary"),
    ("x INT, y INT", "MODIFY x INT AFTER y", "FULL", "x in .* y"),
    ("x ENUM('a','b')", "MODIFY x ENUM('b','a')", "FULL", "with the values a, b in .* with the values b, a"),
    ("x SET('a')", "MODIFY x SET('a','b')", "FULL", "with the values a in .* with the values a, b"),
)


def test_each_change_of_a_column_that_was_not_logged_is_found(world: World) -> None:
    """What a file of the log has of a table is compared with a server that has it otherwise."""
    amounts = METADATA[world.server.settings.kind]
    with world.session() as one:
        for at, (definition, *_) in enumerate(UNTOLD):
            said(one, f"CREATE TABLE shop.t{at} (id INT, {definition})")
        for at, (_, _, least, _) in enumerate(UNTOLD):
            said(one, "FLUSH BINARY LOGS", f"SET GLOBAL binlog_row_metadata = {least or amounts[0]}")
            said(one, f"INSERT INTO shop.t{at} (id) VALUES (1)")
        logs = sorted(world.datadir.glob("binlog.??????"))[-len(UNTOLD) :]
        said(one, "SET sql_log_bin = 0")
        for at, (_, change, _, wanted) in enumerate(UNTOLD):
            assert world.unlogged(logs[at]) == ""
            said(one, f"TRUNCATE TABLE shop.t{at}", f"ALTER TABLE shop.t{at} {change}")
            told = world.unlogged(logs[at])
            assert re.search(rf"shop\.t{at} has column 2 as {wanted} before, but no logged", told), told
            said(one, f"DROP TABLE shop.t{at}")
            assert f"changes rows of shop.t{at}, which the base does not have" in world.unlogged(logs[at])


LOGGED = (
    "CREATE TABLE shop.made (id INT PRIMARY KEY, t TEXT, FULLTEXT (t))",
    "CREATE TABLE shop.`ä-b` (id INT)",
    "CREATE TABLE shop.`x#P#y` (id INT) PARTITION BY HASH (id) PARTITIONS 3",
    "CREATE TABLE shop.own (id INT) ENGINE = MyISAM",
    "CREATE TABLE shop.alike LIKE shop.kept",
    "CREATE TABLE shop.taken AS SELECT id FROM shop.kept",
    "CREATE DATABASE `d-1`",
    "CREATE TABLE `d-1`.one (id INT)",
    "CREATE VIEW shop.seen AS SELECT 1 AS one",
    "CREATE TEMPORARY TABLE shop.passing (id INT)",
    "ALTER TABLE shop.parts ADD PARTITION PARTITIONS 2",
    "ALTER TABLE shop.kept ENGINE = MyISAM",
    "ALTER TABLE shop.sealed DISCARD TABLESPACE",
    "RENAME TABLE shop.moved TO `d-1`.moved",
    "ALTER TABLE shop.altered RENAME TO shop.renamed",
    "TRUNCATE TABLE shop.parts",
    "OPTIMIZE LOCAL TABLE shop.inside",
    "DROP TABLE shop.dropped",
    "DROP DATABASE gone",
    "CREATE PROCEDURE shop.maker() CREATE TABLE shop.by_procedure (id INT)",
    "CALL shop.maker()",
    "PREPARE p FROM 'CREATE TABLE shop.prepared (id INT)'",
    "EXECUTE p",
)


def test_tables_that_were_created_and_dropped_without_the_log_are_told(world: World) -> None:
    """And nothing is told where the log has it all."""
    names = ("kept", "old", "dropped", "moved", "altered", "sealed")
    with world.session() as one:
        said(one, *(f"CREATE TABLE shop.{name} (id INT)" for name in names), "CREATE DATABASE gone")
        said(one, "CREATE TABLE gone.t (id INT)", "CREATE TABLE gone.u (id INT)")
        said(one, "CREATE TABLE shop.parts (id INT) PARTITION BY HASH (id) PARTITIONS 2")
        said(one, "SET GLOBAL innodb_file_per_table = OFF", "CREATE TABLE shop.inside (id INT)")
        said(one, "SET GLOBAL innodb_file_per_table = ON")
        base = world.backup()
        said(one, *LOGGED)
        if world.server.settings.kind == "mariadb":
            said(one, "CREATE SEQUENCE shop.numbers", "CREATE OR REPLACE TABLE shop.made (id INT)")
        if world.flavour == "mariadb-11.8":
            said(one, "CREATE TABLE shop.near (id INT PRIMARY KEY, v VECTOR(3) NOT NULL, VECTOR INDEX (v))")
        logged = world.backup()
        said(
            one, "SET sql_log_bin = 0", "CREATE TABLE shop.local (id INT)", "DROP TABLE shop.old, shop.parts"
        )
        said(one, "CREATE DATABASE beside", "CREATE TABLE beside.t (id INT) ENGINE = MyISAM")
        said(one, "CREATE VIEW shop.unlogged AS SELECT 1 AS one", "SET sql_log_bin = 1")
        said(one, "INSERT INTO shop.made (id) VALUES (1)")
        log = world.backup()
    assert world.restore(base, logged).other_tables == ""
    told = world.restore(logged, log).other_tables
    assert "created: beside.t, shop.local, which " in told
    assert "dropped: shop.old, shop.parts, which " in told
    assert f"warning: {told}" in world.progress.notes
    with world.recovered() as session:
        tables = {row[0] for row in said(session, "SHOW TABLES FROM shop")}
        assert tables >= {"old", "parts"} and "local" not in tables


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Directories of the host's own, beside the datasets."""
    home = Path(tempfile.mkdtemp(prefix="zr", dir="/var/lib"))
    for directory in (home, home / "far", home / "farther"):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
    yield home
    shutil.rmtree(home)


def test_a_table_that_was_made_elsewhere_is_in_the_clone(flavour: str, elsewhere: Path) -> None:
    """Where the log says so, and nothing else of what lies there is seen: production has gone on."""
    far, farther = elsewhere / "far", elsewhere / "farther"
    with made_world(
        flavour, *(f"--innodb-directories={far};{farther}",) * flavour.startswith("mysql")
    ) as world:
        with world.session() as one:
            base = world.backup()
            said(one, f"CREATE TABLE shop.far (id INT PRIMARY KEY) DATA DIRECTORY = '{far}'")
            said(one, f"CREATE TABLE shop.sub (id INT PRIMARY KEY) DATA DIRECTORY = '{far}/below'")
            said(one, "INSERT INTO shop.far VALUES (1)", "INSERT INTO shop.sub VALUES (2)")
            log = world.backup()
            said(one, f"CREATE TABLE shop.later (id INT PRIMARY KEY) DATA DIRECTORY = '{farther}'")
        before = sorted(str(path) for path in elsewhere.rglob("*"))
        assert world.examine(base, log).stopped is None
        world.restore(base, log)
        with world.recovered() as session:
            assert said(session, "SELECT * FROM shop.far JOIN shop.sub") == ((1, 2),)
            said(session, "DROP TABLE shop.sub")
            if world.server.settings.kind == "mysql":
                said(session, f"CREATE TABLE shop.own (id INT) DATA DIRECTORY = '{farther}'")
        assert sorted(str(path) for path in elsewhere.rglob("*")) == before


def test_a_table_that_no_clone_has_a_place_for_is_told_of_before(flavour: str) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="zr", dir="/run") as run,
        made_world(flavour, *(f"--innodb-directories={run}",) * flavour.startswith("mysql")) as world,
    ):
        Path(run).chmod(0o777)
        with world.session() as one:
            base = world.backup()
            said(one, f"CREATE TABLE shop.far (id INT PRIMARY KEY) DATA DIRECTORY = '{run}'")
            stopped = world.examine(base, world.backup()).stopped
            assert stopped and f"creates a table in {run}, and a clone cannot have" in stopped.why


UNREADABLE = (
    "CREATE TABLE shop.a (id INT)",
    "DROP /*c*/ TABLE /*!40000 IF EXISTS */ shop.a",
    "CREATE TABLE shop.b (id INT)",
    "CREATE TABLE shop.c (id INT)",
    "DROP TABLE /*M!100000 shop.b, */ shop.c",
    "CREATE SEQUENCE shop.s",
    "DROP SEQUENCE /*!40000 IF EXISTS */ shop.s",
    "CREATE TEMPORARY TABLE shop.t (id INT)",
    "DROP TEMPORARY TABLE /*! IF EXISTS */ shop.t",
    "CREATE USER 'a''b'@localhost, 'c\\\\b'@localhost IDENTIFIED BY 'x'",
    "SET PASSWORD FOR 'a''b'@localhost = PASSWORD('y')",
    "SET PASSWORD FOR 'c\\\\b'@localhost = PASSWORD('z')",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "CREATE USER 'd\\''b'@localhost",
    "SET PASSWORD FOR 'd\\''b'@localhost = PASSWORD('z')",
    "SET sql_mode = ''",
    "CREATE TABLE shop.named (`\u00fc` VARCHAR(9) DEFAULT '\u00e4\u20ac' COMMENT '\u00f6')",
    "SET NAMES latin1",
    "CREATE TABLE shop.made SELECT * FROM shop.named",
    "SET NAMES gbk",
    "CREATE OR REPLACE TABLE shop.made2 SELECT * FROM shop.named",
    "SET NAMES utf8mb4",
    "CREATE TABLE shop.last (id INT)",
)
DICTIONARY = (
    "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_DEFAULT, COLUMN_COMMENT FROM information_schema.COLUMNS "
    "WHERE TABLE_SCHEMA = 'shop' ORDER BY 1, 2",
    "SELECT User, Host, authentication_string FROM mysql.user WHERE Host = 'localhost' ORDER BY 1, 2",
)


@pytest.mark.parametrize("world", [("--binlog-format=ROW",), ("--binlog-format=MIXED",)], indirect=True)
def test_what_a_mariadb_cannot_read_of_its_own_log_is_replayed_as_it_was_meant(world: World) -> None:
    if world.server.settings.kind == "mysql":
        return
    base = world.backup()
    with world.session() as session:
        said(session, *UNREADABLE)
        wanted = [said(session, each) for each in DICTIONARY]
    world.restore(base, world.backup())
    with world.recovered() as session:
        assert [said(session, each) for each in DICTIONARY] == wanted
    assert ("last", "id") in [row[:2] for row in wanted[0]]


@pytest.mark.parametrize("later", [False, True])
def test_a_table_that_takes_no_lower_number_is_filled_in_order(flavour: str, *, later: bool) -> None:
    """ARCHIVE, of which the MariaDB here has no library; `later`: it is made after the base."""
    if flavour.startswith("mariadb"):
        return
    making = "CREATE TABLE shop.kept (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE = 'Archive'"
    with made_world(flavour) as world, world.session() as root:
        if not later:
            said(root, making)
        base = world.backup()
        if later:
            said(root, making)
        said(root, *(f"INSERT INTO shop.kept (v) VALUES ({number})" for number in range(400)))
        wanted = said(root, "SELECT COUNT(*), SUM(id * v) FROM shop.kept")
        world.restore(base, world.backup())
        with world.recovered() as session:
            assert said(session, "SELECT COUNT(*), SUM(id * v) FROM shop.kept") == wanted
        assert wanted[0][0] == 400


def test_a_statement_that_no_mysql_reads_is_told_of_before(flavour: str) -> None:
    """A procedure's variable in UTF-16, and what is made in UTF-8 of a session that is not in it."""
    if flavour.startswith("mariadb"):
        return
    named = "CREATE TABLE shop.named (`\u00fc` VARCHAR(9) DEFAULT '\u00e4')"
    routine = (
        "CREATE PROCEDURE shop.p() BEGIN DECLARE v CHAR(3) CHARACTER SET utf16 DEFAULT 'abc'; "
        "INSERT INTO shop.u VALUES (v); END"
    )
    with made_world(flavour) as world, world.session() as root:
        said(root, named, "CREATE TABLE shop.u (a VARCHAR(9))", routine)
        bases = [world.backup()]
        said(root, "SET NAMES latin1", "CREATE TABLE shop.made SELECT * FROM shop.named")
        bases.append(world.backup())
        said(root, "SET binlog_format = STATEMENT", "CALL shop.p()")
        log = world.backup()
        stopped = [world.examine(base, log).stopped for base in bases]
    assert [stop.why[:37] for stop in stopped if stop] == [
        "the server wrote it in UTF-8 and mark",
        "the server wrote a variable in UTF-16",
    ]
