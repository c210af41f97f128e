"""A switch of a MariaDB 10.11 and its way back, killed at some of their changes."""

import pytest

from tests.system.house import Variant
from tests.system.switch_kills import SwitchKills
from tests.system.switch_story import shop

__all__ = ["shop"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestKills(SwitchKills):
    """See SwitchKills."""
