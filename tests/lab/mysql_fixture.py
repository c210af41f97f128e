"""A real MySQL or MariaDB server for a test or a demonstration, started from a prepared data directory."""

import os
import shutil
import socket
import subprocess
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pymysql.connections

from tests.lab import servers
from tests.lab.server_user import as_server_user, give_away
from tests.lab.servers.accounts import REPLICATION_PASSWORD, REPLICATION_USER
from tests.lab.servers.templates import DAEMON, KINDS, SIZES

FLAVOURS = tuple(name for name, kind in KINDS.items() if kind in DAEMON)

_SYSTEM_SCHEMAS = "'mysql','information_schema','performance_schema','sys'"
_LAST_LINES = 15
# The performance schema has its tables, but measures nothing for them: the memory for that is touched at each
# start, 10,000 of 47,000 pages, and a page takes a guest 40 µs.
_NO_STATISTICS = (
    *(
        f"--performance-schema-{name}-size=0"
        for name in ("accounts", "hosts", "users", "session-connect-attrs")
    ),
    *(
        f"--performance-schema-events-{what}-{kept}-size=0"
        for what in ("statements", "waits", "stages", "transactions")
        for kept in ("history", "history-long")
    ),
    *(
        f"--performance-schema-max-{what}-instances=0"
        for what in ("cond", "file", "mutex", "prepared-statements", "program", "rwlock", "socket", "table")
    ),
    *(
        f"--performance-schema-max-{what}-classes=0"
        for what in ("cond", "file", "mutex", "rwlock", "socket", "stage")
    ),
    "--performance-schema-max-thread-instances=64",
    "--performance-schema-max-sql-text-length=0",
    "--performance-schema-max-index-stat=0",
    "--performance-schema-max-table-handles=0",
    "--performance-schema-max-table-lock-stat=0",
    "--performance-schema-max-metadata-locks=0",
)

Row = tuple[Any, ...]


class ServerFailed(Exception):
    """A server that did not start or stop, with the last lines of its log."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a server is to run.

    `binlog_dir` holds the binary log (the data directory does when None). `port` opens TCP on the
    loopback interface; None means socket only, which excludes being a replica's source.
    `gtid` turns GTIDs on in MySQL; MariaDB always writes them, there it decides how a replica follows.
    Without `statistics` MySQL's performance schema measures nothing, which makes its start cheaper.
    `options` are given to the server last, so they win.
    """

    flavour: str
    datadir: Path
    run_dir: Path
    binlog_dir: Path | None = None
    port: int | None = None
    gtid: bool = True
    log_replica_updates: bool = True
    server_id: int | None = None
    statistics: bool = True
    options: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """mysql or mariadb."""
        return KINDS[self.flavour]

    @property
    def socket(self) -> Path:
        """The Unix socket; `run_dir` must be short, for the whole path holds 107 bytes at most."""
        return self.run_dir / "sql.sock"

    @property
    def log(self) -> Path:
        """What the server writes about itself."""
        return self.run_dir / "server.log"

    def arguments(self) -> list[str]:
        """The server's command line, without the program."""
        number = self.server_id or (zlib.crc32(str(self.datadir).encode()) & 0x7FFFFFFF) | 1
        arguments = [
            "--no-defaults",
            f"--datadir={self.datadir}",
            f"--socket={self.socket}",
            f"--pid-file={self.run_dir / 'server.pid'}",
            f"--log-error={self.log}",
            f"--tmpdir={self.run_dir}",
            f"--log-bin={(self.binlog_dir or self.datadir) / 'binlog'}",
            f"--relay-log={self.datadir / 'relay'}",
            f"--server-id={number}",
            "--binlog-format=ROW",
            "--sync-binlog=1",
            "--innodb-flush-log-at-trx-commit=1",
            *SIZES[self.kind],
        ]
        arguments += ["--skip-networking"] if self.port is None else self._network(self.port)
        if self.kind == "mysql":
            arguments += ["--mysqlx=OFF", "--performance-schema=ON"]
            arguments += () if self.statistics else _NO_STATISTICS
            arguments += [f"--log-replica-updates={'ON' if self.log_replica_updates else 'OFF'}"]
            gtid = "ON" if self.gtid else "OFF"  # said in either case: the default depends on the version
            arguments += [f"--gtid-mode={gtid}", f"--enforce-gtid-consistency={gtid}"]
        else:
            arguments += [f"--log-slave-updates={'ON' if self.log_replica_updates else 'OFF'}"]
        return [*arguments, *self.options]

    def _network(self, port: int) -> list[str]:
        return [f"--port={port}", "--bind-address=127.0.0.1"]


