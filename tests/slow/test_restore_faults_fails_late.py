"""Every change of a restore takes effect and fails: nothing is left, or the next one copes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.recovery import LEAST_CHANGES, House, prepare
from tests.lab.pool import Pool

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    yield from prepare(pool)


def test_failing_with_effect(house: House, tmp_path: Path) -> None:
    assert house.break_every_one(["fails late"], tmp_path / "child") >= LEAST_CHANGES
