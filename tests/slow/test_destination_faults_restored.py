"""Restores from a destination, broken at every command.

Where the copies lie they are done by the next, or given up without a trace; of those that fetch what they
need no hold over there outlives its use.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.breaking import Way
from tests.lab.pool import Pool
from tests.slow.destination_faults import Away, Kind, away

pytestmark = pytest.mark.timeout(5400)

LEAST = 30
"""With fewer changes, some of a restore's were skipped."""


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[Away]:
    with away(pool) as made:
        yield made


@pytest.mark.parametrize("kind", ["in place", "fetched"])
@pytest.mark.parametrize("way", ["killed after", "killed before", "fails", "fails late"])
def test_the_next_restore_does_it_all(house: Away, kind: Kind, way: Way, tmp_path: Path) -> None:
    count = house.break_every_one(kind, (way,), tmp_path / "child")
    print(f"{kind}, {way}: {count} commands")
    assert count >= LEAST


@pytest.mark.parametrize("kind", ["in place", "fetched"])
def test_the_next_restore_does_it_all_however_each_change_broke(
    house: Away, kind: Kind, tmp_path: Path
) -> None:
    """In a third of the time: each change breaks in one of the ways."""
    count = house.break_every_one(kind, ("killed before", "fails", "fails late"), tmp_path / "child")
    print(f"{kind}, mixed: {count} commands")
    assert count >= LEAST
