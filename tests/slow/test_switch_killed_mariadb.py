"""A switch of a mariadb-10.11 and its way back, killed before and after every change."""

import pytest

from tests.system.conftest import door, house
from tests.system.house import Variant
from tests.system.switch_kills import SwitchKills
from tests.system.switch_story import SecondSwitch, SwitchStory, shop

__all__ = ["door", "house", "shop"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestSwitch(SwitchStory):
    """See SwitchStory."""

    thorough = True


class TestSecond(SecondSwitch):
    """See SecondSwitch."""


class TestKills(SwitchKills):
    """See SwitchKills."""

    some = 1
    twice = True
