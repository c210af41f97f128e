"""`zbackup init` on a host with servers on ZFS: one command protects them, and a second run adds nothing."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from tests.lab import servers
from tests.lab.mongo_fixture import ADMIN, ADMIN_PASSWORD, MongoServer, MongoSettings, initiate
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import Pool, run
from tests.lab.s3_server import ACCESS, SECRET, client, s3_server
from tests.lab.trusted import trusted
from tests.lab.two_hosts import TwoHosts, hosts
from tests.system.forked import shared
from tests.system.house import wait_until
from tests.system.program import Result
from tests.system.terminal import converse
from tests.unit.docs.typed import shell, typed

__all__ = ["hosts"]

CONFIG = Path("/etc/zbackup/config.toml")
PASSWORD = Path("/etc/zbackup/shop.password")
INSTALLED = Path("/usr/local/bin/zbackup")
RECEIVER = "vault"


@pytest.fixture(scope="module", autouse=True)
def a_host_of_its_own() -> None:
    """init finds whatever runs and writes to /etc; programs are where a package would have them, and
    root's."""
    if os.environ.get("LAB_INSIDE") != "guest":
        pytest.skip("this writes to /etc and to /usr/local: only in the lab's guest")
    INSTALLED.write_text(f"#!{sys.executable}\nfrom zbackup.cli.start import run\n\nrun()\n")
    INSTALLED.chmod(0o755)
    for flavour, name in (("mysql-9.7", "mysqld"), ("mariadb-11.8", "mariadbd"), ("mongodb-6.0", "mongod")):
        Path("/usr/local/sbin", name).symlink_to(trusted(servers.path(flavour) / "bin" / name))


def begin(*words: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen(
        (str(INSTALLED), *words), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    )


def zbackup(*words: str) -> Result:
    """Run it without Python's start, and as one that finds itself where it is installed."""
    path = {"PATH": f"{INSTALLED.parent}:{os.environ['PATH']}"}
    rc, out, err = shared().run(words, path, 300)
    return Result(argv=words, rc=rc, out=out, err=err)


def answer(*words: str) -> Any:
    return zbackup(*words, "--json").data


@pytest.fixture(scope="module")
def mysql(pool: Pool) -> Iterator[DatabaseServer]:
    """As a package leaves it: root logs in over the socket, and zbackup has no account."""
    data = pool.dataset("shop", recordsize="16K")
    log = pool.dataset("shop/bin log")
    with DatabaseServer(
        Settings(
            flavour="mysql-9.7",
            datadir=data.mountpoint / "data",
            binlog_dir=log.mountpoint / "log",
            run_dir=pool.home / "mysql",
        )
    ) as server:
        server.sql("DROP USER zbackup@localhost")
        yield server


@pytest.fixture(scope="module")
def mariadb(pool: Pool) -> Iterator[DatabaseServer]:
    data = pool.dataset("wiki", recordsize="16K")
    with DatabaseServer(
        Settings(flavour="mariadb-11.8", datadir=data.mountpoint / "data", run_dir=pool.home / "mariadb")
    ) as server:
        server.sql("DROP USER zbackup@localhost")
        yield server


@pytest.fixture(scope="module")
def mongod(pool: Pool) -> Iterator[MongoServer]:
    there = {"tank/mongodb": f"{pool.name}/carts"}
    run(*shlex.split(shell("back-up-mongodb.md", "zfs create -o recordsize=32K", there)))
    mountpoint = Path(run("zfs", "get", "-Hpo", "value", "mountpoint", f"{pool.name}/carts").strip())
    server = MongoServer(
        MongoSettings(datadir=mountpoint / "data", run_dir=pool.home / "mongo", replica_set="rs0")
    ).start()
    try:
        initiate([server])
        forget(server)
        yield server
    finally:
        server.kill()


def killed_when(there: Callable[[], bool], *words: str) -> None:
    """Run init, and kill it as soon as something is there."""
    process = begin("init", "--yes", *words)
    until = time.monotonic() + 120
    while process.poll() is None and not there() and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def state(pool: Pool) -> list[str]:
    """What must not change by itself: everything in the pool, and all files of ours."""
    listed = run("zfs", "list", "-Hpr", "-t", "all", "-o", "name,guid,origin", pool.name).splitlines()
    files = [f"{file} {file.stat().st_mtime_ns}" for file in sorted(CONFIG.parent.rglob("*"))]
    return [*sorted(listed), *files]


def test_print_shows_the_configuration_and_writes_nothing(pool: Pool, mysql: DatabaseServer) -> None:
    before = state(pool)
    shown = zbackup(*typed("protect-a-host.md", "zbackup init --print"))
    assert "[instance.shop]" in shown.succeeded and f'"{pool.name}/shop"' in shown.out
    assert "make the account zbackup" in shown.err and "take the first backup" in shown.err
    assert state(pool) == before and not CONFIG.exists()
    assert mysql.sql("SELECT COUNT(*) FROM mysql.user WHERE User = 'zbackup'") == [(0,)]


def test_a_run_that_is_killed_is_taken_up_by_the_next(pool: Pool, mysql: DatabaseServer) -> None:
    unnamed = zbackup("init", "--yes")  # no unit of systemd says that it is anybody's service
    assert unnamed.rc == 9 and f"--instance NAME={mysql.settings.socket}" in unnamed.err, unnamed
    assert not CONFIG.parent.exists() or not PASSWORD.exists()
    words = ("--instance", f"shop={mysql.settings.socket}")
    killed_when(PASSWORD.exists, *words)
    assert not CONFIG.exists() or CONFIG.read_text().endswith("\n")
    killed_when(CONFIG.exists, *words)
    done = zbackup("init", "--yes", *words)
    assert "set up, but for the daemon: shop" in done.succeeded
    assert (CONFIG.stat().st_mode & 0o777, PASSWORD.stat().st_mode & 0o777) == (0o600, 0o600)
    password = PASSWORD.read_text().strip()
    assert password not in done.out + done.err + CONFIG.read_text()
    assert len(password) > 30


def test_it_is_ok_then_with_a_backup_and_a_drill_that_passed(mysql: DatabaseServer) -> None:
    (listed,) = answer("list")
    assert listed["instance"] == "shop" and len(listed["backups"]) >= 1
    assert any(backup["drill"] and backup["drill"]["passed"] for backup in listed["backups"])
    daemon = begin("daemon")
    try:

        def health() -> str:
            said = zbackup("status", "--json").out
            print(said)  # what it was, if it never is well
            (found,) = json.loads(said)["data"]
            return str(found["health"])

        wait_until("status is ok", lambda: health() == "ok", 60)
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)


