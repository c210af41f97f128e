"""The few packages that must really be installed on this machine before the guest can be built."""

import os
from pathlib import Path

from tests.lab import apt
from tests.lab.progress import StepFailed, logged, say
from tests.lab.recipe import BUILD_NEEDS


def missing() -> list[str]:
    """Packages that building needs and this machine lacks."""
    return [name for name, proof in BUILD_NEEDS.items() if not Path(proof).exists()]


def install_command(packages: list[str]) -> str:
    """What to type to install them."""
    return f"sudo apt-get install --yes {' '.join(packages)}"


def ensure(log: Path) -> None:
    """Install what is missing if we are root; else raise StepFailed with the command to type."""
    packages = missing()
    if not packages:
        return
    if os.geteuid() != 0:
        raise StepFailed(f"to build the guest, install first: {install_command(packages)}")
    say(f"installing {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    # Two apt-get at once would fail on dpkg's lock: wait for the other one instead.
    install[1:1] = ["-o", "DPkg::Lock::Timeout=300"]
    with apt.locked(apt.cache_root() / "host-packages.lock"):
        # The machine's package lists may be empty, or name versions that the mirror no longer has.
        logged("apt-get update", ["apt-get", "-q", "update"], cwd=Path("/"), log=log, environment=environment)
        logged("apt-get install", install, cwd=Path("/"), log=log, environment=environment)
    still = missing()
    if still:
        raise StepFailed(f"still missing after the installation: {' '.join(still)} (see {log})")
