"""zbackup killed 50 times alone and 50 times with its process group while it holds a mongod's lock."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.lab.mongo_fixture import start_single
from tests.lab.pool import Pool
from tests.system.mongo_house import MongoHouse, build
from tests.system.mongo_kills import kill_under_the_lock
from tests.system.zfs_door import ZfsDoor

KILLS = 50


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with start_single(build(pool, pool.home, replica_set="rs0")) as server:
        yield MongoHouse(pool, pool.home, server, (pool.data.name,))


@pytest.mark.parametrize("group", [False, True], ids=["alone", "with its group"])
@pytest.mark.parametrize("time", range(KILLS))
def test_killed_under_the_lock_others_go_on(
    house: MongoHouse, tmp_path: Path, group: bool, time: int
) -> None:
    with closing(ZfsDoor(tmp_path / "door")) as door:
        stood = kill_under_the_lock(house, door, house.home / "journal", group=group)
    print(f"writers went on after {stood:.1f} s")
