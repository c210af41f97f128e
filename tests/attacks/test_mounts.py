"""Attacks by the server's user on the mounts of a switch."""

from collections.abc import Iterator

import pytest

from tests.attacks.mount_attacks import MountAttacks, Scene
from tests.system.forked import forks
from tests.system.house import House
from tests.system.switch_story import Service

VARIANTS = ("mysql-9.7", "mariadb-11.8")


@pytest.fixture(scope="module")
def scene(house: House) -> Iterator[Scene]:
    service = Service(house.home, house.server)
    with forks(house.home) as house.forks:
        yield Scene(house, service.table(), lambda: house.server.sql("UPDATE shop.customers SET name = 'x'"))
        service.stop()


class TestMounts(MountAttacks):
    def require_runs(self, scene: Scene) -> None:
        assert isinstance(scene.house, House)
        assert scene.house.server.checksum()["shop.customers"]
