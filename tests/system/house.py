"""The house of a system test: a server on a pool, and zbackup run as its users run it, as a program."""

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pymysql
import pymysql.connections

from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import Dataset, Pool, run
from tests.lab.servers.accounts import ZBACKUP_PASSWORD, ZBACKUP_USER
from tests.lab.servers.templates import DAEMON
from tests.lab.trusted import trusted
from tests.lab.variants import Variant
from tests.system.forked import Forks, shared
from tests.system.program import ANSWER_LIMIT, Result, Run, started
from tests.unit.docs.typed import typed

ZONE = ZoneInfo("Europe/Berlin")
INSTANCE = "shop"
ZBACKUP = Path(sys.executable).with_name("zbackup")

Connection = pymysql.connections.Connection


_IDENTITY = re.compile(r"[^\t]*\t(guid|origin|mounted|mountpoint|userrefs)\t|[^\t]*$")
"""Of a line of `zfs get`: its property says which dataset it is, or it is the rest of a value with lines."""


class Zbackup:
    """zbackup on a pool, with a configuration for one instance.

    `instance` is what its table says, with the `password` put into a file; `program` is the server to
    recover with. Commands go without Python's start (`forked`), at `forks` when set.
    """

    preload: tuple[str, ...] = ()
    """What its commands import only when they need it."""

    def __init__(
        self,
        pool: Pool,
        home: Path,
        datasets: tuple[str, ...],
        *,
        instance: Mapping[str, object],
        password: str,
        program: Path,
    ) -> None:
        self.pool = pool
        self.home = home
        self.datasets = datasets
        self.pools = [pool.name]
        self.clones = f"{pool.name}/zbackup"
        self.forks: Forks | None = None
        self.patience = ANSWER_LIMIT
        file = self.home / "password"
        file.write_text(password)
        file.chmod(0o600)
        self._instance = {"datasets": list(datasets), "password": {"file": str(file)}, **instance}
        self.program = trusted(program)
        self.default = self.configure("default")

    # zbackup

    def configure(
        self,
        name: str,
        *,
        run_dir: Path | None = None,
        daemon: Mapping[str, object] | None = None,
        recovery: Mapping[str, object] | None = None,
        web: Mapping[str, object] | None = None,
        **changes: object,
    ) -> Path:
        """Write a configuration: the usual one with the instance's `changes`; returns the file."""
        recovery = {"server": str(self.program), "mountpoint": str(self.home / "clones"), **(recovery or {})}
        instance = {**self._instance, **changes}
        lines = [
            f"timezone = {toml(ZONE.key)}",
            f"run_dir = {toml(str(run_dir or self.home / 'run'))}",
            f"daemon = {toml({'state_dir': str(self.home / 'state'), **(daemon or {})})}",
            f"web = {toml(web or {})}",
            f"[instance.{INSTANCE}]",
            *(f"{key} = {toml(value)}" for key, value in instance.items() if value is not None),
            f"[instance.{INSTANCE}.recovery]",
            *(f"{key} = {toml(value)}" for key, value in recovery.items() if value is not None),
        ]
        file = self.home / f"{name}.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def settle(self, **more: object) -> None:
        """From now on the instance's table says this, too."""
        self._instance |= more
        self.default = self.configure("default")

    def begin(
        self,
        *words: str,
        config: Path | None = None,
        environment: Mapping[str, str] | None = None,
        forked: bool = False,
    ) -> Run:
        """Start `zbackup WORDS`: the program, or `forked` as in `zb`."""
        argv = ("--config", str(config or self.default), *words)
        if forked:
            return Run(argv, self._server().begin(argv, environment or {}))
        return Run(argv, started((str(ZBACKUP), *argv), environment or {}))

    def zb(
        self, *words: str, config: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Result:
        """Run `zbackup WORDS` to its end."""
        argv = ("--config", str(config or self.default), *words)
        rc, out, err = self._server().run(argv, environment or {}, self.patience)
        return Result(argv=argv, rc=rc, out=out, err=err)

    def bare(self, *words: str, environment: Mapping[str, str]) -> Result:
        """Run `zbackup WORDS` on a host that has no configuration."""
        nowhere = {"ZBACKUP_CONFIG": str(self.home / "there is none.toml")}
        rc, out, err = self._server().run(words, {**environment, **nowhere}, ANSWER_LIMIT)
        return Result(argv=words, rc=rc, out=out, err=err)

    def _server(self) -> Forks:
        return self.forks or shared(*self.preload)

    def snapshot(self, config: Path | None = None) -> dict[str, Any]:
        """Take a snapshot; returns its JSON."""
        taken: dict[str, Any] = self.zb("snapshot", "--json", config=config).data[0]["snapshot"]
        return taken

    def restore(self, to: str | datetime, name: str, *words: str) -> dict[str, Any]:
        """Restore; returns the report's JSON."""
        report: dict[str, Any] = self.zb(*self.restoring(to, name, *words)).data
        return report

    def restoring(self, to: str | datetime, name: str, *words: str) -> tuple[str, ...]:
        """The words of a restore. A moment is given as people do: local time without a zone."""
        moment = to if isinstance(to, str) else local(to)
        return ("restore", "--to", moment, "--name", name, "--json", *words)

    def log(self, *words: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """What `zbackup log` shows: the transactions, and the end with what was read."""
        *shown, end = map(json.loads, self.zb("log", *words, "--json").succeeded.splitlines())
        return [line["transaction"] for line in shown], end

    def backups(self) -> list[dict[str, Any]]:
        """The backups that `zbackup list` shows."""
        listed: list[dict[str, Any]] = self.zb("list", "--json").data[0]["backups"]
        return listed

    def destroy(self, *names: str) -> None:
        """Destroy clones."""
        for name in names:
            words = typed("change-what-is-protected.md", "zbackup clone destroy NAME", {"NAME": name})
            self.zb(*words, "--yes", "--json").data  # noqa: B018  checks the exit status

    # what is there

    def state(self) -> list[str]:
        """Everything in the pools, with what identifies and describes it: equal means nothing was changed."""
        found: list[str] = []
        for pool in self.pools:
            columns = "source,property,name,value"
            lines = run("zfs", "get", "-Hpr", "-o", columns, "all", pool).splitlines()
            found += (line for line in lines if line.startswith("local\t") or _IDENTITY.match(line))
        return sorted(found)

    def names(self) -> set[str]:
        """All datasets and snapshots."""
        return set(run("zfs", "list", "-Hr", "-t", "all", "-o", "name", self.pool.name).splitlines())

    def snapshots(self) -> set[str]:
        """All snapshots."""
        return {name for name in self.names() if "@" in name}


class House(Zbackup):
    """A MySQL or MariaDB server on a pool, and zbackup for it."""

    def __init__(self, pool: Pool, home: Path, server: DatabaseServer, datasets: tuple[str, ...]) -> None:
        self.server = server
        settings = server.settings
        super().__init__(
            pool,
            home,
            datasets,
            instance={"engine": settings.kind, "socket": str(settings.socket)},
            password=ZBACKUP_PASSWORD,
            program=servers.path(settings.flavour) / "bin" / DAEMON[settings.kind],
        )

    def clone(self, report: Mapping[str, Any]) -> "Connection[Any]":
        """A connection to a recovered server, as its administrator."""
        return pymysql.connect(unix_socket=report["socket"], user="root", autocommit=True, ssl_disabled=True)

    def sessions(self) -> list[int]:
        """zbackup's sessions on the server."""
        found = self.server.sql(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s", (ZBACKUP_USER,)
        )
        return [int(row[0]) for row in found]


def local(moment: datetime) -> str:
    """A moment as a person in the configured zone would write it."""
    return moment.astimezone(ZONE).replace(tzinfo=None).isoformat(" ")


def utc(text: str) -> datetime:
    """A time in zbackup's JSON."""
    return datetime.fromisoformat(text)


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def next_second() -> datetime:
    """Wait until a second has begun; returns its start. A log that knows whole seconds can be cut there."""
    wanted = now().replace(microsecond=0) + timedelta(seconds=1)
    while (left := (wanted - now()).total_seconds()) > 0:
        time.sleep(left)
    return wanted


def checksums(connection: "Connection[Any]", tables: list[str]) -> dict[str, int | None]:
    """CHECKSUM TABLE by schema.table; None where there is no such table."""
    quoted = ", ".join("`" + name.replace(".", "`.`") + "`" for name in tables)
    with connection.cursor() as cursor:
        cursor.execute(f"CHECKSUM TABLE {quoted}")
        return dict(cursor.fetchall())


def after_writing(journal: Path, transactions: int, within: float = 60) -> datetime:
    """Wait until a load has written so many more; returns that moment. Fails after `within` seconds."""
    wanted = journal.read_bytes().count(b"\n") + transactions
    wait_until("the load goes on", lambda: journal.read_bytes().count(b"\n") >= wanted, within)
    return now()


def wait_until(what: str, condition: Callable[[], bool], within: float) -> float:
    """Wait for a condition; returns the seconds that took, and fails when it takes longer than `within`."""
    began = asked = time.monotonic()
    while not condition():
        answered = time.monotonic()
        assert answered - began < within, f"not within {within:g} s: {what}"
        # Whoever asks zfs or a server all the time takes the CPU from what is waited for.
        time.sleep(max(0.05, min(2.0, 5 * (answered - asked))))
        asked = time.monotonic()
    return time.monotonic() - began


def build(
    pool: Pool, home: Path, variant: Variant, data: Dataset, log: Dataset, **more: Any
) -> DatabaseServer:
    """A server, not started: its data in a directory of `data`, its binlog in one of `log`."""
    return DatabaseServer(
        Settings(
            flavour=variant.flavour,
            gtid=variant.gtid,
            datadir=data.mountpoint / "data",
            binlog_dir=log.mountpoint / "log",
            run_dir=home / "server",
            statistics=False,
            options=variant.options,
            **more,
        )
    )


def toml(value: object) -> str:
    """A value as TOML. JSON's strings and numbers are TOML's too."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value)