class DatabaseServer:
    """One real server. Nothing runs until start(); stop() or kill() end it, also as a context manager."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "DatabaseServer":
        if not self.running:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.stop()

    @property
    def pid(self) -> int:
        """The server's process id; raises ServerFailed when it does not run."""
        if self._process is None:
            raise ServerFailed(f"{self.settings.flavour} at {self.settings.datadir} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process we started is still there."""
        return self._process is not None and self._process.poll() is None

    def prepare(self) -> None:
        """Copy the template into the data directory, which may exist but must hold no database yet.

        All files then belong to the user the server runs as, the directories included.
        """
        settings = self.settings
        if (settings.datadir / "ibdata1").exists():
            raise ServerFailed(f"{settings.datadir} holds a database already")
        for directory in self._directories():
            directory.mkdir(parents=True, exist_ok=True)
        shutil.copytree(servers.template(settings.flavour), settings.datadir, dirs_exist_ok=True)
        if os.geteuid() == 0:
            for directory in self._directories():
                give_away(directory)

    def start(self, timeout: float = 60) -> "DatabaseServer":
        """Start on the data directory, preparing it first if it holds none, and wait until it answers.

        Raises ServerFailed with the last lines of the log when that takes longer than `timeout` seconds.
        """
        settings = self.settings
        if not (settings.datadir / "ibdata1").exists():
            self.prepare()
        program = servers.path(settings.flavour) / "bin" / DAEMON[settings.kind]
        with (settings.run_dir / "output.log").open("ab") as sink:
            self._process = subprocess.Popen(
                [*as_server_user(), str(program), *settings.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd="/",
                start_new_session=True,
            )
        try:
            self._await_answer(self._process, timeout)
        except BaseException:
            # Whoever is told to end while it starts leaves no server behind.
            self.kill()
            raise
        return self

    def stop(self, timeout: float = 60) -> None:
        """Shut down cleanly; when that takes longer than `timeout` seconds, kill and raise ServerFailed."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise ServerFailed(f"no end within {timeout:g} s\n{self.last_lines()}") from late

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL) and wait until the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def connect(
        self, user: str = "root", password: str = "", **more: Any
    ) -> "pymysql.connections.Connection[Any]":
        """A new autocommit connection through the socket; `more` goes to PyMySQL."""
        options: dict[str, Any] = {
            "unix_socket": str(self.settings.socket),
            "autocommit": True,
            "connect_timeout": 10,
            # On a socket TLS protects nothing, and to read all the machine's authorities takes 25 ms of CPU.
            "ssl_disabled": True,
        }
        return pymysql.connect(user=user, password=password, **(options | more))

    def sql(self, statement: str, arguments: Sequence[object] = ()) -> list[Row]:
        """Run one statement as root on a connection of its own; returns its rows."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, arguments or None)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def tables(self) -> list[str]:
        """Every user table as schema.table, sorted."""
        rows = self.sql(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"
            f" AND TABLE_SCHEMA NOT IN ({_SYSTEM_SCHEMAS}) ORDER BY 1, 2"
        )
        return [f"{schema}.{table}" for schema, table in rows]

    def checksum(self, tables: Iterable[str] | None = None) -> dict[str, int | None]:
        """CHECKSUM TABLE by schema.table, of all user tables unless some are named; None: no such table."""
        names = self.tables() if tables is None else list(tables)
        quoted = ", ".join("`" + name.replace(".", "`.`") + "`" for name in names)
        return dict(self.sql(f"CHECKSUM TABLE {quoted}")) if names else {}

    def last_lines(self) -> str:
        """The end of the server's log, for messages."""
        lines: list[str] = []
        for log in (self.settings.run_dir / "output.log", self.settings.log):
            if log.exists():
                lines += log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join(lines)

    def make_replica_of(self, source: "DatabaseServer", *, user: str = REPLICATION_USER) -> None:
        """Follow `source` from the start of its binary log; both must have begun from the same template.

        With `gtid` by GTID, else by file and position.
        """
        if source.settings.port is None:
            raise ServerFailed("the source has no port")
        first = str(source.sql("SHOW BINARY LOGS")[0][0])
        for statement in replica_statements(self.settings, source.settings.port, user, first):
            self.sql(statement)

    def catch_up(self, source: "DatabaseServer", timeout: int = 60) -> None:
        """Wait until everything `source` has committed is applied here; raises ServerFailed if it is not."""
        mysql = self.settings.kind == "mysql"
        status = source.sql("SHOW BINARY LOG STATUS" if mysql else "SHOW BINLOG STATUS")[0]
        wait = "SOURCE_POS_WAIT" if mysql else "MASTER_POS_WAIT"
        limit, reached = time.monotonic() + timeout, None
        # NULL, and at once, where the applier does not run: it may be just about to be started again.
        while reached is None and time.monotonic() < limit:
            (reached,) = self.sql(f"SELECT {wait}(%s, %s, %s)", (status[0], status[1], timeout))[0]
            time.sleep(0.1)
        if reached is None or int(reached) < 0:
            raise ServerFailed(
                f"{status[0]}:{status[1]} was not reached within {timeout} s\n{self.last_lines()}"
            )

    def _directories(self) -> list[Path]:
        named = (self.settings.datadir, self.settings.binlog_dir, self.settings.run_dir)
        return [directory for directory in named if directory is not None]

    def _await_answer(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        limit = time.monotonic() + timeout
        while time.monotonic() < limit and process.poll() is None:
            try:
                self.connect().close()
                return
            except pymysql.err.OperationalError:
                time.sleep(0.05)
        state = "it ended" if process.poll() is not None else f"no answer within {timeout:g} s"
        self.kill()
        raise ServerFailed(f"{self.settings.flavour} did not start: {state}\n{self.last_lines()}")


def replica_statements(settings: Settings, port: int, user: str, first_log: str) -> list[str]:
    """What makes a fresh server with `settings` follow the one at `port` from its log `first_log` on."""
    if settings.kind == "mysql":
        where = (
            "SOURCE_AUTO_POSITION=1" if settings.gtid else f"SOURCE_LOG_FILE='{first_log}', SOURCE_LOG_POS=4"
        )
        return [
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port},"
            f" SOURCE_USER='{user}', SOURCE_PASSWORD='{REPLICATION_PASSWORD}', GET_SOURCE_PUBLIC_KEY=1,"
            f" SOURCE_CONNECT_RETRY=1, {where}",
            "START REPLICA",
        ]
    where = f"MASTER_LOG_FILE='{first_log}', MASTER_LOG_POS=4, MASTER_USE_GTID=no"
    if settings.gtid:
        where = "MASTER_USE_GTID=slave_pos"
    return [
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}',"
        f" MASTER_PASSWORD='{REPLICATION_PASSWORD}', MASTER_CONNECT_RETRY=1, {where}",
        "START SLAVE",
    ]


def free_port() -> int:
    """A TCP port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
