"""A replica that is promoted and follows again, and moments on all sides of that: MySQL 9.7 with GTIDs."""

import pytest

from tests.system.conftest import house, source
from tests.system.house import Variant
from tests.system.log_story import SwitchStory

__all__ = ["house", "source"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", gtid=True)


class TestSwitch(SwitchStory):
    """See SwitchStory."""
