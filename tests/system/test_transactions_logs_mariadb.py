"""A log of MariaDB that holds three origins, and one that is reset, between a base and a moment."""

import pytest

from tests.system.house import Variant
from tests.system.log_story import ResetStory, SwitchStory


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestSwitch(SwitchStory):
    """See SwitchStory."""


class TestReset(ResetStory):
    """See ResetStory."""
