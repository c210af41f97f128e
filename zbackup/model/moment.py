"""The moment a recovery goes to: read from what people write, said back so that nobody has to guess."""

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from zbackup.model.bounds import LATEST
from zbackup.model.errors import UsageError

# Python makes no number of more than 4300 digits.
_RELATIVE = re.compile(r"-((?:[0-9]{1,18}[dhms])+)")
_RELATIVE_PART = re.compile(r"([0-9]+)([dhms])")
_AGO = re.compile(r"((?:[0-9]{1,18} ?[a-z]+ )+)ago")
_AGO_PART = re.compile(r"([0-9]+) ?([a-z]+)")
_WORDS = {
    word: letter
    for letter, words in {
        "d": ("d", "day", "days"),
        "h": ("h", "hour", "hours"),
        "m": ("m", "min", "mins", "minute", "minutes"),
        "s": ("s", "sec", "secs", "second", "seconds"),
        "w": ("w", "week", "weeks"),
    }.items()
    for word in words
}
_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_ABSOLUTE = re.compile(
    r"(?:(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2}|today|yesterday)(?:[T ]))?"
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,6}))?)?"
    r" ?(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2})?|[A-Za-z][A-Za-z0-9_+/-]*)?"
)
# Beside the zones in the same directory: the same once more, and with leap seconds (tzfile(5)).
_NO_ZONES = ("posix", "posixrules", "right")
_LONGEST_ZONE = 255  # what is looked up as a path of thousands of parts ends in a RecursionError
_DATE_ONLY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|today|yesterday")

