"""Of dev clones, what `make test` tells with the other kind of server alone; and five replicas."""

from dataclasses import replace

import pytest

from tests.lab.mysql_fixture import free_port
from tests.lab.variants import Variant
from tests.system.clone_care_story import MaskingFails, MaskStory, ReplicaStory
from tests.system.clone_story import MomentStory, history
from tests.system.conftest import house

VARIANTS = ("mysql-9.7", "mariadb-11.8")
__all__ = ["history", "house"]


@pytest.fixture(scope="module")
def variant(variant: Variant) -> Variant:
    network = ("--skip-networking=OFF", f"--port={free_port()}", "--bind-address=127.0.0.1")
    return replace(variant, options=network)


@pytest.mark.told_with("mysql-9.7")
class TestMoment(MomentStory):
    """See MomentStory."""


@pytest.mark.told_with("mysql-9.7")
class TestMaskingFails(MaskingFails):
    """See MaskingFails."""


@pytest.mark.told_with("mariadb-11.8")
class TestMasking(MaskStory):
    """See MaskStory."""


class TestReplicas(ReplicaStory):
    """See ReplicaStory."""

    count = 5
