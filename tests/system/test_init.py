"""`zbackup init` on a host with a server on ZFS: three words later it is protected, and a second run adds nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import servers
from tests.lab.mongo_fixture import ADMIN, ADMIN_PASSWORD, MongoServer, MongoSettings
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import Dataset, Pool
from tests.system.house import wait_until
from tests.system.program import Result

ZBACKUP = Path(sys.executable).with_name("zbackup")
CONFIG = Path("/etc/zbackup/config.toml")


@pytest.fixture(scope="module", autouse=True)
def only_in_the_guest() -> None:
    """init finds whatever runs, and writes to /etc: that is for a machine of its own."""
    if os.environ.get("LAB_INSIDE") != "guest":
        pytest.skip("this writes to /etc/zbackup: only in the lab's guest")


def zbackup(*words: str) -> Result:
    done = subprocess.run(
        (str(ZBACKUP), *words), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return Result(argv=words, rc=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture(scope="module")
def mysql(pool: Pool) -> Iterator[DatabaseServer]:
    """As a package leaves it: an administrator who is root over the socket, and no account of zbackup's."""
    data = pool.dataset("my db", recordsize="16K")
    server = DatabaseServer(
        Settings(
            flavour="mysql-9.7", datadir=data.mountpoint / "data", run_dir=pool.home / "mysql"
        )
    )
    with server:
        server.sql("DROP USER zbackup@localhost")
        yield server


def test_one_command_protects_a_mysql(pool: Pool, mysql: DatabaseServer) -> None:
    printed = zbackup("init", "--print")
    print(printed)
    assert not CONFIG.exists()
    done = zbackup("init", "--yes")
    print(done)
    assert done.rc == 0, done
