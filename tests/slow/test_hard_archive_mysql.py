"""Hard days of a log archive, on MySQL 9.7."""

import pytest

from tests.slow.hard_archive import HardArchive, config, house, there
from tests.system.house import Variant

__all__ = ["config", "house", "there"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestHardArchive(HardArchive):
    """See HardArchive."""
