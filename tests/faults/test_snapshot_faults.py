"""A snapshot of a real MySQL is broken at every change: the next one is as if nothing had been.

Questions that get no answer are told by tests/fast, and of real servers by tests/slow/test_snapshot_faults_*.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.breaking import WAYS, Way
from tests.faults.holding import House, least_commands
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import Pool
from tests.lab.pool import run as tool
from tests.lab.repeats import some
from tests.platform.contexts import context
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.proc.run import run


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


@pytest.mark.parametrize("way", some(WAYS, "killed after"))
def test_the_next_snapshot_is_as_if_nothing_had_been(house: House, way: Way, tmp_path: Path) -> None:
    assert house.break_every_one(way, tmp_path) >= least_commands()


def test_a_lock_that_was_let_go_too_early_is_taken_once_more(house: House) -> None:
    taken: list[str] = []

    def late(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        """Another's transaction group is closed ahead of the first snapshot's, and taken for it."""
        if argv[1] == "snapshot":
            taken.append(argv[-1])
            if len(taken) == 1:
                tool("zpool", "sync", house.pool.name)
                time.sleep(0.5)
                house.write()
        return run(argv, mutates=mutates, timeout=timeout)

    before = _identities(house)
    job = context(house.pool, house.server.settings, (house.pool.data.name,), runner=late)
    report = snapshot(job)
    assert len(taken) == 2
    assert _identities(house) == [*before, report.backup.record.backup]
    house.require_nobody_waits("let go too early")
    house.require_finished_ones_are_true()


def _identities(house: House) -> list[str]:
    return [backup.record.backup for backup in house.context().catalog().backups]
