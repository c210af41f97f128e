"""mydumper and myloader, fetched for a comparison and installed nowhere."""

import os
from pathlib import Path

from tests.lab.apt import cache_root, download, unpack

SUITE = "bookworm"
PACKAGES = ("mydumper",)


def fetch() -> Path:
    """Return the directory with everything that the two programs need; fetched once."""
    home = cache_root() / "bench" / "mydumper"
    done = home / ".done"
    if not done.exists():
        found = download(PACKAGES, SUITE, home / "debs", home / "log", with_dependencies=True)
        unpack(found, home / "root")
        done.touch()
    return home / "root"


def environment(root: Path) -> dict[str, str]:
    """The environment in which they find their libraries, and how to log in."""
    machine = f"{os.uname().machine}-linux-gnu"
    libraries = f"{root}/usr/lib/{machine}"
    return {
        **os.environ,
        "LD_LIBRARY_PATH": f"{libraries}:{root}/lib/{machine}",
        "MARIADB_PLUGIN_DIR": f"{libraries}/libmariadb3/plugin",
    }
