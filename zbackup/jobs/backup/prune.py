"""Destroy the backups that the retention policy no longer wants: look, plan, destroy one by one, report.

A backup with several datasets is marked as condemned before the first of its snapshots goes, so that whoever
comes after a run that was killed half-way knows that the rest may go too. What is incomplete for any other
reason is never touched.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from zbackup.catalog.local import Catalog, read_clones
from zbackup.jobs.context import Context
from zbackup.model.archive import ArchivedFile
from zbackup.model.backup import Backup
from zbackup.model.errors import (
    CommandFailed,
    DatasetBusy,
    DatasetNotFound,
    NotFound,
    PoolReadOnly,
    ZbackupError,
)
from zbackup.model.event_log import log
from zbackup.model.retention import CONDEMNED
from zbackup.model.snapshot import Snapshot
from zbackup.plan.clones.clone_name import recovery_of
from zbackup.plan.health.unfinished_clones import is_unfinished
from zbackup.plan.retention.log_snapshots import half_destroyed, replaced, without_replaced_logs
from zbackup.plan.retention.retention import RetentionPlan, plan_retention
from zbackup.plan.retention.rules import stays_until
from zbackup.proc.lock import lock_owner
from zbackup.proc.open_files import processes_in, told


def pins(ctx: Context, backups: Sequence[Backup]) -> dict[str, list[str]]:
    """Map Record.backup to what keeps the backup beside the policy: holds, and clones made from it."""
    holds = ctx.zfs.holds([s for b in backups for s in b.snapshots])
    found: dict[str, list[str]] = {}
    for backup in backups:
        tags = dict.fromkeys(tag for s in backup.snapshots for tag in holds.get(s.guid, ()))
        clones = dict.fromkeys(clone for s in backup.snapshots for clone in s.clones)
        why = [f"held by {tag}" for tag in tags]
        why += [f"origin of clone {name}" for name in dict.fromkeys(_clone_name(ctx, c) for c in clones)]
        if why:
            found[backup.record.backup] = why
    return found


def _clone_name(ctx: Context, dataset: str) -> str:
    """A clone of zbackup's by its name, which its datasets lie below; any other by its dataset."""
    below = dataset.removeprefix(f"{ctx.clones}/")
    return below.partition("/")[0] if below != dataset else dataset


def in_use(ctx: Context, backup: Backup, snapshot: Snapshot, busy: DatasetBusy) -> str:
    """Who uses a snapshot that ZFS would not destroy just now, in one line; changes nothing.

    A restore leaves no trace in ZFS while it reads its log in the snapshot: it has it mounted, and open.
    """
    try:
        catalog = ctx.catalog()
        by_now = pins(ctx, [b for b in catalog.backups if b.record.backup == backup.record.backup])
        mounted = {d.name: d.mountpoint for d in catalog.all_datasets}.get(snapshot.dataset)
        readers = processes_in(f"{mounted}/.zfs/snapshot/{snapshot.name}") if mounted else []
        said = _who(by_now.get(backup.record.backup, []), readers, _makers(ctx))
    except (ZbackupError, OSError):
        said = ""  # what keeps it is not worth another failure
    return f"{snapshot} {said}: left for the next prune" if said else str(busy)


def _makers(ctx: Context) -> dict[str, str]:
    """Map the clones of the instance that are being worked on to whoever does."""
    found = {}
    for at in ctx.everywhere():
        for clone, _ in read_clones(at.zfs, at.clones).found:
            name = recovery_of(clone.name)
            who = lock_owner(ctx.shared / f"clone-{name}.lock")
            if who and clone.instance == ctx.instance and is_unfinished(clone):
                found[name] = who
    return found


def _who(by_now: Sequence[str], readers: list[tuple[int, str]], makers: Mapping[str, str]) -> str:
    """Who needs the snapshot. Without the right to see root's processes, and so no readers, name the
    work that is under way."""
    if by_now:
        return f"is needed by now, {'; '.join(by_now)}"
    pids = [f"(pid {pid})" for pid, _ in readers]
    at_work = {name: who for name, who in makers.items() if not pids or who.endswith(tuple(pids))}
    working = " and ".join(f"{who}, which works on the clone {name}" for name, who in at_work.items())
    if readers:
        return f"is being read by {working or told(readers)}"
    return f"is in use, maybe by {working}" if working else ""


