"""Recovery of MariaDB when times in its log are wrong."""

import pytest

from tests.system.clock_story import ClockStory, odd
from tests.system.house import Variant

__all__ = ["odd"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestClock(ClockStory):
    """See ClockStory."""
