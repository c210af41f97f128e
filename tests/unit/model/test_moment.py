"""Moments: what is understood, what is refused, and that clock changes never decide silently."""

import contextlib
import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.errors import UsageError
from zbackup.model.moment import Moment, end_after, local_text, parse_moment, parse_time_to_come, utc_text

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2024, 5, 1, 9, 0, tzinfo=UTC)  # 11:00 in Berlin
ZONES = st.sampled_from(
    [
        ZoneInfo(name)
        for name in (
            "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns",
            "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca",
        )
    ]
)  # fmt: skip
TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1))  # noqa: DTZ001  wall clocks have no zone


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2024-05-01 10:02", "2024-05-01T08:02:00Z"),
        ("  2024-05-01   10:02 ", "2024-05-01T08:02:00Z"),
        ("2024-05-01T10:02:03", "2024-05-01T08:02:03Z"),
        ("2024-05-01 10:02:03.000001", "2024-05-01T08:02:03.000001Z"),
        ("2024-05-01 10:02:03.5", "2024-05-01T08:02:03.500000Z"),
        ("2024-05-01T10:02:03Z", "2024-05-01T10:02:03Z"),
        ("2024-05-01 10:02 UTC", "2024-05-01T10:02:00Z"),
        ("2024-05-01 10:02+02:00", "2024-05-01T08:02:00Z"),
        ("2024-05-01 10:02 -0330", "2024-05-01T13:32:00Z"),
        ("2024-05-01 10:02+05", "2024-05-01T05:02:00Z"),
        ("2024-05-01 10:02 America/New_York", "2024-05-01T14:02:00Z"),
        ("2024-10-27 02:30+02:00", "2024-10-27T00:30:00Z"),
        ("now", "2024-05-01T09:00:00Z"),
        ("-15m", "2024-05-01T08:45:00Z"),
        ("1 hour ago", "2024-05-01T08:00:00Z"),
        ("2 days 30 min ago", "2024-04-29T08:30:00Z"),
        ("90s ago", "2024-05-01T08:58:30Z"),
        ("1 Week ago", "2024-04-24T09:00:00Z"),
        ("-2h30m", "2024-05-01T06:30:00Z"),
        ("-1d", "2024-04-30T09:00:00Z"),
        ("10:02", "2024-05-01T08:02:00Z"),
        ("11:00", "2024-05-01T09:00:00Z"),
        ("11:01", "2024-04-30T09:01:00Z"),
        ("today 09:00", "2024-05-01T07:00:00Z"),
        ("yesterday 10:02:30", "2024-04-30T08:02:30Z"),
    ],
)
def test_understood(text: str, utc: str) -> None:
    moment = parse_moment(text, BERLIN, NOW)
    assert utc_text(moment.at) == utc
    assert moment.is_now == (text == "now")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a moment"),
        ("tomorrow", "is not a moment"),
        ("15m", "is not a moment"),
        ("2024-05-01 10:02:03.1234567", "is not a moment"),
        ("٢٠٢٤-05-01 10:02", "is not a moment"),
        ("2024-05-01", 'its first moment is "2024-05-01 00:00"'),
        ("2024-02-30 10:00", "names no day"),
        ("2024-02-30", "names no day"),
        ("1 month ago", '"month" is none of days, hours, minutes and seconds'),
        ("an hour ago", "is not a moment"),
        ("99999999999 days ago", "outside of the calendar"),
        ("2024-05-01 24:00", "names no time of day"),
        ("2024-05-01 10:02:60", "names no time of day"),
        ("2024-05-01 10:02 EST", '"EST" is not clear'),
        ("2024-05-01 10:02 CET", 'is not "CET" in Europe/Berlin: leave "CET" out'),
        ("2024-05-01 10:02 Europe/Berln", 'did you mean "Europe/Berlin"'),
        ("2024-05-01 10:02 berlin", 'did you mean "Europe/Berlin"'),
        ("2024-05-01 10:02+99:00", "is not an offset"),
        ("-99999999999d", "outside of the calendar"),
        ("0001-01-01 00:00", "outside of the calendar"),
    ],
)
def test_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_moment(text, BERLIN, NOW)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_clocks_set_back_names_both_readings() -> None:
    with pytest.raises(UsageError) as refusal:
        parse_moment("2024-10-27 02:30", BERLIN, NOW)
    assert str(refusal.value) == (
        "2024-10-27 02:30:00 happened twice in Europe/Berlin: it is "
        '"2024-10-27 02:30:00+02:00" (2024-10-27 02:30:00 CEST, 2024-10-27T00:30:00Z) or '
        '"2024-10-27 02:30:00+01:00" (2024-10-27 02:30:00 CET, 2024-10-27T01:30:00Z); say which'
    )