def test_run_again_it_changes_nothing(pool: Pool, mysql: DatabaseServer) -> None:
    before, text = state(pool), CONFIG.read_bytes()
    again = zbackup("init", "--yes")
    assert "set up, but for the daemon: shop" in again.succeeded and "instance shop already" in again.err
    assert (state(pool), CONFIG.read_bytes()) == (before, text)


def test_servers_that_came_since_are_added_behind_what_is_there(
    pool: Pool, mysql: DatabaseServer, mariadb: DatabaseServer, mongod: MongoServer
) -> None:
    with CONFIG.open("a") as file:
        file.write("\n# a remark of the operator's, without a line break at its end")
    before, changed = CONFIG.read_bytes(), CONFIG.stat().st_mode
    named = (
        *("--instance", f"wiki={mariadb.settings.socket}"),
        *("--instance", f"carts=127.0.0.1:{mongod.settings.port}"),
    )
    partly = zbackup("init", "--yes", "--retention", "short", *named)
    assert partly.rc == 7, (
        partly
    )  # nobody said who administrates the mongod: it is not backed up, and that is said
    assert "wiki: backup" in partly.err and "mongosh" in partly.err and "carts.account.js" in partly.err
    assert Path("/etc/zbackup/carts.account.js").stat().st_mode & 0o077 == 0
    assert CONFIG.read_bytes().startswith(before) and CONFIG.stat().st_mode == changed
    script = Path("/etc/zbackup/carts.account.js").read_text()
    run_as_mongosh(mongod, script)
    whole = zbackup("init", "--yes", *named)
    assert "set up, but for the daemon: shop, wiki, carts" in whole.succeeded
    assert CONFIG.read_bytes().startswith(before)
    assert {each["instance"] for each in answer("list")} == {"shop", "wiki", "carts"}


