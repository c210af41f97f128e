"""Decide which log-only snapshots, taken by restores to read the log from, nobody needs any more. Pure."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import replace

from zbackup.model.backup import Backup
from zbackup.model.record import TIMES_OUT_OF_ORDER
from zbackup.model.retention import CONDEMNED
from zbackup.plan.recovery.coverage import continues, first_break, log_known
from zbackup.plan.recovery.window import moment_bases
from zbackup.plan.retention.retention import RetentionPlan


def replaced(backups: Sequence[Backup], pinned: Collection[str] = ()) -> list[Backup]:
    """The snapshots that every restore can do without, oldest first. `pinned` are kept for other reasons.

    Behind a log-only snapshot there is a backup that continues a base in front of it which holds the log up
    to its own moment: what came after that moment is reached from the two, and what came before it is in
    that base's own log.
    """
    whole = sorted((b for b in backups if b.complete and b.finished), key=lambda b: b.createtxg)
    bases = [b for b in moment_bases(whole) if log_known(b.record)]
    ages = [b.createtxg for b in bases]
    return [
        b
        for b in whole
        if b.record.purpose == "log"
        and b.record.backup not in pinned
        # It says that a server was stopped for a switch, or wrote no log any more, which explains a gap; or
        # it may be the only one to say that times in the log contradict its order.
        and not b.record.stopped_for
        and not b.record.log_ended
        and TIMES_OUT_OF_ORDER not in b.record.server
        and all(s.dataset in dict(b.record.members) for s in b.snapshots)
        and _is_replaced(b, bases[: bisect_left(ages, b.createtxg)], whole)
    ]


def without_replaced_logs(plan: RetentionPlan, pinned: Collection[str] = ()) -> RetentionPlan:
    """The plan, which destroys those as well that are replaced by what it keeps.

    By what it keeps alone: the policy and this rule may each rely on what the other takes away.
    """
    logs = replaced([k.backup for k in plan.keep], pinned)
    gone = {b.record.backup for b in logs}
    going = sorted((*plan.destroy, *logs), key=lambda b: (b.createtxg, b.record.backup))
    keep = tuple(k for k in plan.keep if k.backup.record.backup not in gone)
    return replace(plan, keep=keep, destroy=tuple(going))


def half_destroyed(backups: Sequence[Backup]) -> list[Backup]:
    """Log-only snapshots of which a run that was killed has destroyed some, and marked the others."""
    return [
        b
        for b in backups
        if b.record.purpose == "log"
        and not b.complete
        and all(s.dataset in dict(b.record.members) for s in b.snapshots)
        and any(key == CONDEMNED for s in b.snapshots for key, _ in s.properties)
    ]


def _is_replaced(log: Backup, before: Sequence[Backup], whole: Sequence[Backup]) -> bool:
    """`before` are the bases in front of it, oldest first."""
    if not before or not _of_one_log(log, before[-1]):
        return False
    # Data may reach further than the log that the same snapshot holds.
    base = next((b for b in reversed(before) if b.record.as_of and b.reaches(b.record.as_of)), None)
    end = log.record.complete_to
    if base is None or end is None or not _of_one_log(log, base):
        return False
    return any(
        newer.createtxg > log.createtxg
        and continues(newer, base)
        and newer.reaches(end)
        and first_break(base, newer, whole) is None
        for newer in whole
    )


def _of_one_log(log: Backup, base: Backup) -> bool:
    """MongoDB's log-only snapshots do not say which log they hold, but of which server they are."""
    one, other = log.record, base.record
    if log_known(one):
        return one.log_id == other.log_id
    return one.server_uuid == other.server_uuid
