"""A restore is interrupted (SIGINT) at every command: nothing is left, or the next one copes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.recovery import LEAST_CHANGES, LEAST_COMMANDS, House, prepare
from tests.lab.pool import Pool

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    yield from prepare(pool)


def test_interrupted_before(house: House, tmp_path: Path) -> None:
    assert house.break_every_one(["interrupted before"], tmp_path / "child", questions=True) >= LEAST_COMMANDS


def test_interrupted_after(house: House, tmp_path: Path) -> None:
    assert house.break_every_one(["interrupted after"], tmp_path / "child") >= LEAST_CHANGES
