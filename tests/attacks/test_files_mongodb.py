"""Attacks by owners of directories during restores of MongoDB."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.file_attacks import FileAttacks
from tests.lab.mongo_fixture import start_single
from tests.lab.pool import Pool
from tests.system.conftest import end_clones
from tests.system.house import Zbackup
from tests.system.mongo_house import MongoHouse, build


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with start_single(build(pool, pool.home, replica_set="rs0")) as server:
        house = MongoHouse(pool, pool.home, server, (pool.data.name,))
        yield house
        end_clones(house)  # type: ignore[arg-type]


def pid_file(house: Zbackup) -> Path:
    return house.pool.data.mountpoint / "data" / "mongod.lock"


class TestFiles(FileAttacks):
    pid_file = pid_file
