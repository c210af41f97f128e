"""How to reach a moment: a base to start from and a later holder of the log. Pure.

The rule everywhere: everything committed before the target is there, nothing from the target on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable
from zbackup.model.moment import local_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The moments that can be reached: after `start`, up to `end` (None: up to now, from the live log)."""

    start: datetime
    end: datetime | None

    def describe(self, zone: ZoneInfo) -> str:
        end = local_text(self.end, zone) if self.end else "now"
        return f"after {local_text(self.start, zone)}, up to {end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    """`base` to start from; `log` to replay from, None when a snapshot has to be taken for it now."""

    base: Backup
    log: Backup | None
    reason: str


def window(backups: Sequence[Backup]) -> Window | None:
    """What can be reached with these backups and the live log; None when there is no usable base."""
    reached = [b.record.as_of for b in usable_bases(backups) if b.record.as_of]
    return Window(start=min(reached), end=None) if reached else None


def usable_bases(backups: Sequence[Backup]) -> list[Backup]:
    """Those a recovery may start from: complete, finished, and taken from a server that was asked."""
    return [b for b in backups if b.complete and b.finished and b.record.purpose == "base"]


def plan_recovery(
    target: datetime, now: datetime, backups: Sequence[Backup], zone: ZoneInfo, *, cut: datetime | None = None
) -> RecoveryPlan:
    """The newest base whose last transaction is before the cut, and the oldest later log up to `target`.

    `cut` is where the log will be cut, if that is not the target itself: a log that knows whole seconds only
    is cut where the target's second begins, and a base that reaches into that second holds too much.
    Raise NotRecoverable, with the window, when no base is old enough or the target is in the future.
    Times in messages are in `zone`.
    """
    cut = cut or target
    bases = usable_bases(backups)
    reachable = window(backups)
    if reachable is None:
        raise NotRecoverable("there is no finished backup to start from: run zbackup snapshot first")
    if target > now:
        raise NotRecoverable(
            f"that moment is in the future; the recovery window is {reachable.describe(zone)}"
        )
    older = [b for b in bases if b.record.as_of and b.record.as_of < cut]
    if not older:
        coarse = " (the log knows whole seconds only)" if cut < target else ""
        raise NotRecoverable(
            f"no backup is that old; the recovery window is {reachable.describe(zone)}{coarse}"
        )
    base = max(older, key=lambda b: (b.record.as_of, b.createtxg))
    later = [b for b in backups if b.complete and b.createtxg >= base.createtxg and b.reaches(target)]
    log = min(later, key=lambda b: b.createtxg, default=None)
    return RecoveryPlan(base=base, log=log, reason=_reason(base, log))


def _reason(base: Backup, log: Backup | None) -> str:
    if log is None:
        return f"{base.name} is the newest backup before the target; no later one holds the log up to it yet"
    if log is base:
        return f"{base.name} holds the last transaction before the target itself: nothing to replay"
    return f"{base.name} is the newest backup before the target, {log.name} the first that reaches it"
