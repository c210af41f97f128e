"""A server's user, or who ships backups, puts a program where zbackup, as root, would find and run it.

Each attacker's program notes who ran it. Whatever zbackup was asked to do, nobody may have.
"""

import json
import mmap
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab import servers
from tests.lab.mongo_fixture import MongoSettings, start_single
from tests.lab.pool import Pool, run
from tests.lab.server_user import as_server_user, give_away
from tests.lab.servers.templates import DAEMON, KINDS
from tests.lab.servers.wrappers import loader
from tests.lab.trusted import trusted
from tests.lab.variants import Variant
from tests.system.conftest import end_clones
from tests.system.house import House, Zbackup, build, wait_until
from tests.system.mongo_house import MongoHouse
from zbackup.plan.clones.clone_name import drill_names

SECRETS = {"AWS_SECRET_ACCESS_KEY": "not-for-servers", "SHOP_PASSWORD": "not-for-servers"}
SYSTEM = Path("/usr/local/sbin")
DRILL = drill_names("shop")[0]
HINT = {"mysql": "mysqld", "mariadb": "mysqld", "mongodb": "mongod"}
SAYS = {"mysql": "mysqld  Ver {}", "mariadb": "mariadbd  Ver {}", "mongodb": "db version v{}"}

PLANTED = """#!/bin/sh
echo "$(id -u) $0 $*" >> {trace}
case "$*" in *--version*) echo '{says}' ;; *) exec {real} "$@" ;; esac
"""


@dataclass(frozen=True, kw_only=True)
class Victim:
    """A server with zbackup, which is told no program: it has to find one. The attacker owns `theirs`."""

    house: Zbackup
    kind: str
    real: Path
    version: str
    theirs: Path
    config: Path
    dataset: str

    @property
    def name(self) -> str:
        """What the program is called."""
        return self.real.name

    @property
    def planted(self) -> Path:
        """The attacker's program."""
        return self.theirs / self.name

    @property
    def trace(self) -> Path:
        """What it leaves when anybody runs it."""
        return self.house.home / "trace"

    def plant(self, program: Path) -> None:
        """The attacker's program there."""
        says = SAYS[self.kind].format(self.version)
        program.unlink(missing_ok=True)
        program.write_text(PLANTED.format(trace=self.trace, says=says, real=self.real))
        program.chmod(0o755)

    def plant_in_backup(self) -> None:
        """The attacker's program among the server's files, and so in a backup."""
        evil = Path(run("zfs", "get", "-Hpo", "value", "mountpoint", self.dataset).strip()) / "evil"
        evil.mkdir(exist_ok=True)
        self.plant(evil / self.name)
        self.zb("snapshot")

    def zb(self, *words: str) -> Any:
        """What zbackup answers with secrets in its environment."""
        return self.house.zb(*words, "--json", config=self.config, environment=SECRETS).data

    def recorded(self) -> dict[str, str]:
        """What the newest backup has of its server."""
        newest = self.snapshots()[-1]
        found: dict[str, str] = json.loads(run("zfs", "get", "-Hpo", "value", "zbackup:server", newest))
        return found

    def snapshots(self) -> list[str]:
        """The server's snapshots, oldest first."""
        columns = ("-Hrt", "snapshot", "-s", "createtxg", "-o", "name")
        return run("zfs", "list", *columns, self.dataset).splitlines()

    def untouched(self) -> None:
        """Nobody ran what the attacker planted."""
        assert self.trace.read_text() == ""


@contextmanager
def database(pool: Pool, flavour: str, home: Path) -> Iterator[tuple[Zbackup, str, Path]]:
    """MySQL or MariaDB, whose pid file its user has rewritten: it leads to a program of his own."""
    data = pool.dataset(f"of {flavour}")
    server = build(pool, home, Variant(flavour=flavour), data, data)
    with server:
        house = House(pool, home, server, (data.name,))
        version = str(server.sql("SELECT VERSION()")[0][0])
        theirs = server.settings.run_dir / "bin"
        theirs.mkdir()
        program = theirs / DAEMON[server.settings.kind]
        shutil.copy("/bin/sleep", program)
        give_away(theirs)
        running = subprocess.Popen([*as_server_user(), str(program), "1000"])
        exe = Path(f"/proc/{running.pid}/exe")
        wait_until("it is what it is called", lambda: exe.readlink() == program, 20)
        (server.settings.run_dir / "server.pid").write_text(f"{running.pid}\n")
        try:
            yield house, version, theirs
        finally:
            running.kill()
            running.wait()


class OfTheirs(MongoSettings):
    """A mongod that is run by a file of its user's called mongod: its dynamic loader under that name."""

    @property
    def program(self) -> Path:
        wrapper = self.run_dir / "start"
        if wrapper.exists():
            return wrapper
        home = servers.path(self.flavour)
        theirs = self.run_dir / "bin"
        theirs.mkdir(parents=True)
        shutil.copy(loader(home / "root"), theirs / "mongod")
        text = (home / "bin" / "mongod").read_text()
        wrapper.write_text(text.replace(str(loader(home / "root")), str(theirs / "mongod")))
        wrapper.chmod(0o755)
        give_away(theirs)
        return wrapper


