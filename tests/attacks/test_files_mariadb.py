"""What owners of directories try during restores of MariaDB."""

from pathlib import Path

import pytest

from tests.attacks.file_attacks import FileAttacks
from tests.system.house import House, Variant, Zbackup


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-11.8")


def pid_file(house: Zbackup) -> Path:
    assert isinstance(house, House)
    return house.server.settings.run_dir / "server.pid"


class TestFiles(FileAttacks):
    pid_file = pid_file

    def write(self, house: Zbackup) -> None:
        assert isinstance(house, House)
        house.server.sql("UPDATE shop.customers SET email = CONCAT('x', id, RAND())")
