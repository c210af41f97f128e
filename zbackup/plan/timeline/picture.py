"""Lanes with bars and marks: no more shapes than there are columns, however much there is. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from zbackup.model.overview import OverviewBackup, OverviewInstance
from zbackup.plan.timeline.axis import Tick, TimelineView, ticks

NARROWEST = 3.0
"""Columns of a bar: nobody sees, or hits, what is narrower. A gap of a second in a year is seen, too."""
COLUMN = 2
"""Columns that a mark takes."""
COLUMNS_A_TICK = 120
CELL = 20
"""Columns of a part of the strip that can be chosen, which is a link."""


@dataclass(frozen=True, slots=True)
class Bar:
    """From column `x`, `width` columns wide. `count` are how many it stands for; `after` and `to` are theirs
    from the first to the last."""

    x: float
    width: float
    count: int
    after: datetime
    to: datetime


@dataclass(frozen=True, slots=True)
class Lane:
    """`bars` by what they mean; `marks` are columns, ascending; `count` is how many things the marks stand
    for, and `total` how many there are in all, in the view or not."""

    name: str
    bars: tuple[tuple[str, tuple[Bar, ...]], ...] = ()
    marks: tuple[int, ...] = ()
    going: tuple[int, ...] = ()
    count: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of the strip, to be looked at closer."""

    x: float
    width: float
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Picture:
    view: TimelineView
    ticks: tuple[Tick, ...]
    lanes: tuple[Lane, ...]
    cells: tuple[Cell, ...]
    now: float | None


def draw(instance: OverviewInstance, view: TimelineView, zone: ZoneInfo) -> Picture:
    """Draw what can be restored and was promised, the backups by tier, and what each destination lacks."""
    now = instance.looked
    return Picture(
        view=view,
        ticks=ticks(view, zone, max(2, view.width // COLUMNS_A_TICK)),
        lanes=(
            _reach(instance, view),
            *_tiers(instance, view),
            *_leaving(instance, view),
            *_destinations(instance, view),
        ),
        cells=_cells(view),
        now=view.column(now) if view.start <= now <= view.end else None,
    )


def bars(spans: Iterable[tuple[datetime, datetime]], view: TimelineView) -> tuple[Bar, ...]:
    """Bars of these times, those that would touch each other as one."""
    found: list[Bar] = []
    for after, to in sorted(spans):
        if not view.touches(after, to):
            continue
        x, end = view.column(after), view.column(to)
        if end - x < NARROWEST:
            x = max(0.0, min(x, view.width - NARROWEST))
            end = x + NARROWEST
        last = found[-1] if found else None
        if last and x < last.x + last.width + 1:
            end = max(end, last.x + last.width)
            found[-1] = Bar(last.x, round(end - last.x, 2), last.count + 1, last.after, max(last.to, to))
        else:
            found.append(Bar(x, round(end - x, 2), 1, after, to))
    return tuple(found)


def marks(moments: Iterable[datetime], view: TimelineView) -> tuple[int, ...]:
    """The columns of these moments, each once."""
    there = (m for m in moments if view.start <= m <= view.end)
    return tuple(sorted({int(view.column(m)) // COLUMN * COLUMN for m in there}))


def _reach(instance: OverviewInstance, view: TimelineView) -> Lane:
    return Lane(
        name="Can be restored",
        bars=(
            ("promise", bars([(instance.promised, instance.looked)] if instance.promised else [], view)),
            ("reach", bars(((r.after, r.to) for r in instance.ranges), view)),
            ("gap", bars(((g.after, g.to) for g in instance.gaps), view)),
        ),
        total=len(instance.gaps),
    )


def _tiers(instance: OverviewInstance, view: TimelineView) -> list[Lane]:
    """A lane for each tier, in the order in which the backups name them, and one for all others."""
    bases = [b for b in instance.backups if b.kind == "base"]
    tiers: dict[str, list[OverviewBackup]] = {}
    for backup in bases:
        for tier in backup.tiers:
            tiers.setdefault(tier, []).append(backup)
    lanes = [_lane(name, found, view) for name, found in tiers.items()]
    if others := [b for b in bases if not b.tiers]:
        lanes.append(_lane("Other backups" if tiers else "Backups", others, view))
    if logs := [b for b in instance.backups if b.kind == "log"]:
        lanes.append(_lane("Log only", logs, view))
    return lanes


def _lane(name: str, found: Sequence[OverviewBackup], view: TimelineView) -> Lane:
    return Lane(
        name=name,
        marks=marks((b.taken for b in found if b.keep), view),
        going=marks((b.taken for b in found if not b.keep), view),
        count=sum(view.start <= b.taken <= view.end for b in found),
        total=len(found),
    )


def _leaving(instance: OverviewInstance, view: TimelineView) -> Iterable[Lane]:
    """Draw before when none of them goes, where the view is of what is to come."""
    moments = [b.until for b in instance.backups if b.keep and b.until is not None and not b.forever]
    if moments and view.end - instance.looked > view.span / 100:
        count = sum(view.start <= m <= view.end for m in moments)
        yield Lane(name="May be pruned from", going=marks(moments, view), count=count, total=len(moments))


def _destinations(instance: OverviewInstance, view: TimelineView) -> Iterable[Lane]:
    """Draw what has arrived, the log that is archived behind it, and what would be lost with this host."""
    first = min((*(b.taken for b in instance.backups), instance.looked))
    for each in instance.destinations:
        lost = timedelta(seconds=each.lost) if each.lost is not None else instance.looked - first
        arrived = instance.looked - lost
        exposed = [(arrived, instance.looked)] if arrived < instance.looked else []
        taken = [each.taken] if each.taken else []
        # Without a backup there, archived log leads nowhere.
        log = [(each.taken, each.archived)] if each.taken and each.archived else []
        log = [(after, to) for after, to in log if to > after]
        yield Lane(
            name=f"At {each.name}",
            bars=(("archived", bars(log, view)), ("exposed", bars(exposed, view))),
            marks=marks(taken, view),
            count=len(taken),
            total=len(taken),
        )


def _cells(view: TimelineView) -> tuple[Cell, ...]:
    count = max(1, view.width // CELL)
    width = view.width / count
    return tuple(
        Cell(round(n * width, 2), round(width, 2), view.moment(n * width), view.moment((n + 1) * width))
        for n in range(count)
    )


def zoom(view: TimelineView, factor: float, shift: float = 0.0) -> tuple[datetime, datetime]:
    """The same, `factor` times as long around its middle, moved by `shift` of its length."""
    middle = view.start + view.span * (0.5 + shift)
    half = min(view.span * factor, timedelta(days=366 * 100)) / 2
    return middle - half, middle + half
