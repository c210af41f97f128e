"""Bad days of MariaDB."""

import pytest

from tests.system.bad_days import BadDays, nothing_left, sums
from tests.system.conftest import door, house
from tests.system.house import Variant

__all__ = ["door", "house", "nothing_left", "sums"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestBadDays(BadDays):
    """See BadDays."""
