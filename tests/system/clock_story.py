"""The story of a time of the future in the log: of what was committed behind it nothing is lost.

On MySQL the host's clock stands ahead for a moment. On MariaDB a session of a user without any privilege but
to write sets its own time.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.system.house import House, next_second, utc
from tests.unit.docs.typed import typed

AHEAD = timedelta(hours=1)
QUIET = 4.5
"""Seconds on both sides of the write with the wrong time: longer than what zbackup takes for ordinary."""


@dataclass(frozen=True, kw_only=True)
class Odd:
    """What somebody who watched wrote down: `ids` of rows that were there at a moment."""

    base: dict[str, Any]
    doubtful: datetime
    """Just before the write whose time is wrong, behind which nothing else tells the time for seconds."""
    later: datetime
    ids: list[int]
    """At `later`."""


@contextmanager
def clock_ahead() -> Iterator[None]:
    """The machine's clock stands ahead, and is put right again."""
    time.clock_settime(time.CLOCK_REALTIME, time.time() + AHEAD.total_seconds())
    try:
        yield
    finally:
        time.clock_settime(time.CLOCK_REALTIME, time.time() - AHEAD.total_seconds())


@pytest.fixture(scope="class")
def odd(house: House) -> Odd:
    server = house.server
    server.sql("CREATE TABLE shop.odd (id INT PRIMARY KEY) ENGINE=InnoDB")
    server.sql("CREATE USER app@localhost IDENTIFIED BY 'secret'")
    server.sql("GRANT INSERT ON shop.* TO app@localhost")
    base = house.snapshot()
    server.sql("INSERT INTO shop.odd VALUES (1)")
    time.sleep(QUIET)
    doubtful = next_second()
    time.sleep(1)
    _write_ahead(house, 2)
    time.sleep(QUIET)
    for number in range(3, 26):
        server.sql(f"INSERT INTO shop.odd VALUES ({number})")
    later = next_second()
    server.sql("INSERT INTO shop.odd VALUES (26)")
    return Odd(base=base, doubtful=doubtful, later=later, ids=list(range(1, 26)))


def _write_ahead(house: House, number: int) -> None:
    if house.server.settings.kind == "mysql":
        with clock_ahead():
            house.server.sql(f"INSERT INTO shop.odd VALUES ({number})")
        return
    with house.server.connect("app", "secret") as session, session.cursor() as cursor:
        cursor.execute(f"SET timestamp = UNIX_TIMESTAMP() + {int(AHEAD.total_seconds())}")
        cursor.execute(f"INSERT INTO shop.odd VALUES ({number})")


def _ids(house: House, report: dict[str, Any]) -> list[int]:
    with house.clone(report) as clone, clone.cursor() as cursor:
        cursor.execute("SELECT id FROM shop.odd ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


class ClockStory:
    """The tests."""

    def test_now_is_all_of_the_log(self, house: House, odd: Odd) -> None:
        report = house.restore("now", "all")
        assert _ids(house, report) == [*odd.ids, 26]
        assert report["recovered"]["first_skipped"] is None and not report["clock_accepted"]
        house.destroy("all")

    def test_a_moment_behind_it_has_all_that_was_committed_before(self, house: House, odd: Odd) -> None:
        report = house.restore(odd.later, "later")
        assert report["base"]["backup"] == odd.base["backup"]
        assert _ids(house, report) == odd.ids
        house.destroy("later")

    def test_where_it_matters_somebody_is_asked(self, house: House, odd: Odd) -> None:
        words = house.restoring(odd.doubtful, "asked")
        before = house.state()
        said = house.zb("-q", *(word for word in words if word != "--json")).refused(15)
        assert house.state() == before
        assert "contradict its order" in said and "--accept-clock" in said
        [first, later] = [word for word in said.split() if word.startswith("binlog.") and ":" in word][-2:]
        accepted = house.zb(*words, "--accept-clock")
        assert accepted.rc == 16, str(accepted)
        report = json.loads(accepted.out)["data"]
        assert report["clock_accepted"] and report["recovered"]["first_skipped"]["start"] == first
        assert _ids(house, report) == [1]
        house.destroy("asked")
        gtid = {"4e15fdaa-e56f-11f1-875d-4e352002aa4c:10": later}
        words = typed(
            "point-in-time-recovery.md",
            "zbackup restore shop --before 4e15fdaa-e56f-11f1-875d-4e352002aa4c:10 --dry-run",
            gtid,
        )
        plan = house.zb(*words, "--json").data
        assert plan["replay"]["transactions"] == 2

    def test_a_new_backup_tells_of_it_and_is_a_base(self, house: House, odd: Odd) -> None:
        taken = house.snapshot()
        assert utc(taken["as_of"]) <= utc(taken["taken"]) + timedelta(seconds=1)
        house.server.sql("INSERT INTO shop.odd VALUES (27)")
        quiet = next_second()
        house.server.sql("INSERT INTO shop.odd VALUES (28)")
        report = house.restore(quiet, "newer")
        assert report["base"]["backup"] == taken["backup"]
        assert _ids(house, report) == [*odd.ids, 26, 27]
        house.destroy("newer")
        for command in ("check", "status"):
            data = json.loads(house.zb(command, "--json").out)["data"][0]
            told = [f["text"] for f in data["findings"] if f["subject"] == "log times"]
            assert told and "later than the snapshot that holds it" in told[0], data["findings"]

    def test_a_drill_recovers_what_stands_behind_it(self, house: House, odd: Odd) -> None:
        taken = house.snapshot()
        [verified] = house.zb("verify", "--drill", "--json").data
        assert verified["drill"]["position"] == taken["position"]
        assert verified["drill"]["base"]["backup"] != taken["backup"]
