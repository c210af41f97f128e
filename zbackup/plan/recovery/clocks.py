"""Backups whose time cannot be right, because a clock was wrong when they were taken or is wrong now. Pure.

Nothing is destroyed for its age when its age is in doubt. ZFS numbers its transaction groups, so the order in
which snapshots came to be is known for certain, whatever the clock said.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.retention import Reason

LEAP = timedelta(days=3)
"""A shorter time without a backup is never taken for a clock that leapt."""
TIMES_LONGER = 3
"""... nor one that is not this many times as long as any of the last few before it."""
BEFORE = 5
LEAP_AFTER_FEW = timedelta(days=366)
"""With fewer before it only a longer time is taken for a leap: few say little about the cadence."""
TOLERANCE = timedelta(minutes=1)
"""Clocks are nudged and leap seconds come: less is no leap."""
BELIEVED_AFTER = timedelta(days=7)
"""The time after a leap by which somebody would have noticed a wrong clock; then it counts as time that has
passed."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """`timed` are the backups whose time is as good as any, oldest first; `kept` the others, and why."""

    timed: list[Backup]
    kept: list[tuple[Backup, Reason]]


def doubts(
    ordered: Sequence[Backup],
    now: datetime,
    expired: Callable[[datetime], bool],
    say: Callable[[datetime], str],
) -> Doubts:
    """Look at backups in order of creation.

    `expired` tells whether a backup taken at a moment would be too old for every tier, `say` writes a moment.
    """
    found = Doubts([], [])
    taken = [b.record.taken for b in ordered]
    earliest_after = _earliest_after(taken)
    latest_before: datetime | None = None
    for backup, at, after in zip(ordered, taken, earliest_after, strict=True):
        if at > now:
            found.kept.append((backup, Reason(f"taken in the future ({say(at)}): the clock was or is wrong")))
            continue
        latest = max(at, latest_before or at)
        if latest == at and (after is None or at <= after):
            found.timed.append(backup)
        elif not expired(latest):
            found.kept.append((backup, Reason(f"its time ({say(at)}) contradicts the order of creation")))
        latest_before = latest
    found.kept.extend(_kept_back(ordered, found.timed, now, say))
    return found


def _earliest_after(taken: Sequence[datetime]) -> list[datetime | None]:
    found: list[datetime | None] = []
    earliest: datetime | None = None
    for at in reversed(taken):
        found.append(earliest)
        earliest = min(at, earliest or at)
    return found[::-1]


def _kept_back(
    ordered: Sequence[Backup], timed: Sequence[Backup], now: datetime, say: Callable[[datetime], str]
) -> list[tuple[Backup, Reason]]:
    """What was made before the newest leap, and the first one after it, until the leap is believed."""
    taken = [b.record.taken for b in timed]
    index = _newest_leap(taken, now)
    if index is None:
        return []
    if index == len(taken):
        since = f"{say(taken[-1])}: nothing is destroyed until there is a newer one"
        return [(backup, Reason("none was taken since", since)) for backup in ordered]
    leapt = f"{say(taken[index - 1])} to {say(taken[index])}"
    why = Reason("the clock went from", f"{leapt}: in doubt until {say(taken[index] + BELIEVED_AFTER)}")
    return [(backup, why) for backup in ordered if backup.createtxg <= timed[index].createtxg]


def _newest_leap(taken: Sequence[datetime], now: datetime) -> int | None:
    """The index of the first backup after the newest leap that is not believed yet."""
    moments = [*taken, now]
    for index in range(len(taken), 0, -1):
        if index < len(taken) and taken[index] <= now - BELIEVED_AFTER:
            return None
        leap = moments[index] - moments[index - 1]
        few = range(max(1, index - BEFORE), index)
        before = max((moments[n] - moments[n - 1] for n in few), default=timedelta())
        if leap > max(LEAP if index > BEFORE else LEAP_AFTER_FEW, TIMES_LONGER * before):
            return index
    return None


def certain_now(
    ordered: Sequence[Backup], now: datetime, reading: Reading, say: Callable[[datetime], str]
) -> tuple[datetime, str]:
    """The moment by which to count ages, and why it is not `now` ("" if it is).

    No backup is taken for older than it certainly is. In one run of the machine its uptime tells how much
    time has passed; between two moments at which the clock was synchronised the clock does. Otherwise nothing
    but the uptime of the later run has certainly passed: a clock that was put forward looks just like a
    machine that was off. What was so BELIEVED_AFTER ago is believed: somebody would have noticed.
    """
    marked = [(b.record.taken, b.record.clock) for b in ordered if b.record.clock]
    certain, since = now, now
    right = (now, timedelta()) if reading.synchronised else None
    later, passed = reading, timedelta()
    for taken, clock in reversed(marked):
        if passed >= BELIEVED_AFTER:
            break
        passed += _certainly_between(clock, later)
        if clock.synchronised:
            if right is not None:
                passed = max(passed, right[0] - taken + right[1])
            right = (taken, passed)
        if taken + passed < certain:
            certain, since = taken + passed, taken
        later = clock
    if now - certain <= TOLERANCE:
        return now, ""
    ahead = timedelta(seconds=round((now - certain).total_seconds()))
    return certain, (
        f"the clock went on by {ahead} (h:m:s) more than has certainly passed since {say(since)}, and may be "
        f"wrong: ages are counted up to {say(certain)}"
    )


def of_any_machine(ordered: Sequence[Backup], reading: Reading) -> Reading:
    """The reading of a machine that need not be the one that took the backups, to call certain_now() with.

    How long it has been up says nothing of when another machine took the newest of them: unless that was in
    this very run, nothing has certainly passed since. Whether its clock is synchronised counts as ever.
    """
    newest = next((b.record.clock for b in reversed(ordered) if b.record.clock), None)
    return reading if newest and newest.boot == reading.boot else replace(reading, uptime=0.0)


def _certainly_between(one: Reading, later: Reading) -> timedelta:
    """How much time certainly passed, by the uptimes alone."""
    if one.boot == later.boot:
        return timedelta(seconds=max(0.0, later.uptime - one.uptime))
    return timedelta(seconds=later.uptime)


def turned_back(ordered: Sequence[Backup], start: datetime) -> list[tuple[Backup, Reason]]:
    """Backups, in order of creation, whose data reaches further than that of a later one with another log.

    So it is when a server was set up again from older data, after a failover or a recovery. Without the last
    one before a moment after `start`, a recovery would take one of the newer history for it, and miss what
    was committed in the older one.
    """
    found: list[tuple[Backup, Backup]] = []
    lowest: list[tuple[datetime, str, Backup]] = []  # of the log that goes back farthest, and of the next
    for backup in reversed(ordered):
        as_of, log = backup.record.as_of, backup.record.log_id or backup.record.backup
        if as_of is None:
            continue
        later = next((each for each in lowest if each[1] != log), None)
        if later is not None and later[0] < as_of:
            found.append((backup, later[2]))
        mine = min((each for each in lowest if each[1] == log), default=(as_of, log, backup), key=_first)
        rest = [each for each in lowest if each[1] != log]
        lowest = sorted([*rest, min(mine, (as_of, log, backup), key=_first)], key=_first)[:2]
    before = next((older for older, _ in found if older.record.taken <= start), None)
    return [
        (kept, Reason(f"{older.name} reaches further than {newer.name}, which is newer and has another log"))
        for older, newer in found
        if older.record.taken > start or older is before
        for kept in (older, newer)
    ]


def _first(each: tuple[datetime, str, Backup]) -> datetime:
    return each[0]