def test_clocks_set_forward_names_both_readings() -> None:
    with pytest.raises(UsageError) as refusal:
        parse_moment("2024-03-31 02:30", BERLIN, NOW)
    assert str(refusal.value) == (
        "2024-03-31 02:30:00 never happened (clocks were set forward) in Europe/Berlin: it is "
        '"2024-03-31 02:30:00+01:00" (2024-03-31 03:30:00 CEST, 2024-03-31T01:30:00Z) or '
        '"2024-03-31 02:30:00+02:00" (2024-03-31 01:30:00 CET, 2024-03-31T00:30:00Z); say which'
    )


def test_a_bare_time_between_the_two_passes_is_ambiguous_not_yesterday() -> None:
    second_pass = datetime(2024, 10, 27, 1, 10, tzinfo=UTC)  # 02:10 CET; 02:30 CEST has passed
    with pytest.raises(UsageError, match="happened twice"):
        parse_moment("02:30", BERLIN, second_pass)
    first_pass = datetime(2024, 10, 27, 0, 10, tzinfo=UTC)  # 02:10 CEST; no 02:30 has passed
    assert utc_text(parse_moment("02:30", BERLIN, first_pass).at) == "2024-10-26T00:30:00Z"


@given(TIMES, ZONES)
def test_what_is_said_back_in_utc_is_understood_as_the_same(wall: datetime, zone: ZoneInfo) -> None:
    at = wall.replace(tzinfo=UTC)
    assert parse_moment(utc_text(at), zone, NOW).at == at
    assert parse_moment(at.astimezone(zone).isoformat(), zone, NOW).at == at or _odd_offset(at, zone)


@given(TIMES, ZONES)
def test_a_wall_clock_is_read_or_refused_never_guessed(wall: datetime, zone: ZoneInfo) -> None:
    """Read if exactly one moment shows this wall clock in the zone, else refused with two readings."""
    candidates = {wall.replace(tzinfo=UTC) + timedelta(minutes=m) for m in range(-15 * 60, 15 * 60, 15)}
    shows = [c for c in candidates if c.astimezone(zone).replace(tzinfo=None) == wall]
    try:
        at = parse_moment(wall.isoformat(" "), zone, NOW).at
    except UsageError as refusal:
        assert len(shows) != 1
        readings = str(refusal).split('"')[1::2]
        assert len({parse_moment(r, zone, NOW).at for r in readings}) == 2
    else:
        assert shows == [at]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_every_wall_clock_of_a_year_of_changes(zone: str) -> None:
    """Step through 2024: exactly the minutes in gaps and folds are refused."""
    info = ZoneInfo(zone)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    instants = [start + timedelta(minutes=15 * n) for n in range(-96, 367 * 96)]
    shown: dict[datetime, int] = {}
    for at in instants:
        wall = at.astimezone(info).replace(tzinfo=None)
        shown[wall] = shown.get(wall, 0) + 1
    walls = [start.replace(tzinfo=None) + timedelta(minutes=15 * n) for n in range(366 * 96)]
    refused = set()
    suspects = {w for w in walls if shown.get(w, 0) != 1}
    for wall in itertools.chain(suspects, walls[::97]):
        try:
            parse_moment(wall.isoformat(" "), info, NOW)
        except UsageError:
            refused.add(wall)
    assert refused == suspects
    assert suspects


