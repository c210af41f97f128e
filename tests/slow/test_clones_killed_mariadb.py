"""Dev clones of mariadb-11.8 whose making and reset are killed before and after every change."""

import pytest

from tests.system.clone_kills_story import CloneKills, MomentKills
from tests.system.clone_story import history
from tests.system.conftest import door, house
from tests.system.house import Variant

__all__ = ["door", "history", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-11.8")


class TestKills(CloneKills):
    """See CloneKills."""

    some = 1
    twice = True


class TestMomentKills(MomentKills):
    """See MomentKills."""

    some = 1
    twice = True
