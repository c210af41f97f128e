"""A snapshot of a real MySQL is broken at every command: the next one is as if nothing had been."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.breaking import WAYS, Way
from tests.faults.holding import House, least_commands
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import Pool


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    settings = Settings(
        flavour="mysql-9.7",
        datadir=pool.data.mountpoint / "data",
        binlog_dir=pool.log.mountpoint / "log",
        run_dir=pool.home / "db",
    )
    with DatabaseServer(settings) as server:
        yield House(pool, server)


@pytest.mark.parametrize("way", WAYS)
def test_the_next_snapshot_is_as_if_nothing_had_been(house: House, way: Way, tmp_path: Path) -> None:
    assert house.break_every_one(way, tmp_path) >= least_commands(way)
