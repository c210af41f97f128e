"""Tests of the whole: real ZFS, real servers, zbackup run as a program. `tests/lab/lab test tests/system`."""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.lab.pool import Pool, pool, pytest_addoption, pytest_runtest_logreport

# Before they are imported, so that what fails in them is explained as in a test.
pytest.register_assert_rewrite(
    "tests.system.house",
    "tests.system.archive_story",
    "tests.system.program",
    "tests.system.clone_story",
    "tests.system.cluster_past",
    "tests.system.clone_care_story",
    "tests.system.clone_kills_story",
    "tests.system.switch_kills",
    "tests.system.switch_pages",
    "tests.system.switch_story",
    "tests.system.daemon_story",
    "tests.system.recovered",
    "tests.system.replica_story",
    "tests.system.member_story",
    "tests.system.encryption_story",
)

from tests.lab.mysql_fixture import free_port  # noqa: E402
from tests.lab.variants import Variant  # noqa: E402
from tests.system.house import House, build  # noqa: E402
from tests.system.zfs_door import ZfsDoor  # noqa: E402

__all__ = ["pool", "pytest_addoption", "pytest_runtest_logreport"]


@pytest.fixture(scope="module")
def house(pool: Pool, variant: Variant) -> Iterator[House]:
    """A seeded server of the module's `variant` on datasets with odd names, one within the other.

    Its log's index has a name that the server does not tell as it is."""
    index = f"--log-bin-index={pool.log.mountpoint / 'log' / 'binlog.v2.index'}"
    variant = replace(variant, options=(*variant.options, index))
    server = build(pool, pool.home, variant, pool.data, pool.log)
    with server:
        house = House(pool, pool.home, server, (pool.data.name,))
        yield house
        end_clones(house)
        if house.server is not server and house.server.running:
            house.server.stop()


@pytest.fixture(scope="module")
def source(house: House, variant: Variant) -> Iterator[House]:
    """A second server on the same pool, which the one of `house` replicates."""
    home = house.home / "s"
    home.mkdir()
    data = house.pool.dataset("the source")
    with build(house.pool, home, variant, data, data, port=free_port()) as server:
        house.server.make_replica_of(server)
        yield House(house.pool, home, server, (data.name,))


@pytest.fixture
def door(house: House) -> Iterator[ZfsDoor]:
    """A fresh door before zfs."""
    home = house.home / "door"
    with contextlib.closing(ZfsDoor(home)) as door:
        yield door
    shutil.rmtree(home)


def end_clones(house: House) -> None:
    """Kill the servers of clones that failed tests left, which would keep the pool busy."""
    for file in (house.home / "run").glob("*.process"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
