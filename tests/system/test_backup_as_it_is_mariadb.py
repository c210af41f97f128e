"""Backups of a mariadb-10.11 are restored as they are."""

import pytest

from tests.lab.repeats import some
from tests.system.as_it_is_story import AsItIs, Latest, WithoutLog, shop
from tests.system.house import Variant

__all__ = ["shop"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestAsItIs(AsItIs):
    """See AsItIs."""


class TestLatest(Latest):
    """See Latest."""


class TestWithoutLog(WithoutLog):
    """See WithoutLog."""

    drills = some(WithoutLog.drills, WithoutLog.drills[1])
    clones = some(WithoutLog.clones, WithoutLog.clones[1])
