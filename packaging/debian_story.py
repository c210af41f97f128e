"""From the package to a protected host on a bare Debian: debian_story.py PACKAGES WHEELS (or a PACKAGE)

In the lab's guest: puts a Debian together of the packages that lie in PACKAGES, builds zbackup's package in
it, as `make deb` does there, unless it is given, boots its systemd, lets the distribution's MariaDB and a
MySQL run on ZFS, and protects both by three commands. Of the lab are the kernel, with its OpenZFS module, and
the MySQL; all else is that Debian's own.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab import servers
from tests.lab.bare_debian import LATER
from tests.slow.init_under_systemd import in_the_guest
from tests.slow.systemd_machine import Systemd
from tests.system.house import wait_until
from tests.system.program import Result
from tests.unit.docs.typed import shell, typed

PROJECT = Path(__file__).resolve().parents[1]
ROOT = Path("/srv/debian")
CLEAN = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "HOME": "/root",
}
MYSQL = """[Service]
User=mysql
Group=mysql
RuntimeDirectory=mysqld-oracle
ExecStart=/usr/local/sbin/mysqld --no-defaults --datadir=/srv/oracle/data \\
  --socket=/run/mysqld-oracle/mysqld.sock --pid-file=/run/mysqld-oracle/mysqld.pid \\
  --port=3307 --mysqlx=OFF --server-id=7
