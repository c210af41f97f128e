"""Recovery of MongoDB when the host's clock stood ahead for a moment."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from tests.lab.pool import Pool
from tests.system.clock_story import QUIET, clock_ahead
from tests.system.conftest import end_clones
from tests.system.house import next_second
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import mongo_house, opened


@dataclass(frozen=True, kw_only=True)
class Odd:
    """`doubtful` is just before what was written with the wrong time, `later` behind what followed."""

    base: dict[str, Any]
    doubtful: datetime
    later: datetime


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with mongo_house(pool) as house:
        yield house
        end_clones(house)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def odd(house: MongoHouse) -> Odd:
    with house.server.client() as client:
        base = house.snapshot()
        client.shop.odd.insert_one({"_id": 1})
        time.sleep(QUIET)
        doubtful = next_second()
        with clock_ahead():
            client.shop.odd.insert_one({"_id": 2})
        for number in range(3, 10):
            client.shop.odd.insert_one({"_id": number})
        later = next_second()
        client.shop.odd.insert_one({"_id": 10})
    return Odd(base=base, doubtful=doubtful, later=later)


def ids(report: dict[str, Any]) -> list[int]:
    with opened(report) as client:
        return [found["_id"] for found in client.shop.odd.find().sort("_id", 1)]


def test_now_is_all_of_the_oplog(house: MongoHouse, odd: Odd) -> None:
    assert ids(house.restore("now", "all")) == list(range(1, 11))
    house.destroy("all")


def test_a_moment_behind_it_has_all_that_was_written_before(house: MongoHouse, odd: Odd) -> None:
    report = house.restore(odd.later, "later")
    assert report["base"]["backup"] == odd.base["backup"]
    assert ids(report) == list(range(1, 10))
    house.destroy("later")


def test_where_it_matters_somebody_is_asked(house: MongoHouse, odd: Odd) -> None:
    before = house.names()
    words = [word for word in house.restoring(odd.doubtful, "asked") if word != "--json"]
    said = house.zb("-q", *words).refused(15)
    assert "can be read in two ways" in said and "--to-timestamp" in said
    assert {name for name in house.names() - before if "@" not in name} <= {house.clones}
