"""A log of MariaDB between a base and a moment: a lost temporary table, three origins, and a reset."""

import pytest

from tests.system.house import Variant
from tests.system.log_story import OpenTemporaryStory, ResetStory, SwitchStory


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestOpenTemporary(OpenTemporaryStory):
    """See OpenTemporaryStory."""


class TestSwitch(SwitchStory):
    """See SwitchStory."""


class TestReset(ResetStory):
    """See ResetStory."""