@contextmanager
def mongod(pool: Pool, flavour: str, home: Path) -> Iterator[tuple[Zbackup, str, Path]]:
    """A mongod whose user started it by a program of his own, and exchanged that afterwards."""
    data = pool.dataset(f"of {flavour}")
    where = data.mountpoint / "data"
    settings = OfTheirs(flavour=flavour, datadir=where, run_dir=home / "m", replica_set="orders", auth=False)
    with start_single(settings) as server, server.client() as client:
        version = str(client.server_info()["version"])
        client.shop.items.insert_one({"_id": 1})
        yield MongoHouse(pool, home, server, (data.name,)), version, settings.run_dir / "bin"


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-10.11", "mongodb-6.0"])
def victim(request: pytest.FixtureRequest, pool: Pool) -> Iterator[Victim]:
    flavour = request.param
    kind = KINDS.get(flavour, "mongodb")
    home = pool.home / kind
    home.mkdir()
    home.chmod(0o755)
    with (database if kind in DAEMON else mongod)(pool, flavour, home) as (house, version, theirs):
        near = f"{pool.name}/near-{kind}"
        run("zfs", "create", "-o", "canmount=off", near)
        config = house.configure(
            "found",
            recovery={"server": None, "clones": f"{pool.name}/{kind}-clones"},
            ship=[{"name": "near", "to": f"zfs:{near}", "initial": "allow"}],
        )
        real = servers.path(flavour) / "bin" / (DAEMON.get(kind) or "mongod")
        dataset = house.datasets[0]
        made = Victim(
            house=house, kind=kind, real=real, version=version, theirs=theirs, config=config, dataset=dataset
        )
        made.trace.touch()
        made.trace.chmod(0o666)
        made.plant(made.planted)
        yield made
        end_clones(house)  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def installed(victim: Victim) -> Iterator[Path]:
    """The server program that the machine's administrator installed."""
    assert os.environ.get("LAB_INSIDE") == "guest", f"this writes to {SYSTEM}: only in the lab's guest"
    program = SYSTEM / victim.name
    program.symlink_to(trusted(victim.real))
    yield program
    program.unlink()


def test_check_runs_no_program_of_the_servers_user(victim: Victim, installed: Path) -> None:
    (checked,) = victim.zb("check")
    (found,) = (f for f in checked["findings"] if f["subject"] == "server program")
    assert (found["severity"], found["text"]) == ("ok", str(installed))
    victim.untouched()


def test_a_restore_runs_none_and_its_server_holds_no_secret(victim: Victim) -> None:
    victim.plant_in_backup()
    assert victim.recorded()[HINT[victim.kind]] == str(victim.planted), "it is there to be believed"
    victim.zb("restore", "--to", "now", "--name", "r")
    victim.untouched()
    pid = int((victim.house.home / "run" / "r.process").read_text().split()[0])
    assert not Path(f"/proc/{pid}/exe").readlink().is_relative_to(victim.theirs)
    environment = Path(f"/proc/{pid}/environ").read_text()
    assert "not-for-servers" not in environment
    # PWD is the shell's, which the lab's program is at first.
    assert {entry.partition("=")[0] for entry in environment.split("\0")} <= {"", "PATH", "TZ", "PWD"}


def test_nothing_in_a_clone_can_be_run(victim: Victim) -> None:
    """What a server's user or a shipper put there; a plugin is mapped like a program is."""
    program = victim.house.home / "clones" / "r" / "0" / "evil" / victim.name
    assert program.stat().st_mode & 0o111
    with pytest.raises(PermissionError):
        subprocess.run([str(program)], check=False)
    with program.open("rb") as file, pytest.raises(PermissionError):
        mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    clones = f"{victim.house.pool.name}/{victim.kind}-clones/r"
    parts = run("zfs", "list", "-Hro", "name", clones).splitlines()
    found = run("zfs", "get", "-Ho", "value", "exec,setuid,devices", *parts).split()
    assert len(parts) > 1 and set(found) == {"off"}
    victim.zb("clone", "destroy", "r", "--yes")


def test_a_forged_record_chooses_no_program_where_it_is_restored(victim: Victim) -> None:
    """The name of a drill is known beforehand, and so is where what was shipped will lie."""
    victim.plant_in_backup()
    victim.zb("ship")
    forged = victim.house.home / "clones" / DRILL / "0" / "evil" / victim.name
    server = json.dumps(victim.recorded() | {HINT[victim.kind]: str(forged)})
    near = f"{victim.house.pool.name}/near-{victim.kind}"
    for copy in run("zfs", "list", "-Hrt", "snapshot", "-o", "name", near).splitlines():
        run("zfs", "set", f"zbackup:server={server}", copy)
    for gone in victim.snapshots():
        run("zfs", "destroy", gone)
    victim.zb("verify", "--at", "near", "--drill")
    victim.untouched()


def test_a_configured_program_that_its_user_can_change_is_refused(victim: Victim) -> None:
    config = victim.house.configure("theirs", recovery={"server": str(victim.planted)})
    said = victim.house.zb("check", config=config)
    assert said.rc == 9 and f"{victim.planted} is not run: " in said.out, said
    victim.untouched()
