"""Backups and recovery of a replica: MySQL 9.7 with GTIDs."""

import pytest

from tests.system.house import Variant
from tests.system.replica_story import ReplicaStory, history

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=True)


class TestReplica(ReplicaStory):
    """See ReplicaStory."""
