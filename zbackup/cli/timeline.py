"""A recovery window as a picture of characters: what can be restored, and the backups by tier.

Time runs to the right, ever finer: a column near the end is seconds, one at the beginning weeks. So two hours
of five-minute backups and five yearly ones are seen at once.
"""

import math
from collections.abc import Iterable
from datetime import datetime

from zbackup.jobs.watch.window import WindowReport
from zbackup.model.retention import Retention

NARROWEST = 30
"""Columns that a picture has at the least, however narrow the terminal is."""

FINEST_S = 30.0
"""Age at the right edge."""

TICKS = (
    ("1 min", 60.0),
    ("10 min", 600.0),
    ("1 h", 3600.0),
    ("6 h", 6 * 3600.0),
    ("1 d", 86400.0),
    ("1 w", 7 * 86400.0),
    ("1 mon", 30 * 86400.0),
    ("1 y", 365 * 86400.0),
    ("10 y", 3650 * 86400.0),
)


LEGEND = "# can be restored   x gap   = promised by the retention policy   | backup"


def picture(report: WindowReport, rules: Retention, width: int) -> list[str]:
    """The picture in `width` columns: a scale, what can be restored, a row for each tier, a legend."""
    by_tier: dict[str, list[datetime]] = {tier.name: [] for tier in rules.tiers}
    others = []
    for kept in report.kept:
        names = [t for t in by_tier if any(r.startswith(f"{t} ") for r in kept.reasons)]
        for name in names:
            by_tier[name].append(kept.backup.record.taken)
        if not names:
            others.append(kept.backup.record.taken)
    marked = [*by_tier.items(), ("other backups" if by_tier else "backups", others)]
    labels = max(len(name) for name in ("restorable", *(name for name, _ in marked))) + 2
    promised = report.promised
    oldest = min([*(r.after for r in report.window.ranges), *([promised] if promised else [])])
    axis = _Axis(report.now, oldest, max(width - labels, NARROWEST))
    rows = [
        ("", axis.scale()),
        ("restorable", _restorable(report, axis)),
        *([("promised", axis.bar([(promised, report.now)], "=", " "))] if promised else []),
        *((name, axis.marks(taken)) for name, taken in marked),
    ]
    return [*(f"{name:<{labels}}{content}".rstrip() for name, content in rows), LEGEND]


def _restorable(report: WindowReport, axis: "_Axis") -> str:
    """Ranges, with at least one column for each gap however short it is."""
    drawn = list(axis.bar([(r.after, r.to) for r in report.window.ranges], "#", " "))
    for gap in report.window.gaps:
        for column in range(axis.column(gap.after), axis.column(gap.to) + 1):
            drawn[column] = "x"
    return "".join(drawn)


class _Axis:
    """Columns by the logarithm of age."""

    def __init__(self, now: datetime, oldest: datetime, width: int) -> None:
        self._now, self._width = now, width
        self._span = math.log(max((now - oldest).total_seconds(), 60.0) / FINEST_S)

    def column(self, moment: datetime) -> int:
        return self._of_age((self._now - moment).total_seconds())

    def _of_age(self, seconds: float) -> int:
        fraction = math.log(max(seconds, FINEST_S) / FINEST_S) / self._span
        return max(0, min(self._width - 1, round((self._width - 1) * (1 - fraction))))

    def scale(self) -> str:
        """Ages above the columns they belong to, as far as they have room."""
        line = list(" " * (self._width - 3) + "now")
        for label, seconds in TICKS:
            start = self._of_age(seconds)
            around = line[max(0, start - 1) : start + len(label) + 1]
            inside = math.log(seconds / FINEST_S) <= self._span
            if inside and start + len(label) <= self._width and all(c == " " for c in around):
                line[start : start + len(label)] = label
        return "".join(line)

    def bar(self, spans: Iterable[tuple[datetime, datetime]], full: str, empty: str) -> str:
        line = [empty] * self._width
        for after, to in spans:
            begin, end = self.column(after), self.column(min(to, self._now))
            line[begin : end + 1] = full * (end + 1 - begin)
        return "".join(line)

    def marks(self, moments: Iterable[datetime]) -> str:
        line = [" "] * self._width
        for moment in moments:
            line[self.column(moment)] = "|"
        return "".join(line)
