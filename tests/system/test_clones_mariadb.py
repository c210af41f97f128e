"""Dev clones of MariaDB 11.8."""

import pytest

from tests.lab.mysql_fixture import free_port
from tests.system.clone_care_story import CloneCareStory, MaskingFails, ReplicaStory
from tests.system.clone_kills_story import CloneKills
from tests.system.clone_story import CloneStory, MomentStory, ShutStory, history
from tests.system.house import Variant
from tests.system.page_story import PageStory

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    network = ("--skip-networking=OFF", f"--port={free_port()}", "--bind-address=127.0.0.1")
    return Variant(flavour="mariadb-11.8", options=network)


class TestClones(CloneStory):
    """See CloneStory."""


class TestMoment(MomentStory):
    """See MomentStory."""


class TestPage(PageStory):
    """See PageStory."""


class TestMasking(MaskingFails):
    """See MaskingFails."""


class TestReplica(ReplicaStory):
    """See ReplicaStory."""


class TestCare(CloneCareStory):
    """See CloneCareStory."""


class TestKills(CloneKills):
    """See CloneKills."""

    some = 9


class TestShut(ShutStory):
    """See ShutStory."""
