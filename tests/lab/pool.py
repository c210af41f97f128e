"""pytest fixtures: a fresh ZFS pool for every test module, with names that careless code stumbles over.

In a guest the pool lies on the guest's disk, else in a sparse file. It is destroyed by its exact name. With
`--keep-pool` or LAB_KEEP=1 the pool of a module with a failed test stays, and a line says how to look at it.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ODD_DATASET = "my db"
NESTED_DATASET = "my db/bin log"
FILE_SIZE = 4 << 30
BUSY_FOR = 10.0
"""Seconds in which a pool that is still busy is asked again to go."""

_disks_in_use: set[str] = set()
_failed_modules: set[str] = set()


class PoolError(Exception):
    """A zfs or zpool command failed; the message holds the command and what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A file system of a test's pool."""

    name: str
    mountpoint: Path


@dataclass(slots=True, kw_only=True)
class Pool:
    """A pool of its own for tests."""

    name: str
    root_mountpoint: Path
    vdev: str
    home: Path
    """Temporary directory that holds the mount point and, without a disk, the vdev."""
    datasets: dict[str, Dataset] = field(default_factory=dict)

    def dataset(self, name: str, properties: Mapping[str, str] | None = None, **more: str) -> Dataset:
        """Create the file system `name` below the pool, or hand out the one this object created before.

        Properties may be given as keywords (`recordsize="16K"`) or, with a colon in the name, as a mapping.
        """
        if name not in self.datasets:
            options = [f"-o{key}={value}" for key, value in {**(properties or {}), **more}.items()]
            run("zfs", "create", *options, f"{self.name}/{name}")
            mountpoint = Path(run("zfs", "get", "-Hpo", "value", "mountpoint", f"{self.name}/{name}").strip())
            self.datasets[name] = Dataset(name=f"{self.name}/{name}", mountpoint=mountpoint)
        return self.datasets[name]

    @property
    def data(self) -> Dataset:
        """A dataset with a space in its name, made on first use."""
        return self.dataset(ODD_DATASET)

    @property
    def log(self) -> Dataset:
        """A dataset within `data`, made on first use."""
        self.dataset(ODD_DATASET)
        return self.dataset(NESTED_DATASET)

    def export(self) -> None:
        """Let go of the pool; `bring_back` imports it again."""
        run_until_free("zpool", "export", self.name)

    def bring_back(self) -> None:
        """Import the pool again."""
        # Without -d the search for pools hangs in a guest.
        run("zpool", "import", "-d", self.vdev, "-o", "cachefile=none", self.name)

    def destroy(self) -> None:
        """Destroy exactly this pool and remove its files. Raises PoolError if it stays busy."""
        run_until_free("zpool", "destroy", "-f", self.name)
        _disks_in_use.discard(self.vdev)
        shutil.rmtree(self.home)


def run_until_free(*argv: str) -> str:
    """Run it as `run` does, again and again while a pool is busy with what has just ended."""
    until = time.monotonic() + BUSY_FOR
    while True:
        try:
            return run(*argv)
        except PoolError as failure:
            if "busy" not in str(failure) or time.monotonic() > until:
                raise
            time.sleep(0.2)


def run(*argv: str) -> str:
    """Run a zfs or zpool command and return its output; raises PoolError."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PoolError(f"{' '.join(argv)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def create_pool(**properties: str) -> Pool:
    """A fresh pool on a free disk of the lab, or in a sparse file when none is free.

    `properties` are those of the pool's root dataset. Whoever calls this calls `Pool.destroy`.
    """
    home = Path(tempfile.mkdtemp(prefix="zlab-"))
    name = f"lab.{secrets.token_hex(4)}"
    vdev = _free_disk()
    if vdev is None:
        vdev = str(home / "vdev")
        with Path(vdev).open("xb") as file:
            file.truncate(FILE_SIZE)
    root = home / "pool"
    options = [f"-O{key}={value}" for key, value in {"mountpoint": str(root), **properties}.items()]
    # -f: a disk that outlived another guest may carry a label of a pool that nobody wants any more.
    run("zpool", "create", "-f", "-o", "cachefile=none", "-o", "ashift=12", *options, name, vdev)
    home.chmod(0o755)  # servers run as users of their own
    return Pool(name=name, root_mountpoint=root, vdev=vdev, home=home)


def _free_disk() -> str | None:
    for disk in filter(None, os.environ.get("LAB_DISKS", "").split(":")):
        if disk not in _disks_in_use:
            _disks_in_use.add(disk)
            return disk
    return None


def how_to_look(pool: Pool) -> str:
    """What to type to see the pool that was kept."""
    if os.environ.get("LAB_INSIDE") == "guest":
        look = f"zpool import -d /dev/ubda -o cachefile=none {pool.name}; zfs list"
        return f"kept pool {pool.name}; with the kept disk FILE: lab run --disk FILE -- sh -c '{look}'"
    return f"kept pool {pool.name} in {pool.home}; when done: zpool destroy {pool.name}"


@pytest.fixture(scope="module")
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A fresh pool for the module."""
    made = create_pool()
    yield made
    keep = request.config.getoption("--keep-pool", default=False) or os.environ.get("LAB_KEEP") == "1"
    if keep and request.node.nodeid in _failed_modules:
        print(f"\n{how_to_look(made)}")
        run("zpool", "sync", made.name)
        return
    made.destroy()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Hook for a conftest to import."""
    parser.addoption("--keep-pool", action="store_true", help="keep the pool of a module with a failed test")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Hook for a conftest to import: remember which modules have a failed test."""
    if report.failed:
        _failed_modules.add(report.nodeid.partition("::")[0])
