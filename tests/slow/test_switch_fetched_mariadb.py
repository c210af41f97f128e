"""A clone that came back from a destination takes the place of a MariaDB 10.11, and goes back."""

import pytest

from tests.lab.variants import Variant
from tests.system.conftest import house
from tests.system.switch_fetched import FetchedSwitch
from tests.system.switch_story import SwitchStory, shop

__all__ = ["house", "shop"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestSwitch(SwitchStory):
    """See SwitchStory."""


class TestFetched(FetchedSwitch):
    """See FetchedSwitch."""
