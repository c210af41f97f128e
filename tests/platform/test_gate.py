"""A database host that was stolen has its key to the host with the backups, and nothing else.

Everything here goes through a real sshd with the forced command, as whoever has the key would do it.
"""

import os
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.pool import Pool, run
from tests.lab.second_host import USER
from tests.lab.two_hosts import SAFE, TwoHosts, hosts
from tests.system.house import wait_until
from zbackup.model.record import PREFIX
from zbackup.model.shipping import COMMITTED

__all__ = ["hosts"]

REFUSED = 9


@pytest.fixture(scope="module")
def machine_log() -> Iterator[list[str]]:
    """What the machine's log is told: it listens at /dev/log, as journald does."""
    place, told = Path("/dev/log"), []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(place))
        place.chmod(0o666)

        def listen() -> None:
            while data := listener.recv(1 << 16):
                told.append(data.decode(errors="replace"))

        threading.Thread(target=listen, daemon=True).start()
        yield told
        listener.shutdown(socket.SHUT_RDWR)
    place.unlink()


@pytest.fixture(scope="module")
def committed(pool: Pool, hosts: TwoHosts) -> str:
    """A backup that arrived through the gate and was committed; the name of its snapshot there."""
    (pool.data.mountpoint / "data").write_bytes(b"precious" * 10_000)
    run("zfs", "snapshot", f"{pool.data.name}@one")
    (pool.data.mountpoint / "data").write_bytes(b"new" * 10_000)
    run("zfs", "snapshot", f"{pool.data.name}@two")
    home = f"{hosts.root}/shop"
    through(hosts, "zfs", "create", "-u", *CONTAINER, "--", home)
    done = hosts.send(f"{pool.data.name}@one", f"{home}/data", key="append-only")
    assert done.returncode == 0, done.stderr
    name = f"{home}/data@one"
    through(hosts, "zfs", "set", f"{PREFIX}version=1", f"{PREFIX}backup=b1", f"{COMMITTED}=today", name)
    return name


CONTAINER = ("-o", "canmount=off", "-o", "mountpoint=none", "-o", "readonly=on")


def through(hosts: TwoHosts, *argv: str, key: str = "append-only") -> str:
    done = hosts.ssh(*argv, key=key)
    assert done.returncode == 0, (argv, done.stderr)
    return done.stdout.decode()


def everything(hosts: TwoHosts) -> list[str]:
    """All of the second host's pool, with all that describes it."""
    columns = "name,guid,origin,mounted,userrefs"
    found = run("zfs", "list", "-Hpr", "-t", "all", "-o", columns, hosts.pool.name).splitlines()
    sources = "local,received"
    found += run(
        "zfs", "get", "-Hpr", "-s", sources, "-o", "name,property,value", "all", hosts.pool.name
    ).splitlines()
    return sorted(found)


def test_what_a_sender_needs_passes(hosts: TwoHosts, committed: str, machine_log: list[str]) -> None:
    dataset = committed.partition("@")[0]
    listed = through(
        hosts, "zfs", "list", "-Hp", "-r", "-t", "snapshot", "-o", f"name,{COMMITTED}", "--", hosts.root
    )
    assert listed == f"{committed}\ttoday\n"
    settings = "readonly,canmount,setuid,exec,devices,mounted"
    values = run("zfs", "get", "-Hpo", "value", settings, dataset).split()
    assert values == ["on", "noauto", "off", "off", "off", "no"]


def test_a_partial_receive_goes_on_or_is_given_up(pool: Pool, hosts: TwoHosts, committed: str) -> None:
    dataset = committed.partition("@")[0]
    (pool.data.mountpoint / "noise").write_bytes(os.urandom(1 << 20))
    run("zfs", "snapshot", f"{pool.data.name}@big")
    incremental = ("-i", f"{pool.data.name}@one", f"{pool.data.name}@big")
    for given_up in (True, False):
        hosts.link.cut_after(300_000)
        assert hosts.send(*incremental, dataset, key="append-only").returncode != 0
        hosts.link.mend()
        token = token_there(hosts, dataset)
        if given_up:
            through(hosts, "zfs", "receive", "-A", "--", dataset)
    assert hosts.send("-t", token, dataset, key="append-only").returncode == 0
    assert f"{dataset}@big" in run("zfs", "list", "-Ht", "snapshot", "-o", "name")


def token_there(hosts: TwoHosts, dataset: str) -> str:
    """What is left of a stream that was cut off, when the other side has noticed that it was."""
    found = ""

    def look() -> bool:
        nonlocal found
        columns = ("-Hp", "-o", "value", "receive_resume_token")
        found = through(hosts, "zfs", "get", *columns, "--", dataset).strip()
        return len(found) > 20

    wait_until("what arrived in part is kept", look, 90)
    return found


