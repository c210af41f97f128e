"""Recovery of MySQL 9.7 without GTIDs to moments of its past."""

import pytest

from tests.system.before_story import BeforeStory, accident
from tests.system.conftest import house
from tests.system.house import Variant
from tests.system.recovery_story import RecoveryStory, history

__all__ = ["accident", "history", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=False)


class TestRecovery(RecoveryStory):
    """See RecoveryStory."""


class TestBefore(BeforeStory):
    """See BeforeStory."""
