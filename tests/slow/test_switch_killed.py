"""A switch and its way back, killed before and after every change."""

from tests.system.conftest import door, house
from tests.system.switch_kills import SwitchKills
from tests.system.switch_story import SecondSwitch, SwitchStory, shop

VARIANTS = ("mysql-9.7", "mariadb-10.11")

__all__ = ["door", "house", "shop"]


class TestSwitch(SwitchStory):
    """See SwitchStory."""

    thorough = True


class TestSecond(SecondSwitch):
    """See SecondSwitch."""


class TestKills(SwitchKills):
    """See SwitchKills."""

    some = 1
    twice = True
