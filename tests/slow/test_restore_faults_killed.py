"""A restore is killed (SIGKILL) at every change: the next one of that name succeeds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.recovery import LEAST_CHANGES, House, prepare
from tests.lab.pool import Pool

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    yield from prepare(pool)


def test_killed_before(house: House, tmp_path: Path) -> None:
    assert house.break_every_one(["killed before"], tmp_path / "child") >= LEAST_CHANGES


def test_killed_after(house: House, tmp_path: Path) -> None:
    assert house.break_every_one(["killed after"], tmp_path / "child") >= LEAST_CHANGES
