"""Dev clones. What is told with one kind of server here, tests/slow tells with the other."""

from dataclasses import replace

import pytest

from tests.lab.mysql_fixture import free_port
from tests.lab.variants import Variant
from tests.system.clone_care_story import CloneCareStory, MaskingFails, MaskStory, ReplicaStory
from tests.system.clone_kills_story import CloneKills
from tests.system.clone_story import CloneStory, MomentStory, ShutStory, history
from tests.system.page_story import PageStory

VARIANTS = ("mysql-9.7", "mariadb-11.8")
__all__ = ["history"]


@pytest.fixture(scope="module")
def variant(variant: Variant) -> Variant:
    network = ("--skip-networking=OFF", f"--port={free_port()}", "--bind-address=127.0.0.1")
    return replace(variant, options=network)


class TestClones(CloneStory):
    """See CloneStory."""


@pytest.mark.told_with("mariadb-11.8")
class TestMoment(MomentStory):
    """See MomentStory."""


@pytest.mark.told_with("mariadb-11.8")
class TestPage(PageStory):
    """See PageStory."""


@pytest.mark.told_with("mysql-9.7")
class TestMasking(MaskStory):
    """See MaskStory."""


@pytest.mark.told_with("mariadb-11.8")
class TestMaskingFails(MaskingFails):
    """See MaskingFails."""


@pytest.mark.told_with("mariadb-11.8")
class TestReplica(ReplicaStory):
    """See ReplicaStory."""


@pytest.mark.told_with("mariadb-11.8")
class TestCare(CloneCareStory):
    """See CloneCareStory."""


@pytest.mark.told_with("mariadb-11.8")
class TestKills(CloneKills):
    """See CloneKills."""

    some = 9


class TestShut(ShutStory):
    """See ShutStory."""
