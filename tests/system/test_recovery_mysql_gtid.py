"""Recovery of MySQL 9.7 with GTIDs to moments of its past."""

import pytest

from tests.system.archive_story import lose_and_get_back
from tests.system.house import House, Variant
from tests.system.recovery_story import RecoveryStory, history

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=True)


class TestRecovery(RecoveryStory):
    """See RecoveryStory."""


class TestTheHostIsLost:
    """The last, for nothing is left."""

    def test_all_that_was_archived_comes_back_from_another_pool(self, house: House) -> None:
        lose_and_get_back(house)
