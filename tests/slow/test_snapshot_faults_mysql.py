"""Each question of a MySQL's snapshot in turn gets no answer: the lock goes, and the next is well."""

from pathlib import Path

import pytest

from tests.faults.breaking import AT_QUESTIONS, Way
from tests.faults.holding import House, least_commands
from tests.faults.test_snapshot_faults import house

__all__ = ["house"]


@pytest.mark.parametrize("way", AT_QUESTIONS)
def test_the_next_snapshot_is_as_if_nothing_had_been(house: House, way: Way, tmp_path: Path) -> None:
    assert house.break_every_one(way, tmp_path, questions=True) >= least_commands(questions=True)
