"""A restore is broken at every change it makes, each in another way: nothing is left, or the next one copes.

Every way at every command takes longer: tests/slow/test_restore_faults_*.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.breaking import WAYS
from tests.faults.recovery import LEAST_CHANGES, House, prepare
from tests.lab.pool import Pool


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    yield from prepare(pool)


def test_unbroken_it_succeeds_and_its_clone_can_be_destroyed(house: House) -> None:
    before = house.listing()
    house.finish("unbroken")
    house.forget_log_snapshots()
    assert house.listing() == before


def test_the_next_restore_does_it_all(house: House, tmp_path: Path) -> None:
    assert house.break_every_one(WAYS, tmp_path / "child") >= LEAST_CHANGES
