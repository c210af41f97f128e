"""Every command of a restore fails, also the questions: nothing is left, or the next one copes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.recovery import LEAST_COMMANDS, House, prepare
from tests.lab.pool import Pool

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    yield from prepare(pool)


def test_failing_without_effect(house: House, tmp_path: Path) -> None:
    assert house.break_every_one(["fails"], tmp_path / "child", questions=True) >= LEAST_COMMANDS
