"""Tell until when backups certainly stay, whatever is taken and pruned until then. Pure.

A backup that is the oldest of its period keeps that place: of each period the oldest is kept, and nobody
takes one that is older. So it stays until the tier's span has gone by, and one with a date of its own until
then.
Nothing certain can be told of the other reasons: newer backups take the place of the last few, of the newest
and of what the window begins with, clones go and holds end.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup
from zbackup.model.retention import FOREVER, Retention, Tier
from zbackup.plan.calendar import ends, forward, period


def stays_until(
    backups: Sequence[Backup], policy: Retention, now: datetime, zone: ZoneInfo
) -> dict[str, datetime]:
    """Map Record.backup to the moment before which no prune by this policy and by a clock that goes right
    destroys it. What is not in it may go, or has no end that is known."""
    ordered = sorted(backups, key=lambda b: (b.createtxg, b.record.backup))
    sound = [b for b in ordered if _is_sound(b)]
    if policy.empty:
        return {b.record.backup: FOREVER for b in sound}
    found: dict[str, datetime] = {}
    for backup, until in (*_by_tiers(ordered, policy, zone), *_by_date(sound, policy)):
        name = backup.record.backup
        if until > found.get(name, now):
            found[name] = until
    sure = {b.record.backup for b in sound}
    return {name: until for name, until in found.items() if name in sure}


def _is_sound(backup: Backup) -> bool:
    members = {dataset for dataset, _ in backup.record.members}
    return (
        backup.record.purpose == "base"
        and backup.complete
        and backup.finished
        and all(s.dataset in members for s in backup.snapshots)
    )


def _by_tiers(
    ordered: Sequence[Backup], policy: Retention, zone: ZoneInfo
) -> Iterator[tuple[Backup, datetime]]:
    """One that is not whole, or whose time is in doubt, may come to count, and then has its place."""
    timed = [(b, b.record.taken.astimezone(zone)) for b in ordered if b.record.purpose == "base"]
    for tier in policy.tiers:
        seen: set[int] = set()
        for backup, local in timed:
            number = period(tier.step, local)
            if number not in seen:
                seen.add(number)
                yield backup, _end(tier, local, zone)


def _end(tier: Tier, local: datetime, zone: ZoneInfo) -> datetime:
    if tier.span is None:
        return FOREVER
    try:
        return forward(ends(tier.step, local, zone), tier.span, zone)
    except (OverflowError, ValueError):
        return FOREVER


def _by_date(sound: Sequence[Backup], policy: Retention) -> Iterator[tuple[Backup, datetime]]:
    for backup in sound:
        end = backup.record.keep_until
        if end is not None:
            most = policy.keep_at_most
            yield backup, end if most is None else min(end, backup.record.taken + most)
