"""Take a backup: lock the server, take one atomic snapshot, unlock, write down how far it reaches."""

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from zbackup.catalog.local import Catalog, group
from zbackup.jobs.backup.complete_record import NON_TRANSACTIONAL, discard, finish, finish_all
from zbackup.jobs.backup.prune import drop_replaced_logs
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.errors import (
    NoRoomForSnapshot,
    NotRecoverable,
    PoolFull,
    Refused,
    VerificationFailed,
    ZbackupError,
)
from zbackup.model.event_log import log
from zbackup.model.moment import end_after
from zbackup.model.record import KEEP_UNTIL, LABEL, Record, readable_properties
from zbackup.model.server import LockChoice, ServerFacts
from zbackup.plan.health.placement import Members, require_one_snapshot_covers
from zbackup.plan.health.pool_space import too_reserved
from zbackup.zfs.facts import ZfsFacts

# Without a lock nobody waits for the snapshot, so it may take as long as a busy pool needs.
UNLOCKED_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """The wishes of whoever takes a snapshot: a label to find it by, and seconds that no prune destroys
    it."""

    label: str = ""
    keep: float | None = None


AS_SCHEDULED = SnapshotOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """The report of a snapshot: the backup, how it was taken, and what the operator should know."""

    backup: Backup
    lock: LockChoice
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """The plan of a snapshot."""

    name: str
    members: Members
    lock: LockChoice
    warnings: tuple[str, ...]


def plan_snapshot(ctx: Context, options: SnapshotOptions = AS_SCHEDULED) -> SnapshotPlan:
    """Look and decide, and change nothing. Raises what `snapshot` would raise before it begins."""
    _, _, plan = _inspect(ctx, ctx.catalog(), options)
    _require_room(ctx, plan.members)
    return plan


def snapshot(ctx: Context, options: SnapshotOptions = AS_SCHEDULED) -> SnapshotReport:
    """Take a consistent snapshot of the instance.

    Raise DatabaseError, LockNotTaken, Refused (something lies elsewhere), VerificationFailed or
    CommandFailed. Then no snapshot is left, but for one thing: when the last step fails, which only writes
    down how far the data reaches, an unfinished backup stays, and the next run of any job finishes it.
    """
    with ctx.instance_lock("zbackup snapshot"):
        ctx.engine.heal()
        catalog = ctx.catalog()
        before = finish_all(ctx, catalog.all_datasets, catalog.backups)
        facts, draft, plan = _inspect(ctx, catalog, options)
        ctx.progress.phase("taking the snapshot", f"lock {plan.lock.kind}: {plan.lock.reason}")
        try:
            backup = _take(ctx, facts, draft, plan)
        except PoolFull:
            _require_room(ctx, plan.members)
            raise
        try:
            backup = finish(ctx, backup, catalog.all_datasets, before)
        except (VerificationFailed, NotRecoverable, Refused, OSError):
            # Where a file cannot be read, each that was left would be read again at every later snapshot.
            discard(ctx, backup)
            raise
        record = backup.record
        log.info(
            "snapshot.created",
            snapshot=backup.name,
            lock=record.lock,
            wait_ms=record.lock_wait_ms,
            held_ms=record.lock_held_ms,
            position=record.position,
        )
        drop_replaced_logs(ctx, (*before, backup))
        return SnapshotReport(backup=backup, lock=plan.lock, warnings=plan.warnings)


def _require_room(ctx: Context, members: Members) -> None:
    """Raise NoRoomForSnapshot where a refreservation is why ZFS takes none."""
    if found := too_reserved(ZfsFacts(ctx.zfs.runner).settings([name for name, _ in members])):
        raise NoRoomForSnapshot(f"{found.text}:\n{found.fix}")


def _inspect(
    ctx: Context, catalog: Catalog, options: SnapshotOptions
) -> tuple[ServerFacts, Record, SnapshotPlan]:
    facts = ctx.engine.inspect()
    members = require_one_snapshot_covers(facts.data_paths, catalog.datasets)
    choice = ctx.engine.choose_lock(facts)
    draft = Record(
        backup=str(uuid.uuid4()),
        instance=ctx.instance,
        engine=facts.flavor,
        members=members,
        taken=ctx.clock.now(),
        clock=ctx.clock.reading(),
        lock=choice.kind,
        server_uuid=facts.server_uuid,
        server_version=facts.version,
        role=facts.role,
        server=dict(facts.server) | remarks(facts) | _wishes(ctx, options),
    )
    # Known before anything is locked; and again with what the lock tells.
    readable_properties(draft)
    plan = SnapshotPlan(
        name=free_name(ctx, catalog),
        members=members,
        lock=choice,
        warnings=(*facts.blockers, *facts.warnings),
    )
    return facts, draft, plan


