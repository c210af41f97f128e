"""Watch whether the wall clock goes on as the uptime does: by one that leapt nothing is claimed."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from zbackup.model.clock_reading import Reading

STEP_S: Final = 5.0
"""A smaller step is none."""
DRIFT: Final = 5e-4
"""Seconds a second that a clock may go off the uptime without a step: adjtimex(2) slews by 500 ppm at
most."""
BELIEVED_AFTER_S: Final = 3600.0
"""Seconds after a leap, without another, by which somebody has set the clock right."""

_Known = tuple[datetime, Reading]


@dataclass(slots=True)
class ClockWatch:
    """Remembers the clock as it was believed last, and since it leapt."""

    _believed: _Known | None = field(default=None, init=False)
    _leapt: _Known | None = field(default=None, init=False)

    def believes(self, now: datetime, reading: Reading) -> bool:
        """Whether the wall clock can be believed: it was not stepped since it was believed last, is kept
        right over the network, or goes on evenly for an hour since it leapt."""
        known = now, reading
        if self._believed is None or reading.synchronised or _in_step(self._believed, known):
            self._believed, self._leapt = known, None
            return True
        if self._leapt is None or not _in_step(self._leapt, known):
            self._leapt = known
        if reading.uptime - self._leapt[1].uptime < BELIEVED_AFTER_S:
            return False
        self._believed, self._leapt = known, None
        return True


def _in_step(before: _Known, after: _Known) -> bool:
    """Whether the clock went as the uptime did. Of another run of the machine nothing is known."""
    if before[1].boot != after[1].boot:
        return True
    passed = after[1].uptime - before[1].uptime
    return abs((after[0] - before[0]).total_seconds() - passed) <= STEP_S + passed * DRIFT
