"""Decide how to reach a moment: a base to start from and a later holder of the log. Pure.

The rule everywhere: everything committed before the target is there, nothing from the target on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup, finished
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, NotRecoverable
from zbackup.model.log import ClusterTime, position_of
from zbackup.model.record import ARCHIVED, Record
from zbackup.plan.recovery.as_it_is import no_moments
from zbackup.plan.recovery.coverage import Coverage, continues, first_break, log_known, silences_behind
from zbackup.plan.recovery.window import Window, moment_bases, recovery_window, usable_bases

_DAY = timedelta(days=1)
"""More than any zone is away from UTC."""

_NONE = "there is no finished backup to start from: run zbackup snapshot first"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    """`base` to start from; `log` to replay from, None when a snapshot has to be taken for it now.

    `as_it_is`: nothing is replayed, and `log` is `base`. `others` are later snapshots of which none is known
    not to hold the log up to the target, when this one proves not to.
    """

    base: Backup
    log: Backup | None
    reason: str
    as_it_is: bool = False
    others: tuple[Backup, ...] = ()


def plan_recovery(
    target: datetime,
    now: datetime,
    backups: Sequence[Backup],
    zone: ZoneInfo,
    *,
    effective: datetime | None = None,
    cluster_time: ClusterTime | None = None,
    base: str = "",
) -> RecoveryPlan:
    """The newest base whose last transaction is before the target, and the oldest later log up to it.

    `effective` is the target as the log's clock can tell it, if that is not the target itself: of a log that
    knows whole seconds only it is the beginning of the target's second, and a base that reaches into that
    second holds too much. Unless the target is `cluster_time`, and the base was seen to end before.
    `base` names the one to start from instead of the newest. Raise NotFound when there is none of that name;
    NotRecoverable, with the window, when no base is old enough or the target is in the future.
    Times in messages are in `zone`.
    """
    effective = effective or target
    usable = usable_bases(backups)
    bases = [b for b in moment_bases(backups) if not base] or [b for b in usable if base in ("", b.name)]
    if base and not bases:
        raise NotFound(f"there is no finished backup {base} to start from: see zbackup list")
    if alone := [b for b in bases if b.record.blockers]:
        raise no_moments(max(alone, key=lambda b: (not _is_after(b, target), b.createtxg)))
    reachable = recovery_window(backups, None, now).overall
    if reachable is None:
        raise NotRecoverable(_NONE)
    if target > now:
        raise NotRecoverable(
            f"that moment is in the future; the recovery window is {reachable.describe(zone)}"
            f"{_in_utc(target, reachable, now, zone)}"
        )
    older = [b.backup for b in finished(bases) if b.as_of < effective]
    older = older or [
        b.backup for b in finished(bases) if cluster_time and b.backup.ends_before(cluster_time)
    ]
    if not older:
        coarse = " (the log knows whole seconds only)" if effective < target else ""
        none = f"{base} is not that old" if base else "no backup is that old"
        in_utc = _in_utc(target, reachable, now, zone)
        raise NotRecoverable(f"{none}; the recovery window is {reachable.describe(zone)}{coarse}{in_utc}")
    start, log = _proven(target, older, backups) or _likeliest(target, older, backups)
    require_whole_log(start, log, backups, f"the recovery window is {reachable.describe(zone)}")
    _require_shown(target, start, backups)
    others = tuple(b for b in _later(target, start, backups) if log and b is not log)
    return RecoveryPlan(base=start, log=log, reason=_reason(start, log, asked=bool(base)), others=others)


def _in_utc(target: datetime, reachable: Window, now: datetime, zone: ZoneInfo) -> str:
    """What to write if a clock in UTC was read: only where that time can be reached, and this one
    cannot."""
    if not reachable.start - _DAY < target < now + _DAY:
        return ""
    wall = target.astimezone(zone).replace(tzinfo=None)
    meant = wall.replace(tzinfo=UTC)
    if meant == target or not reachable.start < meant <= now:
        return ""
    return f'; the same time in UTC is inside it: --to "{wall.isoformat(" ")} UTC"'


def require_whole_log(base: Backup, log: Backup | None, backups: Sequence[Backup], window: str) -> None:
    """Raise NotRecoverable when the log from the base up to `log` is known to lack something."""
    if broken := first_break(base, log, backups):
        since = (b for b in usable_bases(backups) if b.record.blockers and b.createtxg >= broken.createtxg)
        alone = min(since, key=_age, default=None)
        own = f"; what was there then comes with {command_line('--to-backup', alone.name)}" if alone else ""
        raise NotRecoverable(f"no whole log leads there from {base.name}: {broken.log_break}{own}; {window}")


def _require_shown(target: datetime, base: Backup, backups: Sequence[Backup]) -> None:
    """Raise NotRecoverable for a moment of which the log does not show what was committed."""
    for silent in silences_behind(base, backups):
        if silent.after < target <= silent.to:
            ends = [b for b in usable_bases(backups) if b.record.log_to == silent.position]
            name = max(ends, key=_age).name if ends else ""
            own = f". To restore the state of that backup: --to-backup {command_line(name)}" if name else ""
            raise NotRecoverable(f"{silent.told}{own}")


def plan_as_it_is(base: Backup) -> RecoveryPlan:
    """To restore a backup as it is."""
    reason = f"{base.name} is restored as it is, with nothing replayed"
    return RecoveryPlan(base=base, log=base, reason=reason, as_it_is=True)


def plan_whole_log(backups: Sequence[Backup], *, base: str = "") -> RecoveryPlan:
    """The newest backup, whatever its times say, and all of the log behind it, which is yet to be read.

    `base` names the one to start from instead. Raise NotFound when there is none of that name, NotRecoverable
    when there is none at all.
    """
    bases = [b for b in usable_bases(backups) if base in ("", b.name)]
    if base and not bases:
        raise NotFound(f"there is no finished backup {base} to start from: see zbackup list")
    if not bases:
        raise NotRecoverable(_NONE)
    start = max(bases, key=_age)
    chosen = f"{start.name} was asked for" if base else f"{start.name} is the newest backup"
    return RecoveryPlan(base=start, log=None, reason=f"{chosen}; all of the log behind it is wanted")


def farthest_log(base: Backup, backups: Sequence[Backup]) -> Backup | None:
    """The snapshot that holds the most of the log behind a base; None where that was not recorded."""
    holders = [
        b
        for b in backups
        if b.complete and b.finished and continues(b, base) and not first_break(base, b, backups)
    ]
    return max(holders, key=lambda h: (position_of(h.record.log_to), h.createtxg), default=None)


def drill_target(backups: Sequence[Backup]) -> tuple[datetime, str]:
    """Choose what proves most when it is tried: all of the log that snapshots hold, from the base before its
    end.

    The moment is that of the last transaction, and the name that of the base. Where no older base leads to
    the newest log, as with one backup alone, it is the newest base itself. Raise NotRecoverable when there
    is none.
    """
    bases = usable_bases(backups)
    if not bases:
        raise NotRecoverable(_NONE)
    newest_base = max(bases, key=_age)
    newest = farthest_log(newest_base, backups) or newest_base
    older = [
        b
        for b in bases
        if not b.record.blockers
        and continues(newest, b)
        and position_of(b.record.log_to) < position_of(newest.record.log_to)
        and not first_break(b, newest, backups)
    ]
    base = max(older, key=_age, default=newest_base)
    return newest.record.as_of_or_taken, base.name


def _proven(
    target: datetime, older: Sequence[Backup], backups: Sequence[Backup]
) -> tuple[Backup, Backup] | None:
    """The newest base for which a snapshot holds the log up to the target by its record, and that one."""
    holders = finished(backups)
    coverage = Coverage(holders)
    for base in sorted(older, key=_newness, reverse=True):
        found = coverage.reached(base)
        if found and found.end >= target:
            reaching = [h.backup for h in holders if h.complete_to >= target and continues(h.backup, base)]
            return base, min(reaching, key=lambda h: h.createtxg)
    return None


def _likeliest(
    target: datetime, older: Sequence[Backup], backups: Sequence[Backup]
) -> tuple[Backup, Backup | None]:
    """Without such a record the log itself, or the live one, will show whether it reaches."""
    base = max(older, key=_newness)
    return base, next(iter(_later(target, base, backups)), None)


def _later(target: datetime, base: Backup, backups: Sequence[Backup]) -> list[Backup]:
    """The backups that may hold the log from the base to the target, the likeliest first."""
    later = [
        b
        for b in backups
        if b.complete
        and b.createtxg >= base.createtxg
        and b.reaches(target)
        and not _is_other_log(b.record, base.record)
        and not b.record.breaks_log
        and not first_break(base, b, backups)
    ]
    return sorted(later, key=lambda b: (b.record.server_uuid != base.record.server_uuid, b.createtxg))


def _is_other_log(one: Record, other: Record) -> bool:
    """Compare the recorded log ids: what was between two logs of a server may be gone, or was not whole."""
    return log_known(one) and log_known(other) and one.log_id != other.log_id


def _is_after(backup: Backup, moment: datetime) -> bool:
    return bool(backup.record.as_of and backup.record.as_of > moment)


def _age(backup: Backup) -> tuple[int, str]:
    return backup.createtxg, backup.record.backup


def _newness(backup: Backup) -> tuple[datetime, int]:
    return backup.record.as_of_or_taken, backup.createtxg


def _reason(base: Backup, log: Backup | None, *, asked: bool) -> str:
    chosen = f"{base.name} was asked for" if asked else f"{base.name} is the newest backup before the target"
    if log is None:
        return f"{chosen}; no later one holds the log up to it yet"
    if log is base:
        return f"{base.name} holds the last transaction before the target itself: nothing to replay"
    if ARCHIVED in log.record.server:
        return f"{chosen}, and what was archived behind {log.name} reaches it"
    return f"{chosen}, {log.name} the first that reaches it"
