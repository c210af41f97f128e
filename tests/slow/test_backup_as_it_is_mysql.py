"""Backups of a mysql-9.7 are restored as they are."""

import pytest

from tests.system.as_it_is_story import AsItIs, Latest, WithoutLog, shop
from tests.system.conftest import house
from tests.system.house import Variant

__all__ = ["house", "shop"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestAsItIs(AsItIs):
    """See AsItIs."""


class TestLatest(Latest):
    """See Latest."""


class TestWithoutLog(WithoutLog):
    """See WithoutLog."""
