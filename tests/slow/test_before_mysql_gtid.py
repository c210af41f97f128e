"""Restores of MySQL 9.7 with GTIDs to before one transaction."""

import pytest

from tests.system.before_story import BeforeStory, accident
from tests.system.conftest import house
from tests.system.house import Variant

__all__ = ["accident", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=True)


class TestBefore(BeforeStory):
    """See BeforeStory."""