SLICE_S = 15.0
"""Snapshots are due meanwhile: the instance's lock is let go at least this often."""
PAUSE_S = 0.5
"""Longer than others wait between two looks at the lock."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A backup that should have gone and is still there (or the rest of it), and why.

    `failure` is what refused to destroy it; None where it is only in use, or another by now.
    """

    backup: Backup
    why: str
    failure: CommandFailed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """The plan of a prune. `freed` is in bytes, None when nobody could tell.

    `orphans` are what is left at a destination of streams that no backup needs; they go too. `unreadable` are
    (snapshot, problem) where nobody can tell what it is of: it is no reason for anything, and never touched.
    `archived` is the log at a destination that goes, too: no backup that stays needs it. `stays` has, by
    Record.backup, before when no prune destroys it (plan.retention.rules).
    """

    retention: RetentionPlan
    freed: int | None
    orphans: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    archived: tuple[ArchivedFile, ...] = ()
    stays: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """The report of a prune. `kept` is what the policy keeps; `skipped` is to be looked at; `left` were not
    tried. `cut`: zbackup was told to end before all was done, at a destination also the archived log and what
    streams have left.

    `log_stays` is why archived log is there still that should have gone, "" if it is gone.
    """

    plan: PrunePlan
    destroyed: tuple[Backup, ...]
    skipped: tuple[Skipped, ...]
    left: int = 0
    cut: bool = False
    log_stays: str = ""

    @property
    def more(self) -> bool:
        """Whether going on at once gets further."""
        return bool(self.left and self.destroyed)

    @property
    def powerless(self) -> CommandFailed | None:
        """The last failure, where nothing at all was destroyed: it may concern all that is to go."""
        failures = [s.failure for s in self.skipped if s.failure]
        return failures[-1] if failures and not self.destroyed else None


def plan_prune(ctx: Context) -> PrunePlan:
    """Look and decide, and change nothing."""
    return _plan(ctx, ctx.catalog())


def _plan(ctx: Context, catalog: Catalog) -> PrunePlan:
    retention = decide(ctx, catalog.backups)
    freed = _freed(ctx, retention.destroy)
    stays = stays_until(catalog.backups, ctx.retention, ctx.clock.now(), ctx.zone)
    return PrunePlan(retention=retention, freed=freed, unreadable=catalog.unreadable, stays=stays)


def prune(ctx: Context, limit_s: float = math.inf) -> PruneReport:
    """Destroy what the policy does not keep, oldest first, beginning with none after `limit_s` seconds.

    What is held, cloned from or busy by then is skipped and reported, and does not keep the others. Raise
    Taken when somebody else works on the instance, CommandFailed when ZFS cannot be asked, PoolReadOnly when
    it may change nothing.
    """
    done = _Pruned()
    plan: PrunePlan | None = None
    end = ctx.clock.monotonic() + limit_s
    while True:
        with ctx.instance_lock("zbackup prune"):
            catalog = ctx.catalog()
            plan = plan or _plan(ctx, catalog)
            retention = decide(ctx, catalog.backups)
            if retention.note and not done.tried:
                log.warning("prune.clock_in_doubt", why=retention.note)
            _spare(ctx, retention)
            left = _destroy_some(ctx, retention, done, end)
            if not left or ctx.clock.monotonic() >= end:
                destroyed, skipped = tuple(done.destroyed), tuple(done.skipped)
                return PruneReport(plan=plan, destroyed=destroyed, skipped=skipped, left=left)
        time.sleep(PAUSE_S)


@dataclass(slots=True)
class _Pruned:
    destroyed: list[Backup] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def tried(self) -> set[str]:
        return {b.record.backup for b in self.destroyed} | {s.backup.record.backup for s in self.skipped}


def decide(ctx: Context, backups: Sequence[Backup]) -> RetentionPlan:
    """What the policy says of an instance's backups, with what holds and clones say."""
    now, reading = ctx.clock.now(), ctx.clock.reading()
    pinned = pins(ctx, backups)
    plan = plan_retention(backups, ctx.retention, now, ctx.zone, pinned, reading)
    return plan if ctx.retention.empty else without_replaced_logs(plan, pinned)


