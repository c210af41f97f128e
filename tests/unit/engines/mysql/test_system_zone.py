"""The zone that SYSTEM stands for, from what was recorded of it to the TZ of a recovered server."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.server import system_zone
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.server.system_zone import OFFSETS, of_zone, told, why_other, years_at, zone_for

NOW = datetime(2026, 11, 21, tzinfo=UTC)
YEARS = years_at(NOW)
CHANGING = "2006-01-01=3600 2006-04-01=7200"

NAMES = (
    "Etc/UTC",
    "Europe/Berlin",
    "Europe/Paris",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "EET",
)
"""Zones that every host has, with and without summer time."""


class Server:
    """Answers as a server in a zone does, whose offsets are given."""

    def __init__(self, said: str | None) -> None:
        self.said, self.asked = said, ""

    def one(self, statement: str) -> dict[str, Any]:
        self.asked = statement
        return {"offsets": self.said}


def offsets_with(name: str) -> str:
    """What the C library says in a zone, which a server asks."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        return told(YEARS, [time.localtime(at.timestamp()).tm_gmtoff for at in system_zone._instants(YEARS)])
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def test_a_server_is_asked_for_summer_and_winter_of_some_years() -> None:
    assert YEARS == (2006, 2016, 2021, 2024, 2025)
    assert years_at(datetime(2039, 1, 1, tzinfo=UTC)) == (2019, 2029, 2034, 2037)
    server = Server(" ".join(["3600"] * 12 + ["7200"] * 12))
    assert system_zone.ask(cast(Connection, server), (2024,)) == "2024 2024-01-01=3600 2024-07-01=7200"
    once = (
        "TIMESTAMPDIFF(SECOND, '2024-07-16 12:00:00', CONVERT_TZ('2024-07-16 12:00:00', '+00:00', 'SYSTEM'))"
    )
    assert server.asked.count(once) == 1


@pytest.mark.parametrize("said", [None, "", "3600"])
def test_a_server_that_does_not_say_all_says_nothing(said: str | None) -> None:
    assert system_zone.ask(cast(Connection, Server(said)), (2024,)) == ""


@given(
    offset=st.integers(-86_399, 86_399),
    called=st.sampled_from(["", "IST", "CEST", "+0530", "a b", "Ab/../c"]),
)
def test_a_fixed_offset_needs_no_zone_of_the_host(offset: int, called: str) -> None:
    """Whatever the zone was called: the C library gives what the server said."""
    said = told(YEARS, [offset] * len(YEARS) * 24)
    zone = zone_for({OFFSETS: said, "system_time_zone": called, "TZ": "Nowhere/Known"}, Path("/nowhere"))
    assert offsets_with(zone) == said


@given(
    own=st.sampled_from(NAMES),
    host=st.sampled_from(("", *NAMES)),
    seen=st.booleans(),
    called=st.sampled_from(("", "EET", "CET", "EST", "IST")),
)
def test_the_zone_is_the_recorded_one_or_the_difference_is_told(
    own: str, host: str, seen: bool, called: str
) -> None:
    """Also where the host was in another, and where nobody saw the server's environment."""
    said = of_zone(ZoneInfo(own), YEARS)
    recorded = {OFFSETS: said, "localtime": host, "system_time_zone": called, "TZ": own if seen else ""}
    zone = zone_for(recorded)
    assert (offsets_with(zone or "UTC") == said) == (why_other(recorded, offsets_with(zone or "UTC")) == "")
    if seen or host == own or len(set(system_zone._offsets(recorded))) == 1:
        assert offsets_with(zone) == said
    if seen:
        assert zone == own or len(set(system_zone._offsets(recorded))) == 1


@pytest.mark.parametrize(
    "said",
    [
        "",
        "no",
        "2006",
        f"1969 {CHANGING}",
        f"2038 {CHANGING}",
        f"2006 {CHANGING} DROP",
        "2006 2006-01-01=360000",
    ],
)
def test_a_made_up_record_is_one_of_none(said: str) -> None:
    recorded = {OFFSETS: said, "localtime": "Europe/Berlin"}
    assert system_zone.years_of(recorded) == ()
    assert zone_for(recorded) == "Europe/Berlin"
    assert why_other(recorded, "2006 2006-01-01=0") == ""


def test_what_may_be_wrong_is_said_with_what_to_do() -> None:
    recorded = {OFFSETS: f"2006 {CHANGING}", "localtime": "Europe/Berlin"}
    why = why_other(recorded, "2006 2006-01-01=0")
    assert "(Europe/Berlin, UTC+01:00 to UTC+02:00) is another one on this host" in why
    assert "install the tzdata that it has there" in why
    assert "recovery.server" in why_other({OFFSETS: "2006 2006-01-01=-12600"}, "2006 2006-01-01=0")
    assert "UTC-03:30" in why_other({OFFSETS: "2006 2006-01-01=-12600"}, "2006 2006-01-01=0")
    assert why_other(recorded, recorded[OFFSETS]) == ""
    assert why_other(recorded | {"time_zone": "+01:00"}, "2006 2006-01-01=0") == "", (
        "the log says the zone itself"
    )


def test_a_recovered_server_has_the_zone_of_the_host_that_was_backed_up(tmp_path: Path) -> None:
    """A log of statements writes NOW() again, and ALTER TABLE turns a TIMESTAMP into local time."""
    (tmp_path / "Asia").mkdir()
    (tmp_path / "Asia" / "Tokyo").touch()
    assert zone_for({"localtime": "Asia/Tokyo"}, tmp_path) == "Asia/Tokyo"
    assert zone_for({"localtime": "Asia/Tokyo", "TZ": "Asia/Seoul"}, tmp_path) == "Asia/Seoul"
    for unknown in ("Asia/Kolkata", "../etc/passwd", "/etc/passwd", "no zone", ""):
        assert zone_for({"localtime": unknown}, tmp_path) == ""
