"""Decide which backup a drill on schedule restores, and to which moment. Pure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import position_of
from zbackup.plan.recovery.coverage import continues, first_break, log_known
from zbackup.plan.recovery.recovery import drill_target
from zbackup.plan.recovery.window import usable_bases


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillPlan:
    """Start from `base`, and go to `moment`; `whole`: all of the log that backups hold behind it, whatever
    the times in it say."""

    base: Backup
    moment: datetime
    whole: bool


def plan_whole_drill(backups: Sequence[Backup]) -> DrillPlan:
    """Start from the backup before the end of the log, and go to that end. Raise NotRecoverable."""
    moment, name = drill_target(backups)
    return DrillPlan(base=_named(name, backups), moment=moment, whole=True)


def plan_drill(
    backups: Sequence[Backup],
    passed: Collection[str],
    effective_target: Callable[[datetime], datetime],
    out_of_order: Callable[[Backup], bool] = lambda _: False,
) -> DrillPlan:
    """The newest backup that no drill has `passed` yet and that log leads on from, to a moment halfway
    between it and the next one that holds more of the log.

    Of backups that all passed, the newest again. Where no moment is between two, or the log's times cannot be
    relied on there (`out_of_order`), all of the log up to the end. `effective_target` is the
    engine's: see LogReader. Raise NotRecoverable when there is no backup.
    """
    end = plan_whole_drill(backups)
    found: tuple[Backup, Backup] | None = None
    for base in sorted(usable_bases(backups), key=lambda b: b.createtxg, reverse=True):
        after = _next(base, backups)
        if after and base.record.backup not in passed:
            found = base, after
            break
        found = found or ((base, after) if after else None)
    if found is None:
        return end
    base, after = found
    moment = _between(base, after, effective_target)
    if moment is None or out_of_order(after):
        return end
    return DrillPlan(base=base, moment=moment, whole=False)


def _next(base: Backup, backups: Sequence[Backup]) -> Backup | None:
    """The first backup that holds more of the log behind the base, all of it."""
    if base.record.as_of is None or base.record.blockers or not log_known(base.record):
        return None
    ended = position_of(base.record.log_to)
    more = (
        b
        for b in backups
        if b.complete and b.finished and continues(b, base) and position_of(b.record.log_to) > ended
    )
    found = min(more, key=lambda b: (position_of(b.record.log_to), b.createtxg), default=None)
    return None if found is None or first_break(base, found, backups) else found


def _between(
    base: Backup, after: Backup, effective_target: Callable[[datetime], datetime]
) -> datetime | None:
    begin, end = base.record.as_of, after.record.complete_to
    if begin is None or end is None or end <= begin:
        return None
    moment = begin + (end - begin) / 2
    return moment if begin < effective_target(moment) else None


def _named(name: str, backups: Sequence[Backup]) -> Backup:
    found = next((b for b in usable_bases(backups) if b.name == name), None)
    if found is None:
        raise NotRecoverable(f"there is no backup {name}")
    return found
