"""Recovery of MariaDB 11.8 to moments of its past."""

import pytest

from tests.system.before_story import BeforeStory, accident
from tests.system.conftest import house
from tests.system.house import Variant
from tests.system.recovery_story import RecoveryStory, history

__all__ = ["accident", "history", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-11.8")


class TestRecovery(RecoveryStory):
    """See RecoveryStory."""


class TestBefore(BeforeStory):
    """See BeforeStory."""
