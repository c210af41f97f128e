"""Bring an instance back from a destination, on a host that may have nothing else of it."""

from contextlib import ExitStack

import structlog

from zbackup.destinations.copies import Copies
from zbackup.jobs.clone import working_on
from zbackup.jobs.context import Context, ShipTarget
from zbackup.jobs.fetched import fetch, sizes
from zbackup.jobs.restore import (
    RestoreOptions,
    RestorePlan,
    RestoreReport,
    act,
    choose,
    make_plan,
    require_free,
    require_possible,
    require_recoverable,
)
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable, ZbackupError
from zbackup.model.moment import Moment, local_text
from zbackup.plan.clone_name import copy_name, default_name
from zbackup.plan.recovery import RecoveryPlan

log = structlog.get_logger()


LATEST = "latest"
"""What is asked for to have all that arrived at a destination."""


def latest_moment(ctx: Context, target: ShipTarget) -> Moment:
    """Behind the last transaction of the destination's backups. Raise NotRecoverable when it has none."""
    with target.destination.connect() as session:
        copies = session.copies()
    last = max((b.record.as_of for b in copies.backups if b.record.as_of), default=None)
    if last is None:
        raise NotRecoverable(f"there is no committed backup of {ctx.instance} at {target.destination.place}")
    return Moment(last, LATEST, ctx.zone, is_now=True)


def plan_restore_from(
    ctx: Context, target: ShipTarget, moment: Moment, options: RestoreOptions
) -> RestorePlan:
    """Decide by what the destination's backups say of themselves, and fetch and change nothing."""
    require_possible(ctx, options)
    with target.destination.connect() as session:
        base, source, reason = _choose(ctx, target, session.copies(), moment, options)
        size = sizes(session, base, source)
    name = options.name or default_name(ctx.instance, moment.at)
    return RestorePlan(
        name=name, target=moment.at, base=base, log=source, reason=reason, replay=None, fetch=size
    )


def restore_from(ctx: Context, target: ShipTarget, moment: Moment, options: RestoreOptions) -> RestoreReport:
    """Fetch what is needed into new datasets beside the clones, and recover it there as always.

    Cut off while it fetches, the same command goes on. What was fetched goes with the clone. Raise
    NotRecoverable when the destination's backups do not reach the moment, and whatever restore() raises.
    """
    require_possible(ctx, options)
    name = options.name or default_name(ctx.instance, moment.at)
    with working_on(ctx, name, "zbackup restore"), ExitStack() as noted:
        require_free(ctx, name, options)
        ctx.progress.phase("looking", f"which backup, at {target.destination.place}")
        with target.destination.connect() as session:
            base, source, _ = _choose(ctx, target, session.copies(), moment, options)
            noted.push(lambda kind, why, _: _note_kept(ctx, name, why))
            catalog = fetch(ctx, session, name, base, source, target.limit)
        # What was fetched to read the log from, also where its record does not say how far it reaches.
        plan = make_plan(ctx, catalog, catalog.backups, moment, options, log=catalog.backups[-1])
        return act(ctx, catalog, plan, moment, options, _nothing)


def _choose(
    ctx: Context, target: ShipTarget, copies: Copies, moment: Moment, options: RestoreOptions
) -> tuple[Backup, Backup, str]:
    """Base, log source and why. There is no live log to go on with: a backup has to reach the moment."""
    place = target.destination.place
    if not copies.backups:
        raise NotRecoverable(f"there is no committed backup of {ctx.instance} at {place}")
    choice: RecoveryPlan = choose(ctx, copies.backups, moment, options)
    require_recoverable(choice.base)
    ctx.recovery.check_program(choice.base.record)
    if moment.text == LATEST:
        newest = max(copies.backups, key=lambda b: b.createtxg)
        return choice.base, choice.log or newest, choice.reason
    if choice.log is None:
        reached = max(b.record.complete_to for b in copies.backups if b.record.complete_to)
        raise NotRecoverable(
            f"the backups at {place} do not reach that moment: the last one they reach is "
            f"{local_text(reached, ctx.zone)} (--to latest)"
        )
    return choice.base, choice.log, choice.reason


def _note_kept(ctx: Context, name: str, why: BaseException | None) -> bool:
    """Never hides the failure itself."""
    try:
        kept = why is not None and ctx.zfs.exists(f"{ctx.clones}/{copy_name(name)}")
    except ZbackupError:
        return False
    if kept:
        ctx.progress.note(
            f"what was fetched is kept in {ctx.clones}/{copy_name(name)}: the same command goes on with it, "
            f"zbackup clone destroy {copy_name(name)} removes it"
        )
    return False


def _nothing() -> None:
    """There is no lock to let go: nobody else knows of what was fetched."""
