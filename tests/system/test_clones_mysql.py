"""Dev clones of MySQL 9.7: what is told of MariaDB alone here, tests/slow tells of MySQL."""

import pytest

from tests.system.clone_care_story import MaskStory
from tests.system.clone_story import CloneStory, ShutStory, history
from tests.system.house import Variant

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestClones(CloneStory):
    """See CloneStory."""


class TestMasking(MaskStory):
    """See MaskStory."""


class TestShut(ShutStory):
    """See ShutStory."""
