"""The few packages that must really be installed on this machine: to build the guest, and a browser."""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.lab import apt
from tests.lab.progress import StepFailed, logged, say
from tests.lab.recipe import BUILD_NEEDS

BROWSER = {"chromium": "/usr/bin/chromium", "chromium-driver": "/usr/bin/chromedriver"}
"""Each with a file that shows that it is installed, as in BUILD_NEEDS."""


def missing(needs: Mapping[str, str] = BUILD_NEEDS) -> list[str]:
    """Packages that are needed and this machine lacks."""
    return [name for name, proof in needs.items() if not Path(proof).exists()]


def install_command(packages: list[str]) -> str:
    """What to type to install them."""
    return f"sudo apt-get install --yes {' '.join(packages)}"


def ensure(log: Path, needs: Mapping[str, str] = BUILD_NEEDS) -> None:
    """Install what is missing if we are root; else raise StepFailed with the command to type."""
    packages = missing(needs)
    if not packages:
        return
    if os.geteuid() != 0:
        raise StepFailed(f"install first: {install_command(packages)}")
    say(f"installing {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    # Two apt-get at once would fail on dpkg's lock: wait for the other one instead.
    install[1:1] = ["-o", "DPkg::Lock::Timeout=300"]
    with apt.locked(apt.cache_root() / "host-packages.lock"):
        # The machine's package lists may be empty, or name versions that the mirror no longer has.
        logged("apt-get update", ["apt-get", "-q", "update"], cwd=Path("/"), log=log, environment=environment)
        logged("apt-get install", install, cwd=Path("/"), log=log, environment=environment)
    still = missing(needs)
    if still:
        raise StepFailed(f"still missing after the installation: {' '.join(still)} (see {log})")
