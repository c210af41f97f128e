"""Bad days of MySQL."""

import pytest

from tests.system.bad_days import BadDays, nothing_left, sums
from tests.system.house import Variant

__all__ = ["nothing_left", "sums"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestBadDays(BadDays):
    """See BadDays."""
