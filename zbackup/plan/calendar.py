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
    minutes = _minutes(step)
    wall = _wall(step, period(step, local))
    readings = [wall.replace(tzinfo=local.tzinfo, fold=f).astimezone(UTC) for f in (0, 1)]
    return readings[local.fold] if minutes and minutes <= 60 else min(readings)


def ends(step: Span, local: datetime, zone: ZoneInfo) -> datetime:
    """The first moment, in UTC, behind the period that `local` is in; where clocks are changed around then,
    it may be one as much earlier. Raise OverflowError or ValueError where the calendar ends before."""
    key = period(step, local)
    if not (minutes := _minutes(step)):
        return _not_after(_wall(step, key + 1), zone)
    wall = _wall(step, key)
    midnight = wall.replace(hour=0, minute=0) + timedelta(days=1)
    return _not_after(min(wall + timedelta(minutes=minutes), midnight), zone)


def forward(moment: datetime, span: Span, zone: ZoneInfo) -> datetime:
    """The first moment, in UTC, from which `span` back is not before `moment`; where clocks are changed
    around then, it may be one as much earlier. Raise OverflowError or ValueError where the calendar ends
    before."""
    if span.unit in ("minute", "hour"):
        return moment + timedelta(**{span.unit + "s": span.count})
    wall = moment.astimezone(zone).replace(tzinfo=None)
    if span.unit in ("day", "week"):
        return _not_after(wall + timedelta(days=span.count * (7 if span.unit == "week" else 1)), zone)
    later = _months_before(wall, -span.count * (12 if span.unit == "year" else 1))
    if later.day != wall.day:
        # From the last day of a shorter month one comes to a day before.
        later = (later + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return _not_after(later, zone)


def _not_after(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return when clocks first show this, or earlier by as much as they are changed within a day of it."""
    first = min(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    around = (first + timedelta(days=days) for days in (-1, 0, 1))
    offsets = [at.astimezone(zone).utcoffset() or timedelta() for at in around]
    return first - (max(offsets) - min(offsets))


def _minutes(step: Span) -> int:
    """The minutes of a step, 0 for one of days and more."""
    return step.count * {"minute": 1, "hour": 60}.get(step.unit, 0)


def _wall(step: Span, key: int) -> datetime:
    """Return what clocks show when the period of this number begins."""
    count = step.count
    if step.unit == "day":
        return _midnight(max(1, key * count))
    if step.unit == "week":
        return _midnight(key * count * 7 + 1)
    if step.unit == "month":
        year, month = divmod(key * count, 12)
        return datetime(max(1, year), month + 1, 1)  # noqa: DTZ001
    if step.unit == "year":
        return datetime(max(1, key * count), 1, 1)  # noqa: DTZ001
    day, minute = divmod(key // 2, _MINUTES_OF_DAY)
    return _midnight(day) + timedelta(minutes=minute)


def label(step: Span, start: datetime, zone: ZoneInfo) -> str:
    """What people call the period that begins at `start`: 2024-05-01 10:00, 2024-05-01, 2024-05 or
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
