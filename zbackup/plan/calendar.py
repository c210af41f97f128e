"""Calendar periods in a time zone: when they begin, and what they are called. Pure.

A day is a day also when it has 23 or 25 hours. Where clocks are set back, the hour that happens twice is two
hours (and has twice as many minutes); where they are set forward, the hour that is missing is none.
"""

import calendar
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from zbackup.model.retention import Span

_MINUTES_OF_DAY = 1440
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  a wall clock's reading
_LABELS = {"month": "%Y-%m", "year": "%Y", "day": "%Y-%m-%d", "week": "%Y-%m-%d"}


def period(step: Span, local: datetime) -> int:
    """A number that all moments of one period have in common, and no others. `local` is in the zone.

    Periods begin at midnight, on Mondays, on the first of a month or year, and count from there in steps.
    """
    unit, count = step.unit, step.count
    if unit == "minute" or unit == "hour":
        size = count if unit == "minute" else 60 * count
        of_day = (local.hour * 60 + local.minute) // size * size
        key = (local.toordinal() * _MINUTES_OF_DAY + of_day) * 2
        return key + local.fold if size <= 60 else key
    if unit == "day":
        return local.toordinal() // count
    if unit == "week":
        return (local.toordinal() - 1) // 7 // count
    if unit == "month":
        return (local.year * 12 + local.month - 1) // count
    return local.year // count


def begins(step: Span, local: datetime) -> datetime:
    """The first moment, in UTC, of the period that `local` is in."""
    key, count, zone = period(step, local), step.count, local.tzinfo
    fold = None
    match step.unit:
        case "minute" | "hour":
            day, minute = divmod(key // 2, _MINUTES_OF_DAY)
            wall = _midnight(day) + timedelta(minutes=minute)
            if (count if step.unit == "minute" else 60 * count) <= 60:
                fold = local.fold
        case "day":
            wall = _midnight(max(1, key * count))
        case "week":
            wall = _midnight(key * count * 7 + 1)
        case "month":
            year, month = divmod(key * count, 12)
            wall = datetime(max(1, year), month + 1, 1)  # noqa: DTZ001
        case "year":
            wall = datetime(max(1, key * count), 1, 1)  # noqa: DTZ001
    readings = [wall.replace(tzinfo=zone, fold=f).astimezone(UTC) for f in (0, 1)]
    return readings[fold] if fold is not None else min(readings)


def label(step: Span, start: datetime, zone: ZoneInfo) -> str:
    """Tell what people call the period that begins at `start`: 2024-05-01 10:00, 2024-05-01, 2024-05 or
    2024."""
    local = start.astimezone(zone)
    if step.unit in _LABELS:
        return local.strftime(_LABELS[step.unit])
    return f"{local:%Y-%m-%d %H:%M}" + (f" {local.tzname()}" if local.fold else "")


def back(now: datetime, span: Span, zone: ZoneInfo) -> datetime:
    """The moment `span` before `now`, in UTC. Days and longer go by the calendar: the same time of day.

    The 31st of a shorter month is its last day. What would be before the calendar is its beginning.
    """
    try:
        if span.unit in ("minute", "hour"):
            return now.astimezone(UTC) - timedelta(**{span.unit + "s": span.count})
        local = now.astimezone(zone)
        wall = local.replace(tzinfo=None)
        if span.unit in ("day", "week"):
            wall -= timedelta(days=span.count * (7 if span.unit == "week" else 1))
        else:
            wall = _months_before(wall, span.count * (12 if span.unit == "year" else 1))
        return wall.replace(tzinfo=zone, fold=local.fold).astimezone(UTC)
    except (OverflowError, ValueError):
        return datetime.min.replace(tzinfo=UTC)


def _midnight(ordinal: int) -> datetime:
    return _EPOCH + timedelta(days=ordinal - _EPOCH.toordinal())


def _months_before(wall: datetime, months: int) -> datetime:
    year, month = divmod(wall.year * 12 + wall.month - 1 - months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return wall.replace(year=year, month=month + 1, day=min(wall.day, last))