FORMS = (
    '"2024-05-01 10:02", "2024-05-01T10:02:03.5Z", "yesterday 10:02", "10:02", "-15m", "1 hour ago" or "now"'
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time a recovery goes to: everything committed before `at` (UTC), nothing after it.

    `text` is what was asked for, `zone` the one it is said back in, and `is_now` says that no moment was
    named: whatever is in the log by now shall be there.
    """

    at: datetime
    text: str
    zone: ZoneInfo
    is_now: bool = False

    def __post_init__(self) -> None:
        if self.at.utcoffset() != timedelta(0):
            raise ValueError(f"{self.at} is not in UTC")

    @property
    def exclusive_end(self) -> datetime:
        """The first instant left out. "now" asks for all there is, also where logs know whole seconds."""
        return self.at.replace(microsecond=0) + timedelta(seconds=1) if self.is_now else self.at

    def describe(self) -> str:
        """The moment in its zone and in UTC."""
        return f"{local_text(self.at, self.zone)} ({self.zone.key}) = {utc_text(self.at)}"


def local_text(at: datetime, zone: tzinfo) -> str:
    """`2024-05-01 10:02:00 CEST`; microseconds only if there are any."""
    local = at.astimezone(zone)
    return f"{local.replace(tzinfo=None).isoformat(' ')} {local.tzname()}"


def utc_text(at: datetime) -> str:
    """`2024-05-01T08:02:00Z`; microseconds only if there are any."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def parse_moment(text: str, zone: ZoneInfo, now: datetime) -> Moment:
    """Read a moment. A time without a zone is in `zone`; a time without a day is the last one that passed.

    Days and hours in "-1d2h" are of fixed length. Raise UsageError when the text is not a moment, or names
    a local time that happened twice or never; both readings are then named, with how to write each.
    """
    cleaned = " ".join(text.split())
    try:
        if cleaned == "now":
            return Moment(now.astimezone(UTC), text, zone, is_now=True)
        if relative := _RELATIVE.fullmatch(cleaned):
            return Moment(now.astimezone(UTC) - _length(relative[1]), text, zone)
        if ago := _AGO.fullmatch(cleaned.lower()):
            return Moment(now.astimezone(UTC) - _ago(ago[1], text), text, zone)
        if absolute := _ABSOLUTE.fullmatch(cleaned):
            return Moment(_absolute(absolute, cleaned, zone, now), text, zone)
    except OverflowError as error:
        raise UsageError(f'"{text}" is outside of the calendar') from error
    if _DATE_ONLY.fullmatch(cleaned):
        if cleaned[0].isdigit():
            _date(cleaned, text)
        raise UsageError(f'"{text}" has no time of day: its first moment is "{cleaned} 00:00"')
    raise UsageError(f'"{text}" is not a moment; write {FORMS}')


def is_moment(text: str) -> bool:
    """Whether the text has the form of a moment or of a day. parse_moment may still refuse its numbers."""
    cleaned = " ".join(text.split())
    forms = (_RELATIVE, _ABSOLUTE, _DATE_ONLY)
    return cleaned == "now" or bool(
        _AGO.fullmatch(cleaned.lower()) or any(form.fullmatch(cleaned) for form in forms)
    )


def end_after(now: datetime, seconds: float) -> datetime:
    """The end of a time that begins now. Raise UsageError when it is out of bounds."""
    try:
        return _require_near(now + timedelta(seconds=seconds), f"an end {seconds:g} seconds from now")
    except OverflowError:
        raise _too_far(f"an end {seconds:g} seconds from now") from None


def parse_time_to_come(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    """Read a time in the future, such as "2024-05-03 18:00", "18:00" or "+3d". Raise UsageError.

    A time without a day is the next time it is that late.
    """
    cleaned = " ".join(text.split())
    if cleaned.startswith("+") and (relative := _RELATIVE.fullmatch("-" + cleaned[1:])):
        try:
            return _require_near(now.astimezone(UTC) + _length(relative[1]), f'"{text}"')
        except OverflowError:
            raise _too_far(f'"{text}"') from None
    if cleaned.startswith("-"):
        raise UsageError(f'"{text}" is in the past: write a time to come, such as "+3d" or "18:00"')
    found = parse_moment(text, zone, now).at
    match = _ABSOLUTE.fullmatch(cleaned)
    if found <= now and match and not match["day"]:
        found = parse_moment(f"{_next_day(now, match, zone)} {cleaned}", zone, now).at
    if found <= now:
        raise UsageError(f'"{text}" is in the past: write a time to come, such as "+3d" or "18:00"')
    return _require_near(found, f'"{text}"')


def _require_near(found: datetime, what: str) -> datetime:
    """Nothing is written that is not taken when it is read back. Raise UsageError."""
    if found >= LATEST:
        raise _too_far(what)
    return found


def _too_far(what: str) -> UsageError:
    return UsageError(f"{what} is too far away: write a time before {LATEST.year}")


def _next_day(now: datetime, match: re.Match[str], zone: ZoneInfo) -> date:
    """The day on which it is that late next."""
    local = now.astimezone(_own_zone(match["zone"], zone))
    today = _clock(match, match.string) > local.time()
    return local.date() if today else local.date() + timedelta(days=1)


def nearest_zone(text: str) -> str:
    """The time zone somebody may have meant, "" if nothing is like it."""
    names = sorted(available_timezones())
    city = [n for n in names if n.rpartition("/")[2].lower() == text.rpartition("/")[2].lower()]
    return next(iter(city or difflib.get_close_matches(text, names, n=1)), "")


def zone_named(text: str) -> ZoneInfo | None:
    """A zone of the database, whose names are those of files; None when there is none of that name.

    Its lists of all names are not asked: reading them takes as long as a small command does.
    """
    if len(text) > _LONGEST_ZONE or text.partition("/")[0] in _NO_ZONES:
        return None
    try:
        return ZoneInfo(text)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return None


def _length(text: str) -> timedelta:
    return sum((int(n) * _UNITS[unit] for n, unit in _RELATIVE_PART.findall(text)), timedelta(0))


def _ago(text: str, whole: str) -> timedelta:
    """The length in "2 hours 30 minutes ago". Raise UsageError for months and the like, which have none."""
    length = timedelta(0)
    for count, word in _AGO_PART.findall(text):
        if word not in _WORDS:
            raise UsageError(
                f'"{whole}" is not a moment: "{word}" is none of days, hours, minutes and seconds'
            )
        length += int(count) * _UNITS[_WORDS[word]]
    return length


def _absolute(match: re.Match[str], text: str, zone: ZoneInfo, now: datetime) -> datetime:
    own = _own_zone(match["zone"], zone)
    clock = _clock(match, text)
    today = now.astimezone(own).date()
    match match["day"]:
        case None:
            wall = datetime.combine(today, clock)
            if min(_readings(wall, own)) > now:
                wall -= timedelta(days=1)
        case "today":
            wall = datetime.combine(today, clock)
        case "yesterday":
            wall = datetime.combine(today - timedelta(days=1), clock)
        case day:
            wall = datetime.combine(_date(day, text), clock)
    if own is zone and _is_abbreviation(match["zone"]):
        return _reading_called(match["zone"], wall, zone)
    return _only_reading(wall, own)


def _own_zone(named: str | None, zone: ZoneInfo) -> tzinfo:
    """The zone that a text names; `zone` if it names none, or says what clocks there are called (CEST)."""
    if named is None or (_is_abbreviation(named) and named in _abbreviations(zone)):
        return zone
    return _zone(named)


def _is_abbreviation(named: str | None) -> bool:
    return bool(named) and named not in ("Z", "UTC") and "/" not in str(named) and str(named).isupper()


def _abbreviations(zone: ZoneInfo) -> set[str | None]:
    """What clocks of the zone are called, as local_text says: those of this century's winters and
    summers."""
    days = (datetime(year, month, 15, tzinfo=zone) for year in range(2000, 2040) for month in (1, 4, 7, 10))
    return {day.tzname() for day in days}


def _reading_called(name: str, wall: datetime, zone: ZoneInfo) -> datetime:
    """When clocks of the zone show this and are called so. Raise UsageError if they never do."""
    for fold in (0, 1):
        local = wall.replace(tzinfo=zone, fold=fold)
        at = local.astimezone(UTC)
        if local.tzname() == name and at.astimezone(zone).replace(tzinfo=None) == wall:
            return at
    raise UsageError(f'{wall.isoformat(" ")} is not "{name}" in {zone}: leave "{name}" out')


def _clock(match: re.Match[str], text: str) -> time:
    try:
        return time(
            int(match["hour"]),
            int(match["minute"]),
            int(match["second"] or 0),
            int((match["fraction"] or "").ljust(6, "0")),
        )
    except ValueError as error:
        raise UsageError(f'"{text}" names no time of day: {error}') from error


def _date(day: str, text: str) -> date:
    try:
        return date.fromisoformat(day)
    except ValueError as error:
        raise UsageError(f'"{text}" names no day: {error}') from error


def _zone(text: str) -> tzinfo:
    if text in ("Z", "UTC"):
        return UTC
    if text[0] in "+-":
        hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or 0)
        if hours > 15 or minutes > 59:
            raise UsageError(f'"{text}" is not an offset from UTC')
        offset = timedelta(hours=hours, minutes=minutes)
        return timezone(-offset if text[0] == "-" else offset)
    if "/" not in text and text.isupper():
        # Some are in the zone database and do not mean there what people mean: its CET has summer time.
        raise UsageError(f'"{text}" is not clear: write an offset such as "+02:00", or "Europe/Berlin"')
    if found := zone_named(text):
        return found
    near = nearest_zone(text)
    hint = f'; did you mean "{near}"?' if near else '; write an offset such as "+02:00"'
    raise UsageError(f'"{text}" is not a time zone{hint}')


def _readings(wall: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The two moments a wall clock reading can stand for; almost always the same one.

    PEP 495: fold=0 and fold=1 differ exactly where clocks were set back (the time happened twice) or forward
    (it never did; then they are the readings by the offset before and after the jump).
    """
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return first, second


def _only_reading(wall: datetime, zone: tzinfo) -> datetime:
    first, second = _readings(wall, zone)
    if first == second:
        return first
    what = "happened twice" if first < second else "never happened (clocks were set forward)"
    raise UsageError(
        f"{wall.isoformat(' ')} {what} in {zone}: it is {_reading(wall, first, zone)} or "
        f"{_reading(wall, second, zone)}; say which"
    )


def _reading(wall: datetime, at: datetime, zone: tzinfo) -> str:
    """One way to take the wall clock, written so that it can be given back to us."""
    exact = wall.replace(tzinfo=timezone(wall - at.replace(tzinfo=None)))
    return f'"{exact.isoformat(" ")}" ({local_text(at, zone)}, {utc_text(at)})'
