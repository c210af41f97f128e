"""Readings of this host's clock, taken with snapshots, by which the times in a log are bounded. Pure.

See commit_times for what they decide.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from zbackup.model.clock_reading import Reading
from zbackup.model.commit_times import NEVER, SECOND, Bounds, Position, Rules

DRIFT: Final = 5e-4
"""Seconds a second that a wall clock may go off the machine's uptime without a step: adjtimex(2) slews by 500
ppm at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """This host's clock when the log ended at `position`, in microseconds: what stands before it was
    committed by `latest`, and what stands behind it not before `earliest`; unless the server was a `replica`
    then: that has its source's times, and what follows may have been committed there any lag ago. `said` is
    how far the log's own times had come there, None if that is not known; `clock` is what else was known
    then."""

    position: Position
    earliest: int
    latest: int
    clock: Reading | None = None
    replica: bool = False
    said: int | None = None


def dependable(anchors: Iterable[Anchor], rules: Rules) -> list[Anchor]:
    """The anchors that can be relied on, in the order of the log.

    The clock as it is now is what people go by. In the run of the machine in which the newest were taken, its
    uptime tells which of the others a clock had that was stepped since. Of another run those of a
    synchronised clock are good. Whatever is later than what was taken after it is not.
    """
    ordered = sorted(anchors, key=lambda a: (a.position, a.clock.uptime if a.clock else 0.0))
    present = {a.clock.boot for a in ordered if a.clock and a.position == ordered[-1].position}
    found: list[Anchor] = []
    nearest: dict[str, Anchor] = {}
    least = NEVER
    for anchor in reversed(ordered):
        clock = anchor.clock
        if clock is None or not (clock.synchronised or clock.boot in present):
            continue
        in_step = _same_clock(anchor, nearest.get(clock.boot, anchor), rules.tolerance)
        if in_step and anchor.earliest <= least + rules.tolerance:
            nearest[clock.boot] = anchor
            least = min(least, anchor.latest)
            found.append(anchor)
    return found[::-1]


def _same_clock(one: Anchor, other: Anchor, tolerance: int) -> bool:
    """Whether the wall clock was not stepped between two readings in one run of the machine."""
    if one.clock is None or other.clock is None:
        return True
    passed = (other.clock.uptime - one.clock.uptime) * SECOND
    return abs(other.earliest - one.earliest - passed) <= tolerance + abs(passed) * DRIFT


def bounds(anchors: Sequence[Anchor], stop: int, rules: Rules) -> Bounds:
    """What dependable anchors, in the order of the log, say of the stop point for a target."""
    slack = rules.tolerance
    before = [a for a in anchors if a.latest + slack <= stop]
    # A replica's times may be behind this host's clock by any lag, and so by them is what follows.
    behind = [] if rules.replica else [a for a in anchors if not a.replica and a.earliest - slack >= stop]
    low, high = (before[-1] if before else None), (behind[0] if behind else None)
    last = high or (anchors[-1] if anchors else None)
    return Bounds(
        after=low.position if low else (0, 0),
        said=min(low.said or 0, low.latest + slack) if low else 0,
        passed=low.latest + slack if low else 0,
        upto=high.position if high else None,
        floor=low.earliest - slack if low and not (rules.replica or low.replica) else 0,
        ceiling=last.latest + slack if last else NEVER,
    )
