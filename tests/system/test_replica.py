"""Backups and recovery of a replica."""

from tests.system.replica_story import ReplicaStory, history

VARIANTS = ("mysql-9.7",)
SLOW_VARIANTS = ("mariadb-10.11",)
__all__ = ["history"]


class TestReplica(ReplicaStory):
    """See ReplicaStory."""
