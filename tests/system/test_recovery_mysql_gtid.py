"""Recovery of MySQL 9.7 with GTIDs to moments of its past."""

import pytest

from tests.system.house import Variant
from tests.system.recovery_story import RecoveryStory, history

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=True)


class TestRecovery(RecoveryStory):
    """See RecoveryStory."""
