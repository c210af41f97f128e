"""Of dev clones of MySQL 9.7, what `make test` tells of the other kind alone; and five replicas."""

import pytest

from tests.lab.mysql_fixture import free_port
from tests.system.clone_care_story import MaskingFails, ReplicaStory
from tests.system.clone_story import MomentStory, history
from tests.system.conftest import house
from tests.system.house import Variant

__all__ = ["history", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    network = ("--skip-networking=OFF", f"--port={free_port()}", "--bind-address=127.0.0.1")
    return Variant(flavour="mysql-9.7", options=network)


class TestMoment(MomentStory):
    """See MomentStory."""


class TestMasking(MaskingFails):
    """See MaskingFails."""


class TestReplicas(ReplicaStory):
    """See ReplicaStory."""

    count = 5
