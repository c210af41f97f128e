"""The contents of the disk that outlives the power: a pool, a server on it, and zbackup set up for it."""

import os
from pathlib import Path

from tests.lab.pool import Dataset, Pool, run
from tests.lab.variants import Variant
from tests.system.house import House, build

NAME = "cut"
HOME = Path("/tmp/cut")
"""In the guest's memory, as /run is: empty after the boot."""
DATA, LOG = f"{NAME}/my db", f"{NAME}/my db/bin log"


def open_stage(flavour: str) -> House:
    """Import the pool from the guest's disk, or make it at first. The server is not started.

    Raise PoolError when the pool does not import, AssertionError when it lost something.
    """
    disk = os.environ["LAB_DISKS"]
    root = HOME / "pool"
    HOME.mkdir()
    HOME.chmod(0o755)
    if _is_new(disk):
        run(
            "zpool",
            "create",
            "-o",
            "cachefile=none",
            "-o",
            "ashift=12",
            "-O",
            f"mountpoint={root}",
            NAME,
            disk,
        )
        run("zfs", "create", DATA)
        run("zfs", "create", LOG)
    else:
        # Without -d the search for pools hangs in a guest.
        run("zpool", "import", "-d", disk, "-o", "cachefile=none", NAME)
        assert "No known data errors" in run("zpool", "status", NAME)
    pool = Pool(name=NAME, root_mountpoint=root, vdev=disk, home=HOME)
    for name in (DATA, LOG):
        where = Path(run("zfs", "get", "-Hpo", "value", "mountpoint", name).strip())
        pool.datasets[name.removeprefix(f"{NAME}/")] = Dataset(name=name, mountpoint=where)
    server = build(pool, HOME, Variant(flavour=flavour), pool.data, pool.log)
    server.settings.run_dir.mkdir()
    os.chown(server.settings.run_dir, 27, 27)
    return House(pool, HOME, server, (DATA,))


def _is_new(disk: str) -> bool:
    """Whether nothing has ever been written to the disk."""
    with Path(disk).open("rb") as file:
        return not any(file.read(1 << 20))
