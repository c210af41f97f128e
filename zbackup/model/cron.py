"""Cron expressions: five fields, as crontab(5) has them, and when they come true in a time zone.

minute hour day-of-month month day-of-week, each a `*`, a number, a range, a list, with steps; names for
months and days; Sunday is 0 and 7. When both days are restricted either makes a match. @hourly, @daily,
@weekly, @monthly and @yearly are short for the obvious.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")

# A 29th of February is at most eight years away.
_HORIZON_DAYS = 366 * 8 + 2
# No zone's clocks were ever put on or back by more.
_SHIFT = timedelta(hours=3)


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression; `text` is how it was written."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    every_hour: bool

    @classmethod
    def parse(cls, text: str) -> "Cron":
        """Raise ValueError, saying which field, unless it is an expression that comes true some day."""
        words = _SHORT.get(text.strip().lower(), text).split()
        if len(words) != len(_FIELDS):
            raise ValueError(f"{len(words)} fields where there must be {len(_FIELDS)}")
        minutes, hours, days, months, weekdays = (
            _field(word, *field) for word, field in zip(words, _FIELDS, strict=True)
        )
        cron = cls(
            text=text,
            minutes=minutes,
            hours=hours,
            days=days,
            months=months,
            weekdays=frozenset(day % 7 for day in weekdays),
            either_day=not words[2].startswith("*") and not words[4].startswith("*"),
            every_hour=words[1].startswith("*"),
        )
        if next(cron._dates(date(2024, 1, 1)), None) is None:
            raise ValueError("a day that never comes")
        return cron

    def next_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """The first time after `moment`, in UTC.

        A local time that clocks skip comes true when they have skipped it. One that comes twice counts
        once, the first time, unless the expression is for every hour (or every few).
        """
        now = moment.astimezone(zone).replace(tzinfo=None)
        if _clocks_go_on(moment, zone):
            instants = (utc for local in self._times(now) for utc in self._instants(local, zone))
            found = next((utc for utc in instants if utc > moment), None)
            if found and _clocks_go_on(found, zone):
                return found
        return self._next_near_a_shift(moment, now, zone)

    def _next_near_a_shift(self, moment: datetime, now: datetime, zone: ZoneInfo) -> datetime:
        """Find the same where local times are not in the order of the instants: look at all that are near."""
        best: datetime | None = None
        for local in self._times(now - _SHIFT):
            if best is not None and local > best.astimezone(zone).replace(tzinfo=None) + _SHIFT:
                break
            later = (utc for utc in self._instants(local, zone) if utc > moment)
            best = min((best, *later) if best else later, default=None)
        if best is None:
            raise AssertionError(f"{self.text} was found to come true when it was parsed")
        return best

    def _instants(self, local: datetime, zone: ZoneInfo) -> list[datetime]:
        """When a local clock shows `local`: once; twice; or never, then when it has skipped it."""
        first, second = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first == second:
            return [first]
        if first.astimezone(zone).replace(tzinfo=None) != local:
            return [_skipped(second, first, zone)]
        return [first, second] if self.every_hour else [first]

    def _times(self, start: datetime) -> Iterator[datetime]:
        hours, minutes = sorted(self.hours), sorted(self.minutes)
        for day in self._dates(start.date()):
            begin = start.hour if day == start.date() else 0
            for hour in hours[bisect_left(hours, begin) :]:
                for minute in minutes:
                    found = datetime.combine(day, time(hour, minute))
                    if found >= start:
                        yield found

    def _dates(self, start: date) -> Iterator[date]:
        day, end = start, start + timedelta(days=_HORIZON_DAYS)
        while day < end:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
                continue
            if self._is_day(day):
                yield day
            day += timedelta(days=1)

    def _is_day(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week


def _clocks_go_on(moment: datetime, zone: ZoneInfo) -> bool:
    """Whether the clocks of `zone` are neither put on nor back near `moment`."""
    before, after = ((moment + by).astimezone(zone).utcoffset() for by in (-2 * _SHIFT, 2 * _SHIFT))
    return before == after


def _skipped(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The instant between the two at which the clocks of `zone` are put on, to the minute."""
    old = before.astimezone(zone).utcoffset()
    while after - before > timedelta(minutes=1):
        middle = before + timedelta(minutes=(after - before) // timedelta(minutes=2))
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after


def _field(word: str, name: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in word.lower().split(","):
        match = _PART.fullmatch(part)
        if match is None or (match[1] == "*" and match[2]):
            raise ValueError(f"{part!r} is no {name}")
        first, last, step = match.groups()
        begin = low if first == "*" else _number(first, name, low, high, names)
        end = high if first == "*" or (step and not last) else begin
        end = _number(last, name, low, high, names) if last else end
        if end < begin or (step and int(step) == 0):
            raise ValueError(f"{part!r} is no range of a {name}")
        found.update(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


def _number(word: str, name: str, low: int, high: int, names: dict[str, int]) -> int:
    number = names.get(word, int(word) if word.isascii() and word.isdigit() else -1)
    if not low <= number <= high:
        raise ValueError(f"{word!r} is no {name}")
    return number
