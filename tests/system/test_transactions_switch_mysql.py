"""A log of MySQL that holds three origins."""

import pytest

from tests.system.house import Variant
from tests.system.log_story import SwitchStory


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestSwitch(SwitchStory):
    """See SwitchStory."""
