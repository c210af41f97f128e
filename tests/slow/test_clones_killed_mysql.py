"""Dev clones of mysql-9.7 whose making and reset are killed before and after every change."""

import pytest

from tests.system.clone_care_story import CloneCareStory
from tests.system.clone_kills_story import CloneKills, MomentKills
from tests.system.clone_story import history
from tests.system.conftest import door, house
from tests.system.house import Variant

__all__ = ["door", "history", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestCare(CloneCareStory):
    """See CloneCareStory."""


class TestKills(CloneKills):
    """See CloneKills."""

    some = 1
    twice = True


class TestMomentKills(MomentKills):
    """See MomentKills."""

    some = 1
    twice = True
