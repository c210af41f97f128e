"""Twenty dev clones of a mongod side by side."""

from collections.abc import Iterator

import pymongo
import pytest
from pymongo.errors import OperationFailure

from tests.lab.pool import Pool
from tests.slow.many_clones import destroy, make, password
from tests.system.clone_story import ADMIN, create
from tests.system.conftest import end_clones
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import mongo_house

DOCUMENTS = 2000


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with mongo_house(pool) as house:
        with house.server.client() as client:
            client.shop.people.insert_many({"_id": n} for n in range(DOCUMENTS))
        yield house
        end_clones(house)  # type: ignore[arg-type]


def test_twenty_side_by_side(house: MongoHouse) -> None:
    house.snapshot()
    before = house.names()
    made = make(house)
    for number, clone in enumerate(made):
        address = f"mongodb://127.0.0.1:{clone['port']}/?directConnection=true"
        with pymongo.MongoClient(address, username=ADMIN, password=password(clone)) as client:
            assert client.shop.people.count_documents({}) == DOCUMENTS
            client.shop.people.delete_many({})
        with (
            pymongo.MongoClient(address, username=ADMIN, password=password(made[number - 1])) as client,
            pytest.raises(OperationFailure),
        ):
            client.shop.people.find_one()
    with house.server.client() as client:
        assert client.shop.people.count_documents({}) == DOCUMENTS
    (child,) = create(house, "--from-clone", made[0]["name"], "--name", "child")
    with pymongo.MongoClient(
        "127.0.0.1", child["port"], username=ADMIN, password=password(child), directConnection=True
    ) as client:
        assert client.shop.people.count_documents({}) == 0, "it is as its parent is"
    house.destroy("child")
    destroy(house, made)
    assert house.names() == before | {house.clones}
