"""Dev clones of MySQL 9.7."""

import pytest

from tests.lab.mysql_fixture import free_port
from tests.system.clone_care_story import MaskStory, ReplicaStory
from tests.system.clone_story import CloneStory, KeptStory, history
from tests.system.house import Variant

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    network = ("--skip-networking=OFF", f"--port={free_port()}", "--bind-address=127.0.0.1")
    return Variant(flavour="mysql-9.7", options=network)


class TestClones(CloneStory):
    """See CloneStory."""


class TestKept(KeptStory):
    """See KeptStory."""


class TestMasking(MaskStory):
    """See MaskStory."""


class TestReplica(ReplicaStory):
    """See ReplicaStory."""
