"""Two switches of a MySQL 9.7 with its data and its log on datasets that lie beside each other."""

from collections.abc import Iterator

import pytest

from tests.lab.pool import Pool
from tests.lab.variants import Variant
from tests.system.conftest import end_clones
from tests.system.house import House, build
from tests.system.switch_story import SecondSwitch, SwitchStory, shop

__all__ = ["shop"]


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    data, log = pool.dataset("its data"), pool.dataset("its log")
    with build(pool, pool.home, Variant(flavour="mysql-9.7"), data, log) as server:
        house = House(pool, pool.home, server, (data.name, log.name))
        yield house
        end_clones(house)


class TestSwitch(SwitchStory):
    """See SwitchStory."""

    thorough = True


class TestSecond(SecondSwitch):
    """See SecondSwitch."""
