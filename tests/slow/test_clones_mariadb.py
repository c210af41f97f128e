"""Of dev clones of MariaDB 11.8, what `make test` tells of the other kind alone; and five replicas."""

import pytest

from tests.lab.mysql_fixture import free_port
from tests.system.clone_care_story import MaskStory, ReplicaStory
from tests.system.clone_story import history
from tests.system.conftest import house
from tests.system.house import Variant

__all__ = ["history", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    network = ("--skip-networking=OFF", f"--port={free_port()}", "--bind-address=127.0.0.1")
    return Variant(flavour="mariadb-11.8", options=network)


class TestMasking(MaskStory):
    """See MaskStory."""


class TestReplicas(ReplicaStory):
    """See ReplicaStory."""

    count = 5