def run_as_mongosh(mongod: MongoServer, script: str) -> None:
    """What mongosh does with the script: two commands of the admin database."""
    role, user = (
        json.loads(line.partition("(")[2].partition("(")[2].removesuffix(")")) for line in script.splitlines()
    )
    with mongod.client() as client:
        client.admin.command("createRole", role.pop("role"), **role)
        client.admin.command("createUser", user.pop("user"), **user)


def forget(mongod: MongoServer) -> None:
    """Drop zbackup's account and role, if they are there."""
    for command in ("dropUser", "dropRole"):
        with mongod.client() as client, contextlib.suppress(OperationFailure):
            client.admin.command(command, "zbackup")


def test_at_a_terminal_it_asks_what_it_must(
    pool: Pool, mysql: DatabaseServer, mariadb: DatabaseServer, mongod: MongoServer
) -> None:
    forget(mongod)
    other = pool.home / "asked" / "config.toml"
    answers = [
        ("Administrator of that server", ADMIN),
        ("Password: ", ADMIN_PASSWORD),
        (f"Name for the server at {mysql.settings.socket}", "-"),
        (f"Name for the server at {mariadb.settings.socket}", "-"),
        ("Name for the server at 127.0.0.1", "Big Carts"),
        ("a name is up to 40", "baskets"),
        ("Retention", "eternal"),
        ("choose one of", "short"),
        ("Copies to", ""),
        ("Do that?", "y"),
    ]
    said, status = converse(
        (str(INSTALLED), "--config", str(other), *typed("README.md", "zbackup init"), "--no-drill"),
        answers,
        within=120,
    )
    assert status == 0 and "set up, but for the daemon: baskets" in said, said
    assert ADMIN_PASSWORD not in said + other.read_text()
    assert "any moment of the last 14 days" in said  # what each policy reaches is shown
    refused, status = converse(
        (str(INSTALLED), "--config", str(pool.home / "no" / "config.toml"), "init"),
        [("Administrator", ""), *[("Name for", "-")] * 3],
        within=120,
    )
    assert status == 1 and "nothing was changed" in refused and not (pool.home / "no").exists(), refused


def test_an_administrator_of_mongodb_may_be_named(pool: Pool, mongod: MongoServer) -> None:
    login = pool.home / "admin"
    login.write_text(ADMIN_PASSWORD)
    login.chmod(0o600)
    forget(mongod)
    other = pool.home / "etc" / "config.toml"
    named = f"carts=127.0.0.1:{mongod.settings.port}"
    here = {
        "shop=/run/mysqld/mysqld.sock": named,
        "user root": f"user {ADMIN}",
        "/root/admin.password": shlex.quote(str(login)),
    }
    words = typed("protect-a-host.md", "zbackup init --yes --json", here)
    done = zbackup("--config", str(other), *words, "--no-drill")
    assert done.data["added"] == ["carts"]
    assert ADMIN_PASSWORD not in other.read_text()


def test_copies_in_a_bucket_are_set_up_with_all_that_sending_takes(pool: Pool, mysql: DatabaseServer) -> None:
    secret, etc = pool.home / "s3.secret", pool.home / "s3" / "etc"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    etc.mkdir(parents=True)
    (etc / "shop.password").write_text(PASSWORD.read_text())
    (etc / "shop.password").chmod(0o600)
    with s3_server() as server:
        client(server).create_bucket(Bucket="backups")
        at = ("--config", str(etc / "config.toml"))
        here = {
            "company-backups": "backups",
            "AKIAEXAMPLE": ACCESS,
            "/root/s3.secret": shlex.quote(str(secret)),
        }
        words = typed("protect-a-host.md", "zbackup init --copies s3", here)
        named = ("--yes", "--instance", f"shop={mysql.settings.socket}", "--no-drill")
        done = zbackup(*at, *words, *named, "--endpoint", server.endpoint)
        key = etc / "shop.key"
        assert f"Keep a copy of {key}" in done.succeeded
        assert SECRET not in done.out + done.err + (etc / "config.toml").read_text()
        secret.unlink()
        assert zbackup(*at, "ship", "shop").rc == 0
        (there,) = zbackup(*at, "list", "--at", "offsite", "--json").data
        assert there["backups"]
        again = zbackup(*at, "init", *named)
        assert again.rc == 0 and "  1. " not in again.err, again