def drop_replaced_logs(ctx: Context, backups: Sequence[Backup]) -> tuple[Backup, ...]:
    """Destroy the log-only snapshots that restores took and that a newer backup replaces; what is left.

    The caller holds the instance's lock. What cannot be destroyed stays for the next time.
    """
    found = [*half_destroyed(backups), *replaced(backups)]
    try:
        pinned = pins(ctx, found) if found else {}
    except CommandFailed as failure:
        # A backup that was just taken is none the worse for it.
        log.warning("log_snapshot.not_destroyed", snapshot=found[0].name, why=str(failure))
        return tuple(backups)
    gone = [b for b in found if b.record.backup not in pinned and not _failure(ctx, b)]
    return tuple(b for b in backups if b not in gone)


def _failure(ctx: Context, backup: Backup) -> str:
    """Destroy the backup. Return why it could not be, "" if it was."""
    try:
        skipped = _destroy(ctx, backup, _used(ctx, [backup]))
        why = skipped.why if skipped else ""
    except PoolReadOnly as refused:
        why = str(refused)
    if why:
        log.warning("log_snapshot.not_destroyed", snapshot=backup.name, why=why)
    else:
        log.info("log_snapshot.destroyed", snapshot=backup.name)
    return why


def _freed(ctx: Context, backups: Sequence[Backup]) -> int | None:
    try:
        return ctx.zfs.destroying_frees([s for b in backups for s in b.snapshots])
    except CommandFailed:
        return None


def _spare(ctx: Context, plan: RetentionPlan) -> None:
    """A backup that was condemned and is whole stays after all if the policy now keeps it: say so there."""
    for kept in plan.keep:
        for snapshot in kept.backup.snapshots if kept.backup.complete else ():
            if _is_marked(snapshot):
                ctx.zfs.clear_property(str(snapshot), CONDEMNED)


def _destroy_some(ctx: Context, plan: RetentionPlan, done: _Pruned, end: float) -> int:
    """Destroy for as long as the lock may be held, and not after `end`; how many are left to be tried."""
    end = min(end, ctx.clock.monotonic() + SLICE_S)
    tried = done.tried
    waiting = [b for b in plan.destroy if b.record.backup not in tried]
    used = _used(ctx, waiting)
    for number, backup in enumerate(waiting):
        if ctx.clock.monotonic() >= end:
            return len(waiting) - number
        ctx.progress.phase("destroying", f"{backup.name}, {number + 1} of {len(waiting)}")
        if skipped := _destroy(ctx, backup, used):
            done.skipped.append(skipped)
            log.warning("prune.skipped", snapshot=backup.name, why=skipped.why)
        else:
            done.destroyed.append(backup)
            log.info("prune.destroyed", snapshot=backup.name)
    return 0


def _used(ctx: Context, backups: Sequence[Backup]) -> Mapping[str, Sequence[str]]:
    """Map the snapshots in use (only of backups with several snapshots) to their users."""
    return ctx.zfs.in_use([str(s) for b in backups if len(b.snapshots) > 1 for s in b.snapshots])


def _destroy(ctx: Context, backup: Backup, used: Mapping[str, Sequence[str]]) -> Skipped | None:
    """Destroy a backup's snapshots, the one with the mark last; return why it could not be, None if it was.

    While one of them is `used`, the others are not destroyed either.
    """
    for snapshot in backup.snapshots:
        if who := used.get(str(snapshot)):
            busy = DatasetBusy(("zfs", "destroy"), 1, "dataset is busy")
            busy.args = (f"{'; '.join(who)}: left for the next prune",)
            return Skipped(backup, in_use(ctx, backup, snapshot, busy))
    marked, *others = sorted(backup.snapshots, key=lambda s: not _is_marked(s))
    try:
        if len(backup.record.members) > 1 and not _is_marked(marked):
            ctx.zfs.mark_snapshot(marked, CONDEMNED, ctx.clock.now().isoformat())
        for snapshot in (*reversed(others), marked):
            try:
                _destroy_one(ctx, snapshot)
            except DatasetBusy as busy:
                return Skipped(backup, in_use(ctx, backup, snapshot, busy))
    except PoolReadOnly:
        raise  # that concerns all of them, and skipping them one by one would only hide it
    except (DatasetBusy, DatasetNotFound, NotFound) as passing:
        return Skipped(backup, str(passing))
    except CommandFailed as failure:
        return Skipped(backup, str(failure), failure)
    return None


def _destroy_one(ctx: Context, snapshot: Snapshot) -> None:
    """Already gone is as good."""
    try:
        ctx.zfs.destroy_snapshot(snapshot)
    except DatasetNotFound:
        return


def _is_marked(snapshot: Snapshot) -> bool:
    return any(key == CONDEMNED for key, _ in snapshot.properties)
