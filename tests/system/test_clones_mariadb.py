"""Dev clones of MariaDB 11.8."""

import pytest

from tests.system.clone_care_story import CloneCareStory, CloneKills
from tests.system.clone_story import CloneStory, history
from tests.system.house import Variant

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-11.8")


class TestClones(CloneStory):
    """See CloneStory."""


class TestCare(CloneCareStory):
    """See CloneCareStory."""


class TestKills(CloneKills):
    """See CloneKills."""
