"""Hard days of a log archive, on MariaDB 10.11."""

import pytest

from tests.slow.hard_archive import HardArchive, config, house, there
from tests.system.house import Variant

__all__ = ["config", "house", "there"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestHardArchive(HardArchive):
    """See HardArchive."""
