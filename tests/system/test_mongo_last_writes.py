"""The last writes before a moment, acknowledged by memory alone: a restore to that moment has them."""

from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.lab import mongo_load
from tests.lab.mongo_fixture import start_single
from tests.lab.pool import Pool
from tests.system.conftest import end_clones
from tests.system.house import after_writing, now, utc
from tests.system.mongo_house import MongoHouse, build
from tests.system.mongo_story import opened


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with start_single(build(pool, pool.home, replica_set="rs0")) as server:
        house = MongoHouse(pool, pool.home, server, (pool.data.name,))
        house.snapshot()
        yield house
        end_clones(house)  # type: ignore[arg-type]


def whole(moment: datetime) -> datetime:
    """An oplog knows milliseconds."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def test_up_to_the_lock_from_the_locked_snapshot_itself(house: MongoHouse) -> None:
    """Its oplog's end is marked as unsure, for mongod cannot note how far it is sure while it is locked."""
    journal = house.home / "locked"
    with mongo_load.start(house.server, concern="w1", journal=journal):
        after_writing(journal, 40)
        taken = house.snapshot(house.configure("fsync", lock="fsync"))
        after_writing(journal, 20)
    moment = whole(utc(taken["taken"]))
    report = house.restore(moment, "locked")
    assert report["log"]["name"] == taken["name"]
    with opened(report) as client:
        verdict = mongo_load.verify(client, journal, moment)
    assert verdict.required >= 40
    house.destroy("locked")


def test_up_to_now_from_a_snapshot_that_is_taken_for_it(house: MongoHouse) -> None:
    """It is taken when the journal has had its time to be written."""
    journal = house.home / "now"
    with house.server.client() as client:
        client.drop_database(mongo_load.SCHEMA)
    with mongo_load.start(house.server, concern="w1", rate=80, journal=journal):
        after_writing(journal, 40)
        moment = whole(now())
        report = house.restore(moment, "now")
    with opened(report) as client:
        verdict = mongo_load.verify(client, journal, moment)
    assert verdict.required >= 40
    house.destroy("now")
