"""A host with a MariaDB on ZFS and a systemd, and nothing of zbackup's: what `zbackup init` is run on."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import Pool, create_pool
from tests.lab.reach import let_reach
from tests.lab.server_user import SERVER_UID
from tests.lab.trusted import trusted
from tests.slow.systemd_machine import ETC, Systemd
from tests.system.house import ZBACKUP, wait_until

UNIT = """[Service]
ExecStart=/usr/bin/setpriv --reuid={uid} --regid={uid} --clear-groups {argv}
"""
SERVICE = "mariadb.service"
GROUP = "mariadb"
"""Of the server's files: not the one that the units name."""
# For tests alone: the lab's zfs and Python may lie in somebody's home.
LAB = "[Service]\nProtectHome=read-only\n"


@dataclass(frozen=True, slots=True)
class Host:
    """What runs there. Commands go through `systemd`, where the processes are."""

    pool: Pool
    server: DatabaseServer
    systemd: Systemd


@contextmanager
def bare_host() -> Iterator[Host]:
    """The host, with the server running as a unit; all of it is gone afterwards."""
    let_reach(ZBACKUP, Path(sys.executable), Path(shutil.which("zfs") or "/usr/sbin/zfs"))
    drop_in = ETC / "zbackup.service.d"
    drop_in.mkdir(parents=True)
    (drop_in / "lab.conf").write_text(LAB)
    Path("/dev/zfs").chmod(0o666)  # as the rules of udev that come with OpenZFS do
    groups = Path("/etc/group")
    others = [line for line in groups.read_text().splitlines() if line.split(":")[2] != str(SERVER_UID)]
    groups.write_text("\n".join([*others, f"{GROUP}:x:{SERVER_UID}:"]) + "\n")
    Path("/usr/local/sbin/mariadbd").symlink_to(trusted(servers.path("mariadb-11.8") / "bin/mariadbd"))
    # The unit's PrivateTmp hides what is below /tmp.
    before, tempfile.tempdir = tempfile.tempdir, "/srv"
    pool = create_pool()
    tempfile.tempdir = before
    data = pool.dataset("shop", recordsize="16K", atime="off")
    settings = Settings(flavour="mariadb-11.8", datadir=data.mountpoint / "data", run_dir=pool.home / "sql")
    server = DatabaseServer(settings)
    with server:
        server.sql("DROP USER zbackup@localhost")
    pool.home.chmod(0o755)
    machine = Systemd()
    machine.boot_bare()
    try:
        argv = " ".join(f'"{word}"' for word in (_program(settings), *settings.arguments()))
        (ETC / SERVICE).write_text(UNIT.format(uid=SERVER_UID, argv=argv))
        machine.do("daemon-reload")
        machine.do("start", SERVICE)
        wait_until("the server answers", lambda: _answers(server), 60)
        yield Host(pool, server, machine)
    finally:
        machine.power_off()
        pool.destroy()


def _program(settings: Settings) -> str:
    return str(servers.path(settings.flavour) / "bin/mariadbd")


def _answers(server: DatabaseServer) -> bool:
    try:
        server.connect().close()
    except OSError:
        return False
    except Exception as failure:
        if "Can't connect" in str(failure):
            return False
        raise
    return True


def in_the_guest() -> bool:
    """Whether this is a machine of its own."""
    return os.environ.get("LAB_INSIDE") == "guest"
