"""The rules by which backups stay: one function each, and all of them in RULES. Pure.

A rule gives the backups that it keeps, each with its Reason. Where it keeps one for a known time, whatever is
taken and pruned until then, the reason has `until`. So what a prune keeps and what is promised of it are made
of the same claims.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup
from zbackup.model.moment import local_text
from zbackup.model.retention import FOREVER, Reason, Retention, Tier
from zbackup.plan.calendar import back, begins, ends, forward, label, period

Claim = tuple[Backup, Reason]
DATED = "kept until"


@dataclass(frozen=True, slots=True)
class Scene:
    """What the rules look at, oldest first: `timed` are the bases whose time counts, `bases` all that may go,
    `sound` these with log-only snapshots."""

    timed: Sequence[Backup]
    bases: Sequence[Backup]
    sound: Sequence[Backup]
    policy: Retention
    now: datetime
    zone: ZoneInfo

    def text(self, moment: datetime) -> str:
        return local_text(moment.replace(microsecond=0), self.zone)


def by_tier(scene: Scene) -> Iterator[Claim]:
    """The oldest backup of each period. No later backup can take its place."""
    timed = [(b, b.record.taken.astimezone(scene.zone)) for b in scene.timed]
    for tier in scene.policy.tiers:
        edge = edge_of(tier, scene.now, scene.zone)
        seen = set[int]()  # where a clock was wrong, times are out of order
        for backup, local in timed:
            if edge is not None and backup.record.taken < edge:
                continue
            number = period(tier.step, local)
            if number not in seen:
                seen.add(number)
                name = label(tier.step, begins(tier.step, local), scene.zone)
                yield backup, Reason(tier.name, name, tier=tier, until=_end(tier, local, scene.zone))


def edge_of(tier: Tier, now: datetime, zone: ZoneInfo) -> datetime | None:
    """The beginning of the oldest period that the tier still keeps; None: it keeps all."""
    if tier.span is None:
        return None
    try:
        return begins(tier.step, back(now, tier.span, zone).astimezone(zone))
    except (OverflowError, ValueError):
        return None  # before the first year of the calendar


def _end(tier: Tier, local: datetime, zone: ZoneInfo) -> datetime:
    if tier.span is None:
        return FOREVER
    try:
        return forward(ends(tier.step, local, zone), tier.span, zone)
    except (OverflowError, ValueError):
        return FOREVER


def the_last(scene: Scene) -> Iterator[Claim]:
    count = scene.policy.last
    yield from ((b, Reason(f"one of the last {count}")) for b in (scene.bases[-count:] if count else ()))


def the_newest(scene: Scene) -> Iterator[Claim]:
    yield from ((b, Reason("the newest")) for b in (*scene.bases[-1:], *scene.sound[-1:]))


def by_date(scene: Scene) -> Iterator[Claim]:
    """Until the date that its maker gave it, where that is not over and counts."""
    for backup in scene.bases:
        end, taken, most = backup.record.keep_until, backup.record.taken, scene.policy.keep_at_most
        if end is not None and most is not None:
            # The date and the time are the sender's words: of one from the future nothing would ever end.
            end = min(end, taken + most) if taken <= scene.now else None
        if end is not None and scene.now < end:
            named = f", label {backup.record.label}" if backup.record.label else ""
            yield backup, Reason(DATED, f"{scene.text(end)}{named}", until=end)


RULES: tuple[Callable[[Scene], Iterator[Claim]], ...] = (by_tier, the_last, the_newest, by_date)


def claims(scene: Scene) -> Iterator[Claim]:
    for rule in RULES:
        yield from rule(scene)


def stays_until(
    backups: Sequence[Backup], policy: Retention, now: datetime, zone: ZoneInfo
) -> dict[str, datetime]:
    """Map Record.backup to the moment before which no prune by this policy and by a clock that goes right
    destroys it. What is not in it may go, or its end is not known."""
    ordered = sorted(
        (b for b in backups if b.record.purpose == "base"), key=lambda b: (b.createtxg, b.record.backup)
    )
    sound = [b for b in ordered if is_sound(b)]
    if policy.empty:
        return {b.record.backup: FOREVER for b in sound}
    found: dict[str, datetime] = {}
    # One that is not whole, or whose time is in doubt, may come to count, and then has its place.
    for backup, reason in claims(Scene(ordered, sound, sound, policy, now, zone)):
        name = backup.record.backup
        if reason.until and reason.until > found.get(name, now):
            found[name] = reason.until
    sure = {b.record.backup for b in sound}
    return {name: until for name, until in found.items() if name in sure}


def is_sound(backup: Backup) -> bool:
    members = {dataset for dataset, _ in backup.record.members}
    return backup.complete and backup.finished and all(s.dataset in members for s in backup.snapshots)
