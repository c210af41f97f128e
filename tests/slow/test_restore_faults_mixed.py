"""Every change of a restore is broken, each in another way: nothing is left, or the next one copes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.breaking import WAYS
from tests.faults.recovery import LEAST_CHANGES, House, prepare
from tests.lab.pool import Pool

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    yield from prepare(pool)


def test_the_next_restore_does_it_all(house: House, tmp_path: Path) -> None:
    assert house.break_every_one(WAYS, tmp_path / "child") >= LEAST_CHANGES
