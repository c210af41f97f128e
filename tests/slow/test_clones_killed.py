"""Dev clones whose making and reset are killed before and after every change."""

import pytest

from tests.system.clone_care_story import CloneCareStory
from tests.system.clone_kills_story import CloneKills, MomentKills
from tests.system.clone_story import history
from tests.system.conftest import door, house

VARIANTS = ("mysql-9.7", "mariadb-11.8")
__all__ = ["door", "history", "house"]


@pytest.mark.told_with("mysql-9.7")
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
