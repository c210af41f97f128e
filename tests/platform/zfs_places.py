"""Places for the tests of the room zfs, and what is there seen without it."""

from collections.abc import Mapping

import pytest

from tests.lab.pool import Dataset as Place
from tests.lab.pool import Pool
from tests.lab.pool import run as tool
from zbackup.model.snapshot import Dataset, Snapshot
from zbackup.zfs.datasets import Zfs

ZFS = Zfs()
_numbers = iter(range(10**6))


@pytest.fixture
def place(pool: Pool) -> Place:
    """A fresh dataset with a space in its name."""
    return pool.dataset(f"place {next(_numbers)}")


def snapshot(dataset: Place | Dataset, name: str, **properties: str) -> Snapshot:
    """Take one with these of zbackup's properties."""
    values = {f"zbackup:{key}": value for key, value in properties.items()}
    ZFS.snapshot([f"{dataset.name}@{name}"], values, timeout=60)
    return next(s for s in ZFS.snapshots(dataset.name) if s.name == name)


def created(name: str, properties: Mapping[str, str] | None = None) -> Dataset:
    """A new file system, as it is found then."""
    ZFS.create(name, properties or {})
    return ZFS.filesystems(name)[0]


def names(root: str) -> list[str]:
    """All that is there from `root` on."""
    return tool("zfs", "list", "-Hrt", "all", "-o", "name", root).splitlines()
