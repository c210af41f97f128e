"""Answer what people ask at three in the morning: can a moment be had, and what would be lost? Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from zbackup.model.overview import Drill, OverviewDestination, OverviewGap, OverviewInstance

MOST_ESTIMATE_S = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to whether a moment can be had. `gap` is why not, None where it is before all backups or
    after the end; `before` and `after` are the nearest moments that can be. `as_it_is` names a backup that
    is exactly of that moment."""

    verdict: Literal["yes", "no", "future", "unknown"]
    gap: OverviewGap | None = None
    before: datetime | None = None
    after: datetime | None = None
    as_it_is: str = ""


def can_be_restored(instance: OverviewInstance, at: datetime) -> Answer:
    """Whether everything committed before `at` can be had, by the ranges and gaps that are known."""
    if at > instance.looked:
        return Answer("future", before=instance.ranges[-1].to if instance.ranges else None)
    if any(r.after < at <= r.to for r in instance.ranges):
        return Answer("yes")
    own = next((b.name for b in instance.backups if b.opens and b.as_of == at), "")
    before = max((r.to for r in instance.ranges if r.to < at), default=None)
    after = min((r.after for r in instance.ranges if r.after >= at), default=None)
    gap = next((g for g in instance.gaps if g.after < at <= g.to), None)
    unseen = bool(instance.note) and after is None and bool(instance.ranges)
    return Answer("unknown" if unseen else "no", gap, before, after, own)


def best_destination(instance: OverviewInstance) -> OverviewDestination | None:
    """The destination that has the most: what is not there is lost with this host. None where nothing is
    anywhere else."""
    there = [d for d in instance.destinations if d.lost is not None]
    return min(there, key=lambda d: d.lost or 0.0, default=None)


def estimate(drills: tuple[Drill, ...], transactions: int | None) -> tuple[float, Drill] | None:
    """Seconds that a restore will take, by the last drill that passed here, and that drill; None where none
    measured it."""
    passed = [d for d in drills if not d.why and d.seconds and not d.destination]
    if not passed or transactions is None:
        return None
    last = max(passed, key=lambda d: d.at)
    # Its replay counts as all of it, so that more is said than it will take, and never less than it took.
    share = transactions / last.transactions if last.transactions else 1.0
    return min(last.seconds * max(1.0, share), MOST_ESTIMATE_S), last
