"""The stage of the demonstration: a pool, a seeded server on it, and zbackup run as a user would."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import Pool, create_pool
from tests.lab.servers.accounts import ZBACKUP_PASSWORD
from tests.lab.servers.templates import DAEMON
from tests.lab.trusted import trusted
from zbackup.engines.mysql.production.account import grants

CLONE = "before-drop"
CONFIG = """\
timezone = "Europe/Berlin"
run_dir = "{home}/zbackup"

[instance.shop]
engine = "{kind}"
datasets = ["{dataset}"]
socket = "{socket}"
password = {{ file = "{home}/password" }}
lock = "{lock}"

[instance.shop.copy_back]
user = "copier"
password = {{ file = "{home}/password" }}

[instance.shop.recovery]
mountpoint = "{home}/clones"
server = "{program}"
"""


class NotProven(Exception):
    """Something is not as it must be; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zbackup:
    """zbackup on a pool, run as a user would, with the configuration in the pool's home."""

    pool: Pool

    @property
    def home(self) -> Path:
        return self.pool.home

    def zbackup(self, *arguments: str) -> None:
        """Run zbackup as a user would, output shown. Raises NotProven when it fails."""
        say(f"\n$ {shlex.join(('zbackup', *arguments))}")
        began = time.monotonic()
        status = subprocess.run(self._argv(arguments), env=self._environment(), check=False).returncode
        say(f"  ({time.monotonic() - began:.1f} s)")
        if status != 0:
            raise NotProven(f"zbackup {arguments[0]} ended with {status}")

    def ask(self, *arguments: str) -> Any:
        """What `zbackup ... --json` answers."""
        done = subprocess.run(
            self._argv((*arguments, "--json")), env=self._environment(), capture_output=True, check=False
        )
        if done.returncode != 0:
            raise NotProven(f"zbackup {arguments[0]} --json ended with {done.returncode}")
        return json.loads(done.stdout)["data"]

    def _argv(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "zbackup", *arguments]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "ZBACKUP_CONFIG": str(self.home / "zbackup.toml")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Zbackup):
    """What the story is told with: a pool, a server on it, and a configuration for zbackup."""

    server: DatabaseServer

    @property
    def kind(self) -> str:
        return self.server.settings.kind

    @property
    def programs(self) -> Path:
        """Directory of the server's programs."""
        return servers.path(self.server.settings.flavour) / "bin"

    @property
    def clone_socket(self) -> Path:
        return self.home / "zbackup" / CLONE / "mysqld.sock"

    def configure(self, lock: str) -> None:
        """Write zbackup's configuration."""
        text = CONFIG.format(
            home=self.home,
            kind=self.kind,
            dataset=self.pool.data.name,
            socket=self.server.settings.socket,
            lock=lock,
            program=trusted(self.programs / DAEMON[self.kind]),
        )
        (self.home / "zbackup.toml").write_text(text)


def say(text: str = "") -> None:
    print(text, flush=True)


@contextmanager
def stage(flavour: str, options: tuple[str, ...] = ()) -> Iterator[Stage]:
    """A pool of its own, a seeded server on it with these options, all gone afterwards."""
    pool = create_pool()
    data, log = pool.data, pool.log
    server = DatabaseServer(
        Settings(
            flavour=flavour,
            datadir=data.mountpoint / "data",
            binlog_dir=log.mountpoint,
            run_dir=pool.home / "run",
            options=options,
        )
    )
    made = Stage(pool=pool, server=server)
    secret = made.home / "password"
    secret.touch(mode=0o600)
    secret.write_text(ZBACKUP_PASSWORD)
    made.configure("auto")
    try:
        with server:
            server.sql(f"CREATE USER copier@localhost IDENTIFIED BY '{ZBACKUP_PASSWORD}'")
            server.sql(grants("copier@localhost", "shop").rstrip(";"))
            say(f"{flavour} runs on the datasets {data.name!r} and {log.name!r}")
            yield made
    finally:
        pool.destroy()
