"""A replay gives what production had, whatever its settings and sessions were: real servers, from copies.

Needs root and no ZFS; run with pytest by name.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.lab import servers
from tests.lab.lock_holder import engine
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.servers.templates import DAEMON
from tests.unit.engines.mysql.applying import Notes
from zbackup.config.lock import Lock
from zbackup.config.recovery import Recovery as RecoveryTable
from zbackup.engines.mysql.recovery.log_reader import MysqlLogReader
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.model.backup import BackupFiles
from zbackup.model.record import Record
from zbackup.model.recovery import Files, Recovered, ReplayRange, Serving, process_note
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

    def _clone(self, backup: Backup) -> Files:
        record, copy = backup
        self.count += 1
        home = self.home / f"clone{self.count}"
        subprocess.run(["cp", "-a", str(copy), str(home)], check=True)
        run = self.home / f"r{self.count}"
        return Files(record=record, where=self._where(home), home=home, run=run, hide=())

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


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> str:
    servers.ensure([request.param])
    return str(request.param)


@pytest.fixture
def world(flavour: str, request: pytest.FixtureRequest) -> Iterator[World]:
    home = Path(tempfile.mkdtemp(prefix="zr", dir="/tmp"))
    home.chmod(0o755)
    made = World(flavour, home, *getattr(request, "param", ()))
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
    assert "default_storage_engine was InnoDB and later MyISAM" in done.other_settings
