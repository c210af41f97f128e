"""The parts of a bare Debian, fetched into the lab's cache: packages of one release, with a MariaDB, and the
wheels that zbackup's own package is built of there. Needs the network, and no root."""

import subprocess
import sys
from pathlib import Path

from tests.lab import apt

PROJECT = Path(__file__).resolve().parents[2]
ESSENTIAL = (
    *(
        "base-files",
        "base-passwd",
        "bash",
        "bsdutils",
        "coreutils",
        "dash",
        "debianutils",
        "diffutils",
        "dpkg",
    ),
    *("findutils", "grep", "gzip", "hostname", "init-system-helpers", "libc-bin", "login", "mawk", "mount"),
    *("ncurses-base", "ncurses-bin", "perl-base", "sed", "sysvinit-utils", "tar", "util-linux"),
)
SYSTEM = (
    *("passwd", "apt", "systemd", "systemd-sysv", "adduser", "procps", "tzdata", "openssh-client"),
    *("python3", "python3-venv"),
)
SERVER = "mariadb-server"
LATER = "later"
"""File with the names of the packages that are for the machine when it runs: the server's."""
ZFS = ("zfsutils-linux", "libzfs6linux", "libzpool6linux", "libnvpair3linux", "libuutil3linux")
RELEASES = {
    "bookworm": ("3.11", "bookworm-backports", ("libcurl4", "libssl3", "libtirpc3")),
    "trixie": ("3.13", "trixie", ("libcurl4t64", "libssl3t64", "libtirpc3t64")),
}
"""Of each release its Python, the suite with the OpenZFS that the lab's kernel has, and what that needs."""


def fetch(release: str) -> tuple[Path, Path]:
    """The directories with the packages and with the wheels. Raise AptFailed, CalledProcessError."""
    python, zfs, needed = RELEASES[release]
    home = apt.cache_root() / "debian" / release
    packages, log = home / "packages", home / "log"
    names, into = [*ESSENTIAL, *SYSTEM, *needed], packages / "system"
    base = apt.download(names, release, into, log, with_dependencies=True)
    wanted = apt.download([*names, SERVER], release, into, log, with_dependencies=True)
    (packages / LATER).write_text("".join(f"{deb.name}\n" for deb in sorted({*wanted} - {*base})))
    wanted += apt.download(ZFS, zfs, packages / "zfs", log)
    for outdated in set(packages.rglob("*.deb")) - set(wanted):
        outdated.unlink()
    wheels = home / "wheels"
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    lock = ("--require-hashes", "-r", str(PROJECT / "requirements-install.lock"), "--dest", str(wheels))
    kinds = (
        "manylinux2014_x86_64",
        "manylinux_2_17_x86_64",
        "manylinux_2_28_x86_64",
        "manylinux_2_34_x86_64",
    )
    for_it = ("--only-binary=:all:", "--implementation=cp", f"--python-version={python}")
    subprocess.run((*pip, *lock, *for_it, *(f"--platform={kind}" for kind in kinds)), check=True)
    return packages, wheels
