"""A recovered clone takes the place of a MariaDB 10.11, and goes back; also when the switch is killed."""

import pytest

from tests.lab.variants import Variant
from tests.system.switch_kills import KillsThere
from tests.system.switch_pages import SwitchPages
from tests.system.switch_story import SwitchStory, shop

__all__ = ["shop"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestSwitch(SwitchStory):
    """See SwitchStory."""


class TestKills(KillsThere):
    """See KillsThere."""


class TestPages(SwitchPages):
    """See SwitchPages."""