def attacks(hosts: TwoHosts, committed: str) -> list[tuple[str, ...]]:
    """One of each kind; tests/unit/plan/test_gate.py has all that could be thought of."""
    dataset = committed.partition("@")[0]
    receive = ("zfs", "receive", "-s", "-u")
    return [
        ("zfs", "destroy", committed),
        ("zfs", "destroy", "-r", hosts.root),
        ("zfs", "rollback", "-r", committed),
        ("zfs", "rename", dataset, f"{dataset}2"),
        ("zfs", "inherit", COMMITTED, committed),
        ("zfs", "set", "readonly=off", dataset),
        ("zfs", "set", f"{PREFIX}backup=b2", committed),
        ("zfs", "set", f"{PREFIX}taken=never", committed),
        ("zfs", "set", f"{PREFIX}condemned=now", committed),
        ("zfs", "send", committed),
        ("zfs", "allow", "everyone", "destroy", hosts.root),
        (*receive, "-F", *SAFE, "--", dataset),
        (*receive, *SAFE, "--", f"{hosts.root}2"),
        (*receive, *SAFE, "-o", "sharenfs=on", "--", f"{hosts.root}/new"),
        ("zpool", "destroy", "-f", hosts.pool.name),
        ("sh", "-c", "zfs destroy -r " + hosts.root),
        ("zbackup", "gate", "--root", hosts.pool.name),
    ]


def test_a_stolen_host_can_neither_destroy_nor_alter_its_backups(
    hosts: TwoHosts, committed: str, machine_log: list[str]
) -> None:
    before = everything(hosts)
    for attack in attacks(hosts, committed):
        done = hosts.ssh(*attack, key="append-only", shared=True)
        said = done.stderr.decode()
        assert done.returncode == REFUSED, (attack, done)
        assert said.startswith("zbackup: refused by the gate: ") and said.count("\n") == 1, said
    assert everything(hosts) == before
    assert any("refused by the gate" in line and "destroy" in line for line in machine_log)


def test_no_shell_can_be_had(hosts: TwoHosts, committed: str) -> None:
    before = everything(hosts)
    *options, there, _ = hosts.ssh_argv("append-only")
    for line in ([*options, there], [*options, "-tt", there], [*options, "-s", there, "sftp"]):
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
        said = b"request failed" if len(line) > len(options) + 1 else b"refused by the gate"
        assert done.returncode != 0 and said in done.stderr and not done.stdout, (line, done)
    words = hosts.ssh_argv("append-only", shared=True)
    forged = shlex.join(("zfs", "list", "--", hosts.root))
    for line in (f"{forged}; id", f"{forged}\nid", f"{forged} && id", f"{forged} `id`", f"{forged} $(id)"):
        done = subprocess.run([*words, line], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        assert done.returncode == REFUSED and USER.encode() not in done.stdout, (line, done)
    assert everything(hosts) == before


@pytest.mark.parametrize("how", [("-R",), ("-p",), ("-R", "-I", "@one")])
def test_a_package_of_streams_is_refused(
    pool: Pool, hosts: TwoHosts, committed: str, how: tuple[str, ...]
) -> None:
    """It would carry properties, and by it what is there would be renamed or promoted."""
    run("zfs", "set", "user:evil=1", pool.data.name)
    before = everything(hosts)
    done = hosts.send(*how, f"{pool.data.name}@two", f"{hosts.root}/package", key="append-only")
    assert done.returncode == REFUSED and b"package of streams" in done.stderr, done.stderr
    assert everything(hosts) == before


def test_a_volume_is_refused(pool: Pool, hosts: TwoHosts) -> None:
    run("zfs", "create", "-s", "-V", "8M", f"{pool.name}/volume")
    run("zfs", "snapshot", f"{pool.name}/volume@one")
    done = hosts.send(f"{pool.name}/volume@one", f"{hosts.root}/volume", key="append-only")
    assert done.returncode == REFUSED and b"not a file system" in done.stderr, done.stderr


def test_a_clone_is_refused(pool: Pool, hosts: TwoHosts, committed: str) -> None:
    """What it is a clone of over there, committed or not, could never be destroyed again."""
    clone = f"{pool.name}/clone"
    run("zfs", "clone", f"{pool.data.name}@one", clone)
    run("zfs", "snapshot", f"{clone}@two")
    before = everything(hosts)
    target = f"{hosts.root}/clone"
    done = hosts.send("-i", f"{pool.data.name}@one", f"{clone}@two", target, key="append-only")
    assert done.returncode == REFUSED and b"of a clone" in done.stderr, done.stderr
    assert everything(hosts) == before


def test_an_older_state_cannot_be_forced_over_a_newer(pool: Pool, hosts: TwoHosts, committed: str) -> None:
    """A stream that would go back in time, or that replaces the whole, is refused by ZFS without -F."""
    before = everything(hosts)
    dataset = committed.partition("@")[0]
    for what in ((f"{pool.data.name}@two",), ("-i", f"{pool.data.name}@one", f"{pool.data.name}@two")):
        done = hosts.send(*what, dataset, key="append-only")
        assert done.returncode not in (0, REFUSED), done.stderr
    assert everything(hosts) == before


def test_a_read_only_key_fetches_and_changes_nothing(hosts: TwoHosts, committed: str) -> None:
    before = everything(hosts)
    done = hosts.ssh("zfs", "send", "-L", "-e", "-c", "--", committed, key="read-only")
    assert done.returncode == 0 and len(done.stdout) > 1000
    token = hosts.ssh("zfs", "destroy", committed, key="read-only")
    assert token.returncode == REFUSED
    assert everything(hosts) == before


def test_a_trusted_key_destroys_one_snapshot_by_its_name(hosts: TwoHosts, committed: str) -> None:
    """Last in this module: afterwards the backup is gone."""
    assert hosts.ssh("zfs", "destroy", "-r", committed, key="trusted").returncode == REFUSED
    through(hosts, "zfs", "destroy", committed, key="trusted")
    assert committed not in run("zfs", "list", "-Ht", "snapshot", "-o", "name")
