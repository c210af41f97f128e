"""A snapshot of a replica, whose applier pauses for the lock, is broken at every command: it runs again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.breaking import AT_QUESTIONS, WAYS, Way
from tests.faults.holding import House, least_commands
from tests.lab.mysql_fixture import DatabaseServer, Settings, free_port
from tests.lab.pool import Pool


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    beside = pool.dataset("the source")
    home = pool.home
    with (
        DatabaseServer(
            Settings(
                flavour="mariadb-10.11",
                datadir=beside.mountpoint / "data",
                run_dir=home / "s",
                port=free_port(),
            )
        ) as source,
        DatabaseServer(
            Settings(
                flavour="mariadb-10.11",
                datadir=pool.data.mountpoint / "data",
                binlog_dir=pool.log.mountpoint / "log",
                run_dir=home / "db",
            )
        ) as server,
    ):
        server.make_replica_of(source)
        yield House(pool, server, source)


@pytest.mark.parametrize("way", WAYS)
def test_the_applier_runs_again_whatever_breaks(house: House, way: Way, tmp_path: Path) -> None:
    # The guardian's start is a command more.
    questions = way in AT_QUESTIONS
    assert (
        house.break_every_one(way, tmp_path, questions=questions) >= least_commands(questions=questions) + 1
    )
