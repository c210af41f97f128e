"""Real mongod servers for a test: standalone, or members of a replica set, each on a directory of its own."""

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from tests.lab import servers
from tests.lab.mysql_fixture import ServerFailed
from tests.lab.server_user import SERVER_UID, as_server_user, give_away
from zbackup.engines.mongodb.server.privileges import ROLE, role_document

FLAVOURS = ("mongodb-6.0", "mongodb-6.0.27")

ADMIN, ADMIN_PASSWORD = "root", "root-secret"
APP_USER, APP_PASSWORD = "app", "app-secret"
ZBACKUP_USER, ZBACKUP_PASSWORD = "zbackup", "zb-secret"

# What the databases that everybody has hold differs between servers with the same data.
OWN_DATABASES = ("local", "config")

_LAST_LINES = 15
_ALREADY_INITIALISED = 23

Client = pymongo.MongoClient[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class MongoSettings:
    """How a mongod is to run.

    `replica_set` "" means standalone. `auth` asks for logins, also among the members (one key for all);
    without it everybody may do everything. `oplog_mib` is how large the oplog may grow.
    `journal_mb` is how large each file of the journal is made, 0: as mongod does, 100. Each start reads the
    newest one a dozen times as a whole, though it is mostly empty.
    `options` are given to mongod last, `client` to each of our clients of it. `run_dir` must be short.
    """

    flavour: str = "mongodb-6.0"
    datadir: Path
    run_dir: Path
    port: int = field(default_factory=lambda: free_port())
    replica_set: str = ""
    auth: bool = True
    oplog_mib: int = 200
    journal_mb: int = 0
    options: tuple[str, ...] = ()
    client: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def socket(self) -> Path:
        """The Unix socket, which mongod names after its port."""
        return self.run_dir / f"mongodb-{self.port}.sock"

    @property
    def log(self) -> Path:
        """What the server writes about itself."""
        return self.run_dir / "server.log"

    @property
    def program(self) -> Path:
        """The mongod to run."""
        return servers.path(self.flavour) / "bin" / "mongod"

    def arguments(self) -> list[str]:
        """The server's command line, without the program."""
        arguments = [
            f"--dbpath={self.datadir}",
            f"--port={self.port}",
            "--bind_ip=127.0.0.1",
            f"--unixSocketPrefix={self.run_dir}",
            f"--logpath={self.log}",
            "--logappend",
            "--wiredTigerCacheSizeGB=0.25",
            "--setParameter=diagnosticDataCollectionEnabled=false",
        ]
        if self.journal_mb:
            arguments += [f"--wiredTigerEngineConfigString=log=(file_max={self.journal_mb}MB)"]
        if self.replica_set:
            arguments += [f"--replSet={self.replica_set}", f"--oplogSize={self.oplog_mib}"]
        if self.auth:
            arguments += [f"--keyFile={self.run_dir / 'key'}"] if self.replica_set else ["--auth"]
        return [*arguments, *self.options]


class MongoServer:
    """One real mongod. Nothing runs until start(); stop() or kill() end it, also as a context manager."""

    def __init__(self, settings: MongoSettings) -> None:
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "MongoServer":
        if not self.running:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.kill()

    @property
    def pid(self) -> int:
        """The server's process id; raises ServerFailed when it does not run."""
        if self._process is None:
            raise ServerFailed(f"mongod at {self.settings.datadir} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process we started is still there."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 120) -> "MongoServer":
        """Start on the data directory, made when missing, and wait until it answers. Raises ServerFailed."""
        settings = self.settings
        for directory in (settings.datadir, settings.run_dir):
            directory.mkdir(parents=True, exist_ok=True)
        key = settings.run_dir / "key"
        if settings.auth and settings.replica_set and not key.exists():
            key.write_text("bGFiIGtleSBmb3IgYWxsIG1lbWJlcnM=\n")
            key.chmod(0o400)
        for directory in (settings.datadir, settings.run_dir):
            if os.geteuid() == 0 and directory.stat().st_uid != SERVER_UID:
                give_away(directory)
        with (settings.run_dir / "output.log").open("ab") as sink:
            self._process = subprocess.Popen(
                [*as_server_user(), str(settings.program), *settings.arguments()],
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

    def client(self, user: str = ADMIN, password: str = ADMIN_PASSWORD, **more: Any) -> Client:
        """A new direct client through the socket, as an administrator; `more` goes to pymongo."""
        login = {"username": user, "password": password} if self.settings.auth and user else {}
        return connect(self.settings.socket, **login, **self.settings.client, **more)

    def last_lines(self) -> str:
        """The end of the server's log, for messages."""
        lines: list[str] = []
        for log in (self.settings.run_dir / "output.log", self.settings.log):
            if log.exists():
                lines += log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join(lines)

    def _await_answer(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        limit = time.monotonic() + timeout
        while time.monotonic() < limit and process.poll() is None:
            try:
                with self.client(user="", serverSelectionTimeoutMS=1000) as client:
                    client.admin.command("ping")
                return
            except PyMongoError:
                time.sleep(0.05)
        state = "it ended" if process.poll() is not None else f"no answer within {timeout:g} s"
        self.kill()
        raise ServerFailed(f"{self.settings.flavour} did not start: {state}\n{self.last_lines()}")


def connect(address: Path, **more: Any) -> Client:
    """A direct client through a Unix socket."""
    options: dict[str, Any] = {"directConnection": True, "serverSelectionTimeoutMS": 10_000}
    return pymongo.MongoClient(f"mongodb://{quote(str(address), safe='')}/", **(options | more))


def initiate(members: Sequence[MongoServer], settings: Mapping[int, Mapping[str, Any]] | None = None) -> None:
    """Make running servers one replica set, whose primary is the first of them; then make the accounts.

    `settings` are what members (by number) have of their own, such as {1: {"hidden": True, "priority": 0,
    "secondaryDelaySecs": 5}}. Returns when the primary takes writes and all others are secondaries.
    """
    own = settings or {}
    config = {
        "_id": members[0].settings.replica_set,
        "members": [
            {
                "_id": number,
                "host": f"127.0.0.1:{member.settings.port}",
                "priority": 2 if number == 0 else 1,
                **own.get(number, {}),
            }
            for number, member in enumerate(members)
        ],
        "settings": {"electionTimeoutMillis": 2000},
    }
    with members[0].client(user="") as client:
        try:
            client.admin.command("replSetInitiate", config)
        except OperationFailure as failed:
            if failed.code != _ALREADY_INITIALISED:
                raise
        await_primary(client)
    make_accounts(members[0])
    for member in members[1:]:
        _await(f"a secondary at {member.settings.port}", lambda m=member: _is_secondary(m), 60)


def await_primary(client: Client, timeout: float = 60) -> None:
    """Wait until this member takes writes."""
    _await("a primary", lambda: bool(client.admin.command("hello")["isWritablePrimary"]), timeout)


def make_accounts(server: MongoServer) -> None:
    """An administrator, an application's account, and zbackup's with no more than the documentation says."""
    if not server.settings.auth:
        return
    with server.client(user="") as local:
        local.admin.command("createUser", ADMIN, pwd=ADMIN_PASSWORD, roles=["root"])
    with server.client() as client:
        client.admin.command("createUser", APP_USER, pwd=APP_PASSWORD, roles=["readWriteAnyDatabase"])
        client.admin.command("createRole", ROLE, **role_document())
        client.admin.command("createUser", ZBACKUP_USER, pwd=ZBACKUP_PASSWORD, roles=[ROLE])


def start_single(settings: MongoSettings) -> MongoServer:
    """A running server with its accounts: a set of one member, or a standalone one."""
    server = MongoServer(settings).start()
    if settings.replica_set:
        initiate([server])
    else:
        make_accounts(server)
    return server


def dbhash(client: Client) -> dict[str, str]:
    """dbHash by database.collection, of everything but the databases that belong to the server itself."""
    found: dict[str, str] = {}
    for name in client.list_database_names():
        if name not in OWN_DATABASES:
            hashes = client[name].command("dbHash")["collections"]
            found |= {f"{name}.{collection}": value for collection, value in hashes.items()}
    return found


def locked(client: Client) -> bool:
    """Whether an fsyncLock holds the server."""
    return bool(client.admin.command({"currentOp": 1, "desc": "fsyncLockWorker"}).get("fsyncLock"))


def free_port() -> int:
    """A TCP port nobody listens on at the moment, and below those that outgoing connections take."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def _is_secondary(member: MongoServer) -> bool:
    with member.client(user="", serverSelectionTimeoutMS=1000) as client:
        try:
            return bool(client.admin.command("hello")["secondary"])
        except PyMongoError:
            return False


def _await(what: str, condition: Any, timeout: float) -> None:
    limit = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > limit:
            raise ServerFailed(f"not within {timeout:g} s: {what}")
        time.sleep(0.1)
