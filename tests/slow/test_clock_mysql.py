"""Recovery of MySQL when times in its log are wrong."""

import pytest

from tests.system.clock_story import ClockStory, odd
from tests.system.conftest import house
from tests.system.house import Variant

__all__ = ["house", "odd"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=True)


class TestClock(ClockStory):
    """See ClockStory."""