@given(st.text(max_size=30))
def test_any_text_is_a_moment_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_moment(text, BERLIN, NOW)


def test_describe() -> None:
    moment = parse_moment("2024-05-01 10:02", BERLIN, NOW)
    assert moment.describe() == "2024-05-01 10:02:00 CEST (Europe/Berlin) = 2024-05-01T08:02:00Z"
    assert local_text(moment.at, ZoneInfo("America/Sao_Paulo")) == "2024-05-01 05:02:00 -03"


def test_a_moment_is_in_utc() -> None:
    with pytest.raises(ValueError, match="not in UTC"):
        Moment(datetime(2024, 5, 1, tzinfo=BERLIN), "x", BERLIN)


def _odd_offset(at: datetime, zone: ZoneInfo) -> bool:
    """Offsets with seconds, of long ago, cannot be written in ISO 8601."""
    offset = at.astimezone(zone).utcoffset()
    return offset is not None and offset.seconds % 60 != 0


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("+3d", "2024-05-04T12:00:00Z"),
        ("+1h30m", "2024-05-01T13:30:00Z"),
        ("18:00", "2024-05-01T16:00:00Z"),
        ("10:00", "2024-05-02T08:00:00Z"),
        ("2024-06-01 10:00", "2024-06-01T08:00:00Z"),
        ("23:30 UTC", "2024-05-01T23:30:00Z"),
    ],
)
def test_a_time_to_come(text: str, meant: str) -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert utc_text(parse_time_to_come(text, ZoneInfo("Europe/Berlin"), noon)) == meant


@pytest.mark.parametrize("text", ["-1h", "2024-04-30 10:00", "now", "yesterday 10:00"])
def test_a_time_to_come_is_not_in_the_past(text: str) -> None:
    with pytest.raises(UsageError, match="in the past"):
        parse_time_to_come(text, ZoneInfo("Europe/Berlin"), datetime(2024, 5, 1, 12, tzinfo=UTC))


@given(at=TIMES, zone=ZONES)
def test_what_is_printed_is_understood(at: datetime, zone: ZoneInfo) -> None:
    """Also in the hour that clocks show twice."""
    moment = at.replace(tzinfo=UTC)
    later = moment + timedelta(days=1)
    assert parse_moment(local_text(moment, zone), zone, later).at == moment
    assert parse_moment(utc_text(moment), zone, later).at == moment


def test_what_clocks_are_called_tells_the_hour_that_comes_twice() -> None:
    for name, hour in (("CEST", 0), ("CET", 1)):
        found = parse_moment(f"2024-10-27 02:30:00 {name}", BERLIN, datetime(2025, 1, 1, tzinfo=UTC))
        assert found.at == datetime(2024, 10, 27, hour, 30, tzinfo=UTC)
    assert parse_time_to_come("18:00 CEST", BERLIN, NOW) == datetime(2024, 5, 1, 16, 0, tzinfo=UTC)


@pytest.mark.parametrize("text", ["9999-12-31 00:00", "2200-01-01T00:00Z", "+99999d", "+9999999999999d"])
def test_a_time_to_come_is_one_that_is_taken_when_it_is_read_back(text: str) -> None:
    with pytest.raises(UsageError, match="too far away: write a time before 2200"):
        parse_time_to_come(text, BERLIN, NOW)


@pytest.mark.parametrize("seconds", [86400.0 * 99999, 1e15, 1e300])
def test_so_is_the_end_of_a_lease(seconds: float) -> None:
    with pytest.raises(UsageError, match="too far away"):
        end_after(NOW, seconds)
    assert end_after(NOW, 60.0) == NOW + timedelta(minutes=1)


@pytest.mark.parametrize(
    "text",
    ["-" + "1" * 5000 + "d", "1" * 5000 + " hours ago", "10:02 Africa" + "/a" * 3000, "+" + "1" * 5000 + "d"],
)
def test_a_moment_of_any_length_is_refused_as_what_it_is(text: str) -> None:
    for parse in (parse_moment, parse_time_to_come):
        with pytest.raises(UsageError):
            parse(text, BERLIN, NOW)