def remarks(facts: ServerFacts) -> dict[str, str]:
    """What has to be known of the server when the backup is finished by somebody else, or restored."""
    found = {
        "blockers": "\n".join(facts.blockers),
        "warnings": "\n".join(facts.warnings),
        NON_TRANSACTIONAL: str(facts.non_transactional_count or ""),
    }
    return {name: text for name, text in found.items() if text}


def _wishes(ctx: Context, options: SnapshotOptions) -> dict[str, str]:
    """Its label, and until when it is kept. Raise UsageError for an end that is too far away."""
    found = {LABEL: options.label} if options.label else {}
    if options.keep is not None:
        found[KEEP_UNTIL] = end_after(ctx.clock.now(), options.keep).isoformat()
    return found


def _take(ctx: Context, facts: ServerFacts, draft: Record, plan: SnapshotPlan) -> Backup:
    """Nobody waits for the disks, or if it turns out that they had to, once more and waiting for them."""
    try:
        return _take_once(ctx, facts, draft, plan, release_early=plan.lock.kind != "none")
    except _LetGoTooEarly:
        log.info("snapshot.once_more", snapshot=plan.name, why="the lock was released too early to be sure")
        return _take_once(ctx, facts, draft, plan, release_early=False)


class _LetGoTooEarly(VerificationFailed):
    """Raised when what was written after the lock may be in the snapshot."""


def _take_once(
    ctx: Context, facts: ServerFacts, draft: Record, plan: SnapshotPlan, *, release_early: bool
) -> Backup:
    names = [f"{dataset}@{plan.name}" for dataset, _ in plan.members]
    try:
        # The command may outlast the lock, and never this block.
        with ExitStack() as command:
            prepared = command.enter_context(ctx.zfs.prepare()) if plan.lock.kind != "none" else None
            with ctx.engine.consistent(facts, plan.lock.kind) as lock:
                record = replace(
                    draft,
                    taken=ctx.clock.now(),
                    clock=ctx.clock.reading(),
                    position=lock.position,
                    gtid=lock.gtid,
                    lock_wait_ms=lock.lock_wait_ms,
                    server=draft.server | dict(lock.facts),
                )
                properties = readable_properties(record)
                limit = UNLOCKED_LIMIT_S if record.lock == "none" else lock.seconds_left()
                taking = command.enter_context(ctx.zfs.taking(names, properties, timeout=limit, by=prepared))
                (taking.wait_closed if release_early else taking.wait_taken)()
                lock.confirm()
            taking.wait_taken()
        backup = find(ctx, draft, names)
        if not taking.proven(backup.createtxg):
            raise _LetGoTooEarly(f"{plan.name} may hold what was written after the lock")
    except (ZbackupError, KeyboardInterrupt):
        _discard_draft(ctx, draft, names)
        raise
    learnt = replace(record, lock_held_ms=lock.held_ms, server=record.server | dict(lock.facts))
    return Backup(record=learnt, snapshots=backup.snapshots)


def _discard_draft(ctx: Context, draft: Record, names: Sequence[str]) -> None:
    """The lock did not last, or the command was cut off: what came of it must not look like a backup."""
    if backup := _found(ctx, draft, names):
        discard(ctx, backup)


def _found(ctx: Context, record: Record, names: Sequence[str]) -> Backup | None:
    backups, _ = group(ctx.zfs.snapshots_named(names))
    return next((b for b in backups if b.record.backup == record.backup), None)


def find(ctx: Context, record: Record, names: Sequence[str]) -> Backup:
    """The backup whose snapshots have these names, as it stands in ZFS.

    Raise VerificationFailed unless every member has its snapshot.
    """
    backup = _found(ctx, record, names)
    if backup is None or not backup.complete:
        raise VerificationFailed("the snapshot just taken is not there on every dataset")
    return backup


def free_name(ctx: Context, catalog: Catalog) -> str:
    """zbackup-20240501T100200Z, with a number behind it when that second has one already."""
    plain = f"zbackup-{ctx.clock.now():%Y%m%dT%H%M%SZ}"
    numbered = (f"{plain}-{n}" for n in range(2, 1000))
    return plain if plain not in catalog.taken else next(n for n in numbered if n not in catalog.taken)
