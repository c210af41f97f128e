"""The axis of a picture: moments to columns, and the ticks that people read. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=366 * 100)
_STEPS_S = (
    1,
    5,
    10,
    30,
    60,
    300,
    600,
    1800,
    3600,
    3 * 3600,
    6 * 3600,
    12 * 3600,
    86400,
    2 * 86400,
    7 * 86400,
)
_DAY_S = 86400


@dataclass(frozen=True, slots=True)
class TimelineView:
    """The time after `start` and up to `end` on `width` columns."""

    start: datetime
    end: datetime
    width: int

    @property
    def span(self) -> timedelta:
        return self.end - self.start

    def column(self, moment: datetime) -> float:
        """Where a moment is, 0 to `width`; what is outside is at the edge."""
        fraction = (moment - self.start) / self.span
        return round(min(max(fraction, 0.0), 1.0) * self.width, 2)

    def moment(self, column: float) -> datetime:
        """The moment at a column."""
        return self.start + self.span * (column / self.width)

    def touches(self, after: datetime, to: datetime) -> bool:
        """Whether some of that time is in the view."""
        return after < self.end and to > self.start


def view_of(start: datetime, end: datetime, width: int) -> TimelineView:
    """A view of at least SHORTEST and at most LONGEST, around the middle of what was asked for."""
    start, end = sorted((start, end))
    length = min(max(end - start, SHORTEST), LONGEST)
    middle = start + (end - start) / 2
    return TimelineView(middle - length / 2, middle - length / 2 + length, width)


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str


def ticks(view: TimelineView, zone: ZoneInfo, most: int = 8) -> tuple[Tick, ...]:
    """At round times of the zone, `most` at the most."""
    found = list(_moments(view, zone, most))
    form = _form(found, view)
    return tuple(Tick(view.column(m), m.strftime(form)) for m in found[:most])


def _moments(view: TimelineView, zone: ZoneInfo, most: int) -> Iterator[datetime]:
    wanted = view.span.total_seconds() / most
    step = next((s for s in _STEPS_S if s >= wanted), 0)
    start, end = view.start.astimezone(zone), view.end.astimezone(zone)
    if step and step < _DAY_S:
        # By the clock on the wall at the beginning; across a change of the clocks the step stays what it is.
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
        behind = (view.start - midnight).total_seconds()
        at = view.start + timedelta(seconds=math.ceil(behind / step) * step - behind)
        while at <= view.end:
            yield at.astimezone(zone)
            at += timedelta(seconds=step)
        return
    if step:
        day = start.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        while day <= end:
            yield day
            day += timedelta(days=step // _DAY_S)
        return
    yield from _months(start, end, max(1, math.ceil(wanted / (30 * _DAY_S))))


def _months(start: datetime, end: datetime, step: int) -> Iterator[datetime]:
    step = next((s for s in (1, 2, 3, 6, 12) if s >= step), math.ceil(step / 12) * 12)
    number = start.year * 12 + start.month - 1
    number += -number % step
    while True:
        at = start.replace(
            year=number // 12, month=number % 12 + 1, day=1, hour=0, minute=0, second=0, microsecond=0
        )
        if at > end:
            return
        if at >= start:
            yield at
        number += step


def _form(found: list[datetime], view: TimelineView) -> str:
    if view.span <= timedelta(minutes=8):
        return "%H:%M:%S"
    if view.span <= timedelta(hours=26):
        return "%H:%M"
    if view.span <= timedelta(days=4):
        return "%a %H:%M"
    if view.span <= timedelta(days=400):
        return "%d %b"
    return "%b %Y"