"""
INSTALL = shell("protect-a-host.md", "apt install")
STATUS = typed("protect-a-host.md", "zbackup status")
UPGRADE = shell("upgrade.md", "apt install")
PURGE = shell("change-what-is-protected.md", "apt purge", {"apt purge": "apt purge --yes"})
BINLOG = "[mariadbd]\nlog_bin = /var/lib/mysql/binlog\n"


def main(packages: Path, made_of: Path) -> None:
    """Ends with an error when something does not succeed."""
    if not in_the_guest():
        sys.exit("this makes a machine: run it in the lab's guest")
    make_root(packages)
    say("story: the machine is made")
    built = build(made_of)
    later = [f"/later/{file.name}" for file in (ROOT / "later").iterdir()]
    enter_root()
    with booted() as machine:
        prepare(machine, later)
        began = time.monotonic()
        package = INSTALL.replace("./zbackup-pitr_*.deb", f"--yes /root/{built}")
        say(machine.done(*package.split()).out[-400:])
        say(machine.done("zbackup", "init", "--yes").out)
        say(machine.done("zbackup", *STATUS).out)
        seconds = time.monotonic() - began
        wait_until("status is ok", lambda: set(machine.health().values()) == {"ok"}, 240)
        say(f"story: protected: {', '.join(sorted(machine.health()))}")
        wait_until("the daemon has come to its drills", machine.drilled, 240)
        user = machine.done("ps", "-o", "user=", "-C", "zbackup").out.split()
        say(f"story: the daemon runs as {', '.join(sorted(set(user)))}")
        again = machine.done("zbackup", "init", "--yes")
        say("story: run again nothing is done" if " 1. " not in again.err else again.err)
        upgraded_and_removed(machine, built)
        say(f"story: {name_of_release()} in three commands, after {seconds:.0f} s")


def make_root(packages: Path) -> None:
    """A Debian of those packages: unpacked, and then installed by its own dpkg."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (ROOT / "usr" / name).mkdir(parents=True)
        (ROOT / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "run", "tmp", "mnt", "packages", "project"):
        (ROOT / name).mkdir()
    later = (packages / LATER).read_text().split()
    wanted = sorted(deb for deb in packages.rglob("*.deb") if deb.name not in later)
    for deb in wanted:
        subprocess.run(("dpkg-deb", "--extract", str(deb), str(ROOT)), check=True)
    (ROOT / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (ROOT / "usr/sbin/policy-rc.d").chmod(0o755)
    with mounted(packages, "packages"), mounted(Path("/proc"), "proc"):
        names = [f"/packages/{deb.relative_to(packages)}" for deb in wanted]
        chroot("dpkg", "--install", "--force-depends", *names)
        chroot("dpkg", "--configure", "--pending")
    (ROOT / "usr/sbin/policy-rc.d").unlink()
    (ROOT / "later").mkdir()
    for deb in packages.rglob("*.deb"):
        if deb.name in later:
            shutil.copy(deb, ROOT / "later")
    (ROOT / "usr/local/sbin/mysqld").symlink_to(servers.path("mysql-9.7") / "bin/mysqld")
    shutil.copytree(
        servers.path("mysql-9.7"), ROOT / str(servers.path("mysql-9.7")).lstrip("/"), symlinks=True
    )
    (ROOT / "etc/apt/sources.list").write_text("")
    (ROOT / "etc/hosts").write_text("127.0.0.1 localhost\n")


def build(made_of: Path) -> str:
    """`make deb`, without a network, or the package that is there already; the name of its file in /root."""
    if made_of.is_file():
        shutil.copy(made_of, ROOT / "root")
    else:
        options = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/packages"}
        with mounted(PROJECT, "project"), mounted(made_of, "packages"), mounted(Path("/proc"), "proc"):
            chroot("/usr/bin/python3", "/project/packaging/deb.py", "/root", **options)
    (built,) = (ROOT / "root").glob("zbackup-pitr_*.deb")
    return built.name


@dataclass(frozen=True, slots=True)
class Machine:
    """The Debian, running."""

    systemd: Systemd

    def run(self, *argv: str) -> Result:
        return self.systemd.inside("env", "-i", *(f"{k}={v}" for k, v in CLEAN.items()), *argv)

    def done(self, *argv: str) -> Result:
        """A command that has to succeed."""
        result = self.run(*argv)
        if result.rc != 0:
            sys.exit(f"{result}\n{self.run('journalctl', '--no-pager', '-n', '80').out}")
        return result

    def wait(self, *argv: str) -> None:
        """Until a command succeeds."""
        wait_until(" ".join(argv), lambda: self.run(*argv).rc == 0, 120)

    def health(self) -> dict[str, str]:
        said = json.loads(self.run("zbackup", "status", "--json").out)["data"]
        return {each["instance"]: each["health"] for each in said}

    def drilled(self) -> bool:
        """Tell whether the daemon's own drill of each instance has ended, or was made before and not due."""
        said = json.loads(self.run("zbackup", "status", "--json").out)["data"]
        drills = [job["last"] for each in said for job in each["jobs"] if job["job"] == "drill"]
        return len(drills) == len(said) and all(drills)


def enter_root() -> None:
    """Make the Debian the machine: the root of every process, and of the kernel, which mounts snapshots.

    What was imported before goes on; the lab's own files are below /mnt from now on.
    """
    for command in (
        "mount --make-rprivate /",
        "mount --rbind . .",
        "mount -t proc proc proc",
        "mount --rbind /sys sys",
        "mount --rbind /dev dev",
        "mount -t tmpfs -o mode=755 tmpfs run",
        "mount -t tmpfs -o mode=1777 tmpfs tmp",
    ):
        subprocess.run(command.split(), check=True, cwd=ROOT)
    os.chdir(ROOT)
    subprocess.run(("pivot_root", ".", "mnt"), check=True)
    os.chdir("/")
    os.environ["PATH"] = CLEAN["PATH"]
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
        os.environ.pop(name, None)
    subprocess.run(("mount", "--make-rshared", "/"), check=True)


@contextlib.contextmanager
def booted() -> Iterator[Machine]:
    """The machine under its own systemd; off afterwards."""
    systemd = Systemd()
    systemd.boot_bare()
    try:
        yield Machine(systemd)
    finally:
        systemd.power_off()


def prepare(machine: Machine, later: Sequence[str]) -> None:
    """The host as zbackup finds it: two servers on ZFS, each a unit."""
    Path("/dev/zfs").chmod(0o666)  # as the rules of udev that come with OpenZFS do; no udev runs here
    disk = os.environ["LAB_DISKS"].split(":")[0]
    machine.done("zpool", "create", "-o", "cachefile=none", "-O", "mountpoint=none", "tank", disk)
    for name, where in (("mariadb", "/var/lib/mysql"), ("mysql", "/srv/oracle")):
        machine.done("zfs", "create", "-o", f"mountpoint={where}", "-o", "recordsize=16K", f"tank/{name}")
    machine.done("apt-get", "install", "--yes", "--no-install-recommends", *later)
    Path("/etc/mysql/mariadb.conf.d/60-log.cnf").write_text(BINLOG)
    machine.done("systemctl", "restart", "mariadb.service")
    machine.done("chown", "mysql:mysql", "/srv/oracle")
    owner = ("setpriv", "--reuid=mysql", "--regid=mysql", "--clear-groups")
    machine.done(*owner, "mkdir", "/srv/oracle/data")
    machine.done(*owner, "mysqld", "--no-defaults", "--initialize-insecure", "--datadir=/srv/oracle/data")
    Path("/etc/systemd/system/mysql-oracle.service").write_text(MYSQL)
    machine.done("systemctl", "daemon-reload")
    machine.done("systemctl", "start", "mysql-oracle.service")
    machine.wait("test", "-S", "/run/mysqld-oracle/mysqld.sock")


def upgraded_and_removed(machine: Machine, built: str) -> None:
    """By apt, as on the pages, though to the version that is there already."""
    again = UPGRADE.replace("./dist/zbackup-pitr_*.deb", f"--yes --reinstall /root/{built}")
    say(machine.done(*again.split()).out[-400:])
    wait_until("status is ok again", lambda: set(machine.health().values()) == {"ok"}, 240)
    say(machine.done(*PURGE.split()).out[-400:])
    journal = machine.run("journalctl", "--no-pager", "-u", "zbackup.service").out
    say(f"story: {'nothing was unexpected' if 'Traceback' not in journal else journal}")
    left = machine.run("systemctl", "is-active", "zbackup.service", "mariadb.service").out.split()
    say(f"story: purged: zbackup {left[0]}, mariadb {left[1]}")


def name_of_release() -> str:
    return next(
        line.partition("=")[2].strip('"')
        for line in Path("/etc/os-release").read_text().splitlines()
        if line.startswith("PRETTY_NAME=")
    )


@contextlib.contextmanager
def mounted(what: Path, where: str) -> Iterator[None]:
    """A directory of the lab's in the Debian."""
    subprocess.run(("mount", "--rbind", str(what), str(ROOT / where)), check=True)
    try:
        yield
    finally:
        subprocess.run(("umount", "--lazy", str(ROOT / where)), check=True)


def chroot(*argv: str, **more: str) -> None:
    subprocess.run(("chroot", str(ROOT), *argv), check=True, env=CLEAN | more, stdout=subprocess.DEVNULL)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
