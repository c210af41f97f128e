"""A member that becomes the primary because the primary was killed, and a secondary again: one window.

Its oplog goes on through all terms, so every moment can be restored, whoever was the primary then.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from pymongo import WriteConcern

from tests.lab.mongo_fixture import MongoServer, await_primary, initiate
from tests.lab.pool import Pool, run
from tests.system.house import now, utc, wait_until
from tests.system.mongo_house import MongoHouse, member
from tests.system.mongo_story import opened
from zbackup.model.oplog_position import OplogPosition


class Set:
    """Three members: the primary at first, the one that is backed up, and one that only votes and holds."""

    def __init__(self, first: MongoServer, house: MongoHouse) -> None:
        self.first, self.house = first, house
        self.moments: list[tuple[int, datetime]] = []

    def write(self, primary: MongoServer, count: int = 20) -> None:
        """So many more, on a majority of the members; and how many there are at which moment."""
        begin = self.moments[-1][0] if self.moments else 0
        with primary.client() as client:
            marks = client.shop.marks.with_options(write_concern=WriteConcern("majority"))
            for number in range(begin, begin + count):
                marks.insert_one({"_id": number})
        self._await(begin + count)
        time.sleep(0.1)
        self.moments.append((begin + count, now()))
        time.sleep(0.1)

    def _await(self, count: int) -> None:
        def there() -> bool:
            with self.house.server.client(readPreference="secondaryPreferred") as client:
                return bool(client.shop.marks.count_documents({}) == count)

        wait_until("the backed up member has it", there, 60)


@pytest.fixture(scope="module")
def members(pool: Pool) -> Iterator[Set]:
    (first, _), (second, dataset), (third, _) = (member(pool, name) for name in "abc")
    with first, second, third:
        initiate([first, second, third], {0: {"priority": 1}, 2: {"priority": 0}})
        house = MongoHouse(pool, pool.home / "b", second, (dataset,))
        wait_until("zbackup's account has come", lambda: house.zb("check").rc == 0, 60)
        yield Set(first, house)


def fail_over(members: Set) -> None:
    """The primary is killed, and the member that is backed up takes its place."""
    members.first.kill()
    with members.house.server.client() as client:
        await_primary(client, 120)


def fail_back(members: Set) -> None:
    """The old primary comes back, catches up, and is given its place again."""
    members.first.start()
    with members.first.client() as back, members.house.server.client() as client:
        count = members.moments[-1][0]

        def caught_up() -> bool:
            return bool(back.admin.command("hello")["secondary"]) and bool(
                back.shop.marks.count_documents({}) == count
            )

        wait_until("it has caught up", caught_up, 120)
        client.admin.command("replSetStepDown", 120, secondaryCatchUpPeriodSecs=60)
        await_primary(back, 120)


def test_every_moment_can_be_restored_whoever_was_the_primary(members: Set) -> None:
    house = members.house
    members.write(members.first)
    taken: list[dict[str, Any]] = [house.snapshot()]
    members.write(members.first)
    fail_over(members)
    members.write(house.server)
    taken.append(house.snapshot())
    members.write(house.server)
    fail_back(members)
    members.write(members.first)
    taken.append(house.snapshot())
    members.write(members.first)
    assert [backup["role"] for backup in taken] == ["replica", "primary", "replica"]
    terms = [OplogPosition.parse(backup["position"]).term for backup in taken]
    assert terms[0] < terms[1] < terms[2]
    window = house.zb("window", "--json").data[0]
    assert window["gaps"] == [] and len(window["ranges"]) == 1, window
    for number, (count, moment) in enumerate(members.moments[1:]):
        assert utc(window["ranges"][0]["after"]) < moment
        report = house.restore(moment, f"then-{number}")
        with opened(report) as client:
            assert sorted(mark["_id"] for mark in client.shop.marks.find()) == list(range(count))
        house.destroy(f"then-{number}")


def test_from_a_base_of_an_earlier_term_over_both_failovers(members: Set) -> None:
    """Only the first backup is left, as if the others had been pruned."""
    house = members.house
    first, *later = [backup["name"] for backup in house.backups() if backup["purpose"] == "base"]
    for snapshot in house.snapshots():
        if snapshot.partition("@")[2] in later:
            run("zfs", "destroy", snapshot)
    count, moment = members.moments[-1]
    report = house.restore(moment, "all")
    assert report["base"]["name"] == first
    with opened(report) as client:
        assert client.shop.marks.count_documents({}) == count
    house.destroy("all")
