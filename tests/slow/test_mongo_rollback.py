"""A primary that loses its majority, and with it what it took last: that is rolled back when it returns.

A backup of it from in between holds writes that never were, for the set. It is true as what it is, but no
way leads from it to any later moment.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from pymongo import WriteConcern
from pymongo.errors import PyMongoError

from tests.lab.mongo_fixture import MongoServer, initiate
from tests.lab.pool import Pool
from tests.system.house import now, utc, wait_until
from tests.system.mongo_house import MongoHouse, member
from tests.system.mongo_story import opened

LOST = [1000, 1001, 1002]


class Set:
    """The primary at first, which is backed up, and two that go on without it."""

    def __init__(self, house: MongoHouse, others: tuple[MongoServer, MongoServer]) -> None:
        self.house, self.others = house, others
        self.moments: list[tuple[list[int], datetime]] = []

    def primary(self) -> MongoServer:
        """Whoever it is now."""
        found: list[MongoServer] = []

        def there() -> bool:
            found[:] = [s for s in (self.house.server, *self.others) if s.running and _leads(s)]
            return bool(found)

        wait_until("there is a primary", there, 120)
        return found[0]

    def write(self, numbers: list[int], concern: int | str = "majority") -> None:
        """Write them, and note what there is at which moment."""
        with self.primary().client() as client:
            marks = client.shop.marks.with_options(write_concern=WriteConcern(concern))
            marks.insert_many([{"_id": number} for number in numbers])
            there = sorted(mark["_id"] for mark in marks.find())
        time.sleep(0.2)
        self.moments.append((there, now()))
        time.sleep(0.2)

    def holds(self, numbers: list[int]) -> bool:
        """Whether the backed up member holds exactly these, and is done with rolling back."""
        with (
            suppress(PyMongoError),
            self.house.server.client(readPreference="secondaryPreferred") as client,
        ):
            return sorted(mark["_id"] for mark in client.shop.marks.find()) == numbers
        return False


def _leads(server: MongoServer) -> bool:
    with suppress(PyMongoError), server.client() as client:
        return bool(client.admin.command("hello")["isWritablePrimary"])
    return False


@pytest.fixture(scope="module")
def members(pool: Pool) -> Iterator[Set]:
    (first, dataset), (second, _), (third, _) = (member(pool, name) for name in "abc")
    with first, second, third:
        initiate([first, second, third], {2: {"priority": 0}})
        house = MongoHouse(pool, pool.home / "a", first, (dataset,))
        wait_until("zbackup's account has come", lambda: house.zb("check").rc == 0, 60)
        yield Set(house, (second, third))


@pytest.fixture(scope="module")
def taken(members: Set) -> list[dict[str, Any]]:
    """Before, amidst and after: the backups."""
    house, (second, third) = members.house, members.others
    members.write(list(range(20)))
    backups = [house.snapshot()]
    members.write(list(range(20, 40)))
    second.kill()
    third.kill()
    members.write(LOST, 1)
    backups.append(house.snapshot())
    house.server.kill()
    for other in (second, third):
        other.start()
    members.write(list(range(40, 60)))
    house.server.start()
    wait_until("what was lost is rolled back", lambda: members.holds(list(range(60))), 120)
    backups.append(house.snapshot())
    members.write(list(range(60, 80)))
    wait_until("the backed up member has it", lambda: members.holds(list(range(80))), 60)
    return backups


def restored(members: Set, moment: datetime, name: str, *more: str) -> list[int]:
    """What a server recovered to the moment holds."""
    report = members.house.restore(moment, name, *more)
    with opened(report) as client:
        found = sorted(mark["_id"] for mark in client.shop.marks.find())
    members.house.destroy(name)
    return found


@pytest.mark.parametrize("which", [1, 4])
def test_a_moment_of_the_set_holds_nothing_that_was_rolled_back(
    members: Set, taken: list[dict[str, Any]], which: int
) -> None:
    there, moment = members.moments[which]
    assert restored(members, moment, f"then-{which}") == there


@pytest.mark.parametrize("which", [2, 3])
def test_behind_what_was_rolled_back_an_older_base_leads_on(
    members: Set, taken: list[dict[str, Any]], which: int
) -> None:
    there, moment = members.moments[which]
    words = members.house.restoring(moment, f"then-{which}")
    said = members.house.zb("-q", *words).refused(5)
    assert "was rolled back later; start from an older backup (--base)" in said
    found = restored(members, moment, f"then-{which}", "--base", taken[0]["name"])
    assert found == [number for number in there if number not in LOST]


def test_the_window_has_a_gap_there(members: Set, taken: list[dict[str, Any]]) -> None:
    window = members.house.zb("window", "--json").data[0]
    ranges = [(utc(r["after"]), utc(r["to"])) for r in window["ranges"]]
    reached = [any(after < moment <= to for after, to in ranges) for _, moment in members.moments]
    assert reached == [True, True, False, False, True]
    assert [gap["cause"] for gap in window["gaps"]] == ["reset"]
