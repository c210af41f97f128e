"""Decide when a job is due, from what is known of its last runs. Pure: asked again it answers the same."""

import hashlib
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from zbackup.model.cron import Cron
from zbackup.model.errors import VerificationFailed
from zbackup.model.schedule import Due, Interval, Retry, Timing

DIFFERENT = VerificationFailed.__name__

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Two clocks of one machine may disagree by that much without anybody having set one.
CLOCK_TOLERANCE = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A job's last success (None: never), whether there was `more` to do, and its failures since then.

    `error` and `message` are of the last of those, or of the last that found a difference: that another one
    could not look does not disprove it. `since` is when that became known: what is to be done at once waits
    from then on, and others that become due later come after it. `postponed` is when it gave way
    last, and `gave_way` to what.
    """

    last: datetime | None = None
    more: bool = False
    failures: int = 0
    failed: datetime | None = None
    error: str = ""
    message: str = ""
    since: datetime | None = None
    postponed: datetime | None = None
    gave_way: str = ""

    @property
    def differs(self) -> bool:
        """Whether what was compared was different, and no success has said otherwise since."""
        return bool(self.failures) and self.error == DIFFERENT

    def after(self, error: str, message: str, now: datetime) -> "History":
        """The same after one more failure, of this name."""
        if self.differs and error != DIFFERENT:
            error, message = self.error, self.message
        failures = self.failures + 1
        return replace(self, failures=failures, failed=now, error=error, message=message, postponed=None)


@dataclass(frozen=True, slots=True)
class CronSlots:
    """The times at which a cron expression lets a job run, each `offset` seconds later. They are no interval
    apart: none may come at night."""

    cron: Cron
    zone: ZoneInfo
    offset: float = 0

    def after(self, moment: datetime, count: int = 1) -> datetime:
        """The first of them after the moment, or the one that is `count` on."""
        shift = timedelta(seconds=self.offset)
        found = moment - shift
        for _ in range(count):
            found = self.cron.next_after(found, self.zone)
        return found + shift


def due(
    timing: Timing, retry: Retry, history: History, now: datetime, zone: ZoneInfo, *, offset: float = 0
) -> Due:
    """When the job runs next: at the first slot after its last success, `offset` seconds into it.

    A time in the past means at once: slots that were missed are made up for by one run. A last success in
    the future is a clock that was put back: it is no reason to wait. After a failure it is tried again
    sooner, and less often each time.
    """
    if history.postponed and (history.failed is None or history.postponed >= history.failed):
        wait = timedelta(seconds=back_off(timing, retry, 1))
        return Due(at=min(history.postponed, now) + wait, reason=f"postponed: {history.gave_way}")
    if history.failures and history.failed:
        wait = timedelta(seconds=back_off(timing, retry, history.failures))
        reason = f"failed {history.failures} times in a row" if history.failures > 1 else "failed"
        return Due(at=min(history.failed, now) + wait, reason=reason)
    at_once = min(history.since or now, now)
    if history.more:
        return Due(at=at_once, reason="not done yet")
    if history.last is None:
        return Due(at=at_once, reason="never done yet")
    if history.last > now + CLOCK_TOLERANCE:
        return Due(at=at_once, reason="the last one is from the future: the clock was put back")
    shift = timedelta(seconds=offset)
    slot = _slot_after(timing, history.last - shift, zone) + shift
    if slot < now - CLOCK_TOLERANCE:
        return Due(at=slot, reason="overdue")
    return Due(at=slot, reason="on schedule")


def back_off(timing: Timing, retry: Retry, failures: int) -> float:
    """Seconds to wait after that many failures in a row. Who runs every few seconds begins with those."""
    first = min(retry.first, timing.seconds) if isinstance(timing, Interval) else retry.first
    # The exponent is bounded because a float is: after days of failures it would overflow.
    return min(first * 2.0 ** min(failures - 1, 60), max(retry.most, first))


def offset(name: str, jitter: float) -> float:
    """This job's own share of the jitter, in seconds: the same after every restart."""
    share = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
    return share * jitter


def expected_every(timing: Timing, now: datetime, zone: ZoneInfo) -> float:
    """Seconds between two runs on schedule; of a cron expression the longest of its next few waits."""
    if isinstance(timing, Interval):
        return timing.seconds
    longest, before = timedelta(), timing.next_after(now, zone)
    for _ in range(8):
        after = timing.next_after(before, zone)
        longest, before = max(longest, after - before), after
    return longest.total_seconds()


def clock_jumped(before: tuple[datetime, float], after: tuple[datetime, float]) -> timedelta | None:
    """How far the wall clock went beyond the monotonic one between two looks at (wall, monotonic).

    None when they agree. A machine that slept looks like a clock put forward, and that is as it should be.
    """
    wall, steady = after[0] - before[0], timedelta(seconds=after[1] - before[1])
    return wall - steady if abs(wall - steady) > CLOCK_TOLERANCE else None


def _slot_after(timing: Timing, moment: datetime, zone: ZoneInfo) -> datetime:
    match timing:
        case Cron():
            return timing.next_after(moment, zone)
        case Interval(seconds):
            slots = math.floor((moment - EPOCH).total_seconds() / seconds)
            found = EPOCH + timedelta(seconds=(slots + 1) * seconds)
            # A datetime is rounded to microseconds, so that a slot just behind the moment may be the moment.
            return found if found > moment else EPOCH + timedelta(seconds=(slots + 2) * seconds)
