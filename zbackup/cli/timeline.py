"""A recovery window as a picture of characters: what can be restored, and the backups by tier.

Time runs to the right, ever finer: a column near the end is seconds, one at the beginning weeks. So two hours
of five-minute backups and five yearly ones are seen at once.
"""

import math
from collections.abc import Iterable
from datetime import datetime

from zbackup.jobs.watch.window import WindowReport
from zbackup.model.retention import Retention

WIDTH = 72
LABELS = 22
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


def picture(report: WindowReport, rules: Retention) -> list[str]:
    """The lines, without the legend of times: a scale, what can be restored, a row for each tier."""
    oldest = min([*(r.after for r in report.window.ranges), report.promised])
    axis = _Axis(report.now, oldest)
    rows = [_row("", axis.scale()), _row("restorable", _restorable(report, axis))]
    rows.append(_row("promised", axis.bar([(report.promised, report.now)], "=", " ")))
    by_tier: dict[str, list[datetime]] = {tier.name: [] for tier in rules.tiers}
    others = []
    for kept in report.kept:
        names = [t for t in by_tier if any(r.startswith(f"{t} ") for r in kept.reasons)]
        for name in names:
            by_tier[name].append(kept.backup.record.taken)
        if not names:
            others.append(kept.backup.record.taken)
    rows += [_row(name, axis.marks(taken)) for name, taken in by_tier.items()]
    rows.append(_row("other backups" if by_tier else "backups", axis.marks(others)))
    return rows


def _row(name: str, content: str) -> str:
    return f"{name:<{LABELS}}{content}".rstrip()


def _restorable(report: WindowReport, axis: "_Axis") -> str:
    """Ranges, with at least one column for each gap however short it is."""
    drawn = list(axis.bar([(r.after, r.to) for r in report.window.ranges], "#", " "))
    for gap in report.window.gaps:
        for column in range(axis.column(gap.after), axis.column(gap.to) + 1):
            drawn[column] = "x"
    return "".join(drawn)


class _Axis:
    """Columns by the logarithm of age."""

    def __init__(self, now: datetime, oldest: datetime) -> None:
        self._now = now
        self._span = math.log(max((now - oldest).total_seconds(), 60.0) / FINEST_S)

    def column(self, moment: datetime) -> int:
        return self._of_age((self._now - moment).total_seconds())

    def _of_age(self, seconds: float) -> int:
        part = math.log(max(seconds, FINEST_S) / FINEST_S) / self._span
        return max(0, min(WIDTH - 1, round((WIDTH - 1) * (1 - part))))

    def scale(self) -> str:
        """Ages above the columns they belong to, as far as they have room."""
        line = list(" " * (WIDTH - 3) + "now")
        for label, seconds in TICKS:
            start = self._of_age(seconds)
            around = line[max(0, start - 1) : start + len(label) + 1]
            inside = math.log(seconds / FINEST_S) <= self._span
            if inside and start + len(label) <= WIDTH and all(c == " " for c in around):
                line[start : start + len(label)] = label
        return "".join(line)

    def bar(self, spans: Iterable[tuple[datetime, datetime]], full: str, empty: str) -> str:
        line = [empty] * WIDTH
        for after, to in spans:
            begin, end = self.column(after), self.column(min(to, self._now))
            line[begin : end + 1] = full * (end + 1 - begin)
        return "".join(line)

    def marks(self, moments: Iterable[datetime]) -> str:
        line = [" "] * WIDTH
        for moment in moments:
            line[self.column(moment)] = "|"
        return "".join(line)
