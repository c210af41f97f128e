"""Destroy at a destination the backups that its own retention no longer wants.

By whoever has the power to: the host that receives, for which the destination is one of its own pools, or a
host that is trusted with more than adding.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from zbackup.destinations.base import Archiving, Session
from zbackup.destinations.copies import Copies, by_server
from zbackup.jobs.backup.prune import PrunePlan, PruneReport, Skipped
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.archived import archived_log
from zbackup.jobs.ship.remote_holds import holds_at_destination, release_forgotten
from zbackup.jobs.ship.ship import destination_lock, never
from zbackup.model.archive import ArchivedFile
from zbackup.model.backup import Backup
from zbackup.model.errors import (
    BucketRefused,
    CommandFailed,
    ConnectionFailed,
    DatasetBusy,
    DatasetNotFound,
    NotFound,
    PoolReadOnly,
    Refused,
    VerificationFailed,
    ZbackupError,
)
from zbackup.model.event_log import log
from zbackup.plan.recovery.clocks import of_any_machine
from zbackup.plan.retention.archived_log import superseded
from zbackup.plan.retention.received_backups import Plans, plan_received
from zbackup.plan.retention.retention import KeptBackup, RetentionPlan, plan_retention

Holds = Mapping[int, tuple[str, ...]]
"""Guid -> tags of the holds."""


def plan_prune_at(ctx: Context, destination: ShipDestination) -> PrunePlan:
    """Look and decide, and change nothing."""
    with destination.adapter.connect() as session:
        copies = session.copies()
        _require_proven(copies)
        retention = _all_of(_decide(ctx, destination, copies.backups, holds_at_destination(session, copies)))
        return PrunePlan(
            retention=retention,
            freed=None,
            orphans=session.orphans(),
            unreadable=copies.unreadable,
            archived=_superseded(ctx, destination, session, copies, retention.destroy),
        )


def prune_at(ctx: Context, destination: ShipDestination, stop: Callable[[], bool] = never) -> PruneReport:
    """Destroy what the destination's policy does not keep, oldest first, and what was left of it before.

    What is held, cloned from or busy is skipped and reported. The newest committed backup always stays: the
    next stream starts from it. `stop` ends it between two. Raise Taken while something is shipped there from
    this host, VerificationFailed, when all others are gone, where others could not be brought back without
    one of them or nobody knows, ConnectionFailed when the connection breaks, and what the destination says
    where nothing can be destroyed.
    """
    with destination_lock(ctx, destination), destination.adapter.connect() as session:
        copies = session.copies()
        _require_proven(copies)
        if release_forgotten(ctx, destination, session, copies):
            copies = session.copies()
        plans = _decide(ctx, destination, copies.backups, holds_at_destination(session, copies))
        _say(destination, plans)
        retention = _all_of(plans)
        told = _StopAsked(stop)
        remains = (b for b in copies.remains if b.record.instance == ctx.instance)
        going = (*remains, *retention.destroy)
        destroyed, failed = _remove_each(ctx, destination, session, going, told)
        lacking = [failure for _, failure in failed if _is_lack_of_power(failure)]
        if lacking and not destroyed:
            raise lacking[-1]
        archived = () if told() else _superseded(ctx, destination, session, copies, destroyed)
        removed, log_stays = _remove_log(destination, session, archived, told)
        orphans = () if told() else session.collect_garbage()
    _require_sound([failure for _, failure in failed if isinstance(failure, VerificationFailed)], destroyed)
    skipped = tuple(Skipped(backup, str(failure)) for backup, failure in failed)
    plan = PrunePlan(
        retention=retention, freed=None, orphans=orphans, unreadable=copies.unreadable, archived=removed
    )
    left = len(going) - len(destroyed) - len(skipped)
    return PruneReport(
        plan=plan,
        destroyed=tuple(destroyed),
        skipped=skipped,
        left=left,
        cut=told.to_end,
        log_stays=log_stays,
    )


@dataclass(slots=True)
class _StopAsked:
    """Remembers that it was told to end: it asks only before something that is to be done."""

    stop: Callable[[], bool]
    to_end: bool = False

    def __call__(self) -> bool:
        self.to_end = self.to_end or self.stop()
        return self.to_end


def _superseded(
    ctx: Context, destination: ShipDestination, session: Session, copies: Copies, going: Sequence[Backup]
) -> tuple[ArchivedFile, ...]:
    """The archived log that no backup needs which stays. None where nothing else would ever go, or where
    nobody can tell what a backup needs."""
    if destination.retention.empty or copies.unreadable:
        return ()
    archive, _ = archived_log(session)
    gone = {b.record.backup for b in going}
    kept = [b for b in copies.backups if b.record.backup not in gone]
    return superseded(archive.files, kept, ctx.clock.now(), destination.grace)


def _remove_log(
    destination: ShipDestination, session: Session, files: Sequence[ArchivedFile], stop: Callable[[], bool]
) -> tuple[tuple[ArchivedFile, ...], str]:
    """Oldest first; what is gone, and why the next one stays, with those behind it."""
    removed: list[ArchivedFile] = []
    for each in files:
        if stop() or not isinstance(session, Archiving):
            break
        try:
            session.remove_log(each.file)
        except (ConnectionFailed, PoolReadOnly):
            raise
        except (CommandFailed, NotFound, Refused, BucketRefused, VerificationFailed) as failure:
            log.warning(
                "prune.log_skipped", file=str(each.file), destination=destination.name, why=str(failure)
            )
            return tuple(removed), f"{each.file}: {failure}"
        removed.append(each)
        log.info("prune.log_removed", file=str(each.file), destination=destination.name)
    return tuple(removed), ""


def _remove_each(
    ctx: Context,
    destination: ShipDestination,
    session: Session,
    going: Sequence[Backup],
    stop: Callable[[], bool],
) -> tuple[list[Backup], list[tuple[Backup, ZbackupError]]]:
    """Remove them one by one. Return those that are gone, and those that could not be removed, with why."""
    destroyed: list[Backup] = []
    failed: list[tuple[Backup, ZbackupError]] = []
    for number, backup in enumerate(going):
        if stop():
            break
        ctx.progress.phase("destroying", f"{backup.name}, {number + 1}")
        try:
            session.remove(backup, ctx.clock.now().isoformat())
        except (ConnectionFailed, PoolReadOnly):
            raise
        except (CommandFailed, NotFound, Refused, BucketRefused, VerificationFailed) as failure:
            failed.append((backup, failure))
            log.warning("prune.skipped", snapshot=backup.name, destination=destination.name, why=str(failure))
        else:
            destroyed.append(backup)
            log.info("prune.destroyed", snapshot=backup.name, destination=destination.name)
    return destroyed, failed


def _require_proven(copies: Copies) -> None:
    """Raise Refused where a forged backup would make a real one superfluous."""
    if copies.unproven:
        raise Refused(copies.unproven)


def _require_sound(broken: Sequence[VerificationFailed], destroyed: Sequence[Backup]) -> None:
    """Raise VerificationFailed for backups that nobody can judge: that is no success, though it kept nothing
    else from going."""
    if broken:
        done = f"{len(destroyed)} went, {len(broken)} had to stay (prune.skipped in the log): "
        raise VerificationFailed(f"{done}{broken[0]}") from broken[0]


def _is_lack_of_power(failure: ZbackupError) -> bool:
    """It may concern all that is to go, and not only one that is held, busy, locked or gone."""
    return not isinstance(failure, (DatasetBusy, DatasetNotFound, NotFound, Refused, VerificationFailed))


def _decide(ctx: Context, destination: ShipDestination, backups: Sequence[Backup], holds: Holds) -> Plans:
    """What the policy says of each server's backups by themselves; another instance's are not looked at.

    Two servers whose instances have the same name may share a destination, and neither's backups are a
    reason to let the other's go; nor is what anybody adds (plan.retention.received_backups).
    """

    def decide(some: Sequence[Backup]) -> list[RetentionPlan]:
        servers = [[_Received(b, taken[id(b)]) for b in server] for server in by_server(some)]
        return [_decide_one(ctx, destination, server, holds, now) for server in servers]

    now = ctx.clock.now()
    own = [b for b in backups if b.record.instance == ctx.instance]
    taken = {id(b): _as_taken(b) for b in own}  # once: it is decided again and again
    return plan_received(own, decide, now, destination.grace)


def _all_of(plans: Sequence[RetentionPlan]) -> RetentionPlan:
    notes = [_shared(plans)] if len(plans) > 1 else []
    notes += dict.fromkeys(plan.note for plan in plans if plan.note)
    return RetentionPlan(
        keep=tuple(sorted((k for plan in plans for k in plan.keep), key=lambda k: k.backup.createtxg)),
        destroy=tuple(sorted((b for plan in plans for b in plan.destroy), key=lambda b: b.createtxg)),
        note="; ".join(notes),
    )


def _shared(plans: Sequence[RetentionPlan]) -> str:
    return (
        f"backups of {len(plans)} servers, or from before the datasets were moved, lie there: the rules are "
        "applied to those of each by themselves"
    )


def _say(destination: ShipDestination, plans: Sequence[RetentionPlan]) -> None:
    if len(plans) > 1:
        log.warning("prune.shared", destination=destination.name, why=_shared(plans))
    for why in dict.fromkeys(plan.note for plan in plans if plan.note):
        log.warning("prune.clock_in_doubt", destination=destination.name, why=why)


class _Received(NamedTuple):
    """A backup as it lies there, and as it was taken."""

    there: Backup
    taken: Backup


def _decide_one(
    ctx: Context, destination: ShipDestination, backups: Sequence[_Received], holds: Holds, now: datetime
) -> RetentionPlan:
    """Decide by the planner used at home, which knows a backup's snapshots by the datasets they are of."""
    there = {b.there.record.backup: b.there for b in backups}
    at_home = [b.taken for b in backups]
    reading = of_any_machine(at_home, ctx.clock.reading())
    pins = _pins([b.there for b in backups], holds)
    plan = plan_retention(at_home, destination.retention, now, ctx.zone, pins, reading)
    return replace(
        plan,
        keep=tuple(KeptBackup(there[k.backup.record.backup], k.reasons) for k in plan.keep),
        destroy=tuple(there[b.record.backup] for b in plan.destroy),
    )


def _as_taken(backup: Backup) -> Backup:
    names = [dataset for dataset, _ in backup.record.members]
    pairs = zip(names, backup.snapshots, strict=True)
    return Backup(record=backup.record, snapshots=tuple(replace(s, dataset=name) for name, s in pairs))


def _pins(backups: Sequence[Backup], holds: Holds) -> dict[str, list[str]]:
    """Return why each of a server's backups is needed beyond the policy, by its identity."""
    found = {backups[-1].record.backup: ["the next stream starts from it"]}
    for backup in backups:
        clones = dict.fromkeys(clone for s in backup.snapshots for clone in s.clones)
        why = [f"origin of {clone}" for clone in clones]
        if any(s.holds for s in backup.snapshots):
            tags = sorted({tag for s in backup.snapshots for tag in holds.get(s.guid, ())})
            why.append(f"held there by {', '.join(tags)}" if tags else "held there")
        if why:
            found.setdefault(backup.record.backup, []).extend(why)
    return found
