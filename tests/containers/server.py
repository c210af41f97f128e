"""A database server in a container, its files on this machine, its port on the loopback interface."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pymysql.connections
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.lab.mysql_fixture import DatabaseServer, ServerFailed, Settings
from tests.lab.servers.accounts import APP_PASSWORD, APP_USER, ZBACKUP_PASSWORD, ZBACKUP_USER
from tests.lab.servers.templates import DAEMON
from zbackup.config.lock import Lock
from zbackup.config.tls import Tls
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.options import ConnectOptions

_PORT = 3306
_START_LIMIT_S = 60.0

# To a server in a container nobody comes from localhost.
_ACCOUNT = f"RENAME USER '{ZBACKUP_USER}'@'localhost' TO '{ZBACKUP_USER}'@'%';\n"
_LOOPBACK_ONLY = {"com.docker.network.bridge.host_binding_ipv4": "127.0.0.1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerServer:
    """A running server, reached by TCP alone. `port` is this machine's."""

    settings: Settings
    port: int

    def connect(self) -> "pymysql.connections.Connection[Any]":
        """A new autocommit connection of the application's."""
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=APP_USER, password=APP_PASSWORD, autocommit=True
        )

    def engine(self, *, password: str = ZBACKUP_PASSWORD, tls: Tls | None = None) -> MysqlEngine:
        """zbackup's engine, as it is set up for a server that is reached by TCP."""
        return MysqlEngine(
            instance="contained",
            connect=ConnectOptions(port=self.port, user=ZBACKUP_USER, password=lambda: password, tls=tls),
            lock=Lock.model_construct(wait=5, hold=5),
            run_dir=self.settings.run_dir,
        )


@contextmanager
def running(image: str, flavour: str, home: Path) -> Iterator[ContainerServer]:
    """Start a server of `image` on a copy of the lab's data directory below `home`, and remove it afterwards.

    `home` is at the same place inside, so that what the server says of its files is true outside too.
    Raise ServerFailed.
    """
    settings = Settings(
        flavour=flavour,
        datadir=home / "data",
        run_dir=home / "run",
        port=_PORT,
        # Without the last, a login waits for the name of an address that has none.
        options=("--bind-address=0.0.0.0", f"--init-file={home / 'run' / 'init.sql'}", "--skip-name-resolve"),
    )
    settings.run_dir.mkdir(parents=True)
    (settings.run_dir / "init.sql").write_text(_ACCOUNT)
    files = DatabaseServer(settings)
    files.prepare()
    owner = settings.datadir.stat()
    with Network(docker_network_kw={"options": _LOOPBACK_ONLY}) as network:
        container = (
            DockerContainer(image, network=network)
            .with_kwargs(entrypoint=[DAEMON[settings.kind]], user=f"{owner.st_uid}:{owner.st_gid}")
            .with_command(settings.arguments())
            .with_volume_mapping(home, str(home), "rw")
            .with_exposed_ports(_PORT)
        )
        with container:
            server = ContainerServer(settings=settings, port=container.get_exposed_port(_PORT))
            _await_answer(server, container, files)
            yield server


def _await_answer(server: ContainerServer, container: DockerContainer, files: DatabaseServer) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        container.reload()
        try:
            server.connect().close()
        except pymysql.err.OperationalError as refused:
            reason = str(refused)
        else:
            return
        if container.status == "exited":
            reason = "it ended"
            break
        time.sleep(0.2)
    output = b"".join(container.get_logs()).decode(errors="replace")
    raise ServerFailed(f"{server.settings.flavour} does not answer: {reason}\n{output}\n{files.last_lines()}")
