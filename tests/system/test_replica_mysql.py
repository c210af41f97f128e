"""A replica that is promoted and follows again, and backups and recovery of one: MySQL 9.7 with GTIDs."""

import pytest

from tests.system.house import Variant
from tests.system.log_story import SwitchStory
from tests.system.replica_story import ReplicaStory, history

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=True)


class TestSwitch(SwitchStory):
    """See SwitchStory."""


class TestReplica(ReplicaStory):
    """See ReplicaStory."""
