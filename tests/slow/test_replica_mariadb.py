"""Backups and recovery of a replica: MariaDB 10.11."""

import pytest

from tests.system.conftest import door, house, source
from tests.system.house import Variant
from tests.system.replica_story import ReplicaStory, history

__all__ = ["door", "history", "house", "source"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestReplica(ReplicaStory):
    """See ReplicaStory."""