def test_a_host_that_receives_is_made_by_one_command_and_shipped_to(
    pool: Pool, mysql: DatabaseServer, hosts: TwoHosts
) -> None:
    root = f"{hosts.pool.name}/received/db1"
    to = f"ssh://{RECEIVER}@127.0.0.1:{hosts.link.port}/{root}"
    known = " ".join((hosts.home / "host key.pub").read_text().split()[:2])
    other = pool.home / "sender" / "config.toml"
    there = {"/etc/zbackup": shlex.quote(str(other.parent))}
    run(*shlex.split(shell("set-up-accounts-and-privileges.md", "install -d", there)))
    run(*shlex.split(shell("set-up-accounts-and-privileges.md", "install -m 600", there)))
    (other.parent / "shop.password").write_text(PASSWORD.read_text())
    named = f"shop={mysql.settings.socket}"
    here = {"ssh://zrecv@backuphost/tank/backups/db1": to, "ssh-ed25519 AAAA...": known}
    words = typed("protect-a-host.md", "zbackup init --copies ssh", here)
    sent = zbackup("--config", str(other), *words, "--yes", "--instance", named, "--no-drill")
    # Nobody receives yet: that is said, with what to do there.
    assert sent.rc == 12 and "zbackup init --receive" in sent.out, sent
    (line,) = [each for each in sent.out.splitlines() if "zbackup init --receive" in each]
    there = shlex.split(line.partition("zbackup init ")[2])
    _make_receiver(there, root)
    keys = Path(f"/home/{RECEIVER}/.ssh/authorized_keys")
    assert keys.read_text().count("restrict,command=") == 1
    assert run("zfs", "get", "-Hpo", "value", "quota", root).strip() == str(1 << 30)
    config = hosts.home / "sshd_config"
    text = config.read_text().replace("AllowUsers zrecv", f"AllowUsers zrecv {RECEIVER}")
    config.write_text(text.replace("AuthorizedKeysFile", f"AuthorizedKeysFile {keys}"))
    hosts.kill_all()
    hosts.start_sshd()
    path = {**os.environ, **hosts.environment}
    shipping = (str(INSTALLED), "--config", str(other), "ship", "shop")
    shipped = subprocess.run(shipping, env=path, capture_output=True, text=True, check=False)
    assert shipped.returncode == 0, shipped
    assert "shop" in zbackup("received", root).succeeded
    # Append-only: the key that adds cannot destroy.
    key = other.parent / "offsite.sshkey"
    ssh = [*hosts.ssh_argv()]
    ssh[ssh.index(f'IdentityFile="{hosts.identity("plain")}"')] = f'IdentityFile="{key}"'
    ssh[ssh.index("zrecv@127.0.0.1")] = f"{RECEIVER}@127.0.0.1"
    stolen = shell("append-only-backup-host.md", "ssh -i stolen.key", {"tank/backups/db1": root})
    order = stolen.partition("zrecv@backuphost ")[2].split(" ")
    refused = subprocess.run([*ssh, *order], capture_output=True, text=True, check=False)
    assert refused.returncode == 9 and "refused by the gate" in refused.stderr, refused


def _make_receiver(words: list[str], root: str) -> None:
    """By the pages' lines, with the key and dataset that the sender's `init` has printed."""
    key = words[words.index("--key") + 1]
    assert words[words.index("--dataset") + 1] == root
    less = {"tank/backups/db1": root, "2T": "1G"}
    page = typed("protect-a-host.md", "zbackup init --receive", less)
    shown = zbackup(*page, "--key", key, "--user", RECEIVER, "--print")
    assert not Path(f"/home/{RECEIVER}").exists(), shown
    page = typed(
        "append-only-backup-host.md", "zbackup init --receive", less | {"ssh-ed25519 AAAA... db1": key}
    )
    for _ in range(2):
        made = zbackup(*page, "--user", RECEIVER, "--yes")
        assert f"zbackup init --copies ssh://{RECEIVER}@THIS-HOST/{root}" in made.succeeded
