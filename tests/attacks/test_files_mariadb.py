"""What owners of directories try during restores of MariaDB."""

import pytest

from tests.attacks.file_attacks import SqlFileAttacks
from tests.system.house import Variant


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-11.8")


class TestFiles(SqlFileAttacks):
    """See FileAttacks."""
