"""The tools that people ship snapshots with today, fetched for a comparison and installed nowhere."""

import subprocess
import sys
from pathlib import Path

from tests.lab.apt import cache_root, download, unpack

PACKAGES = ("sanoid", "libconfig-inifiles-perl", "libcapture-tiny-perl")
SUITE = "bookworm"
WHEEL = "zfs-autobackup==3.3"


def fetch() -> Path:
    """The directory with both; fetched once."""
    home = cache_root() / "bench" / "shippers"
    done = home / ".done"
    if not done.exists():
        log = home / "log"
        unpack(download(PACKAGES, SUITE, home / "debs", log), home / "root")
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([*pip, "--target", str(home / "python"), WHEEL], check=True)
        done.touch()
    return home


if __name__ == "__main__":
    print(fetch())
