"""Bring an instance back from a destination, on a host that may have nothing else of it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import structlog

from zbackup.catalog.local import Catalog
from zbackup.destinations.base import Session
from zbackup.destinations.copies import Copies, by_server
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.context import Context, ShipTarget
from zbackup.jobs.restore.at_destination import at_destination, clean_up, clone_there
from zbackup.jobs.restore.fetch import fetch, sizes
from zbackup.jobs.restore.latest import LATEST, as_it_is
from zbackup.jobs.restore.locate_transaction import locate_in
from zbackup.jobs.restore.log_source import nothing_replayed
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.preconditions import require_free, require_possible, require_unused, require_usable
from zbackup.jobs.restore.restore import (
    RestorePlan,
    RestoreReport,
    act,
    choose,
    make_plan,
    note_unreadable,
)
from zbackup.jobs.ship.remote_holds import remote_holds
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable, Refused, ZbackupError
from zbackup.model.log import place
from zbackup.model.moment import Moment, local_text
from zbackup.model.progress import Stopwatch
from zbackup.model.target import (
    BackupAsItIs,
    BeforeTransaction,
    RestoreTarget,
    UnseenTransaction,
    replay_target,
)
from zbackup.model.transaction_name import TransactionName
from zbackup.plan.clones.clone_name import copy_name, default_name
from zbackup.plan.recovery.before_transaction import may_hold
from zbackup.plan.recovery.recovery import RecoveryPlan, farthest_log, plan_whole_log
from zbackup.plan.recovery.window import usable_bases
from zbackup.plan.retention.arrival import first_to_reach

log = structlog.get_logger()


def latest_moment(ctx: Context, target: ShipTarget, options: RestoreOptions) -> Moment:
    """Behind the last transaction of the destination's backups. Raise NotRecoverable when it has none, and
    Refused when another than the newest that can be read may be meant."""
    backups = latest_backups(ctx, target, options)
    base = plan_whole_log(backups).base
    newest = farthest_log(base, backups) or base
    return Moment(newest.record.as_of or newest.record.taken, LATEST, ctx.zone, is_now=True)


def latest_backups(ctx: Context, target: ShipTarget, options: RestoreOptions) -> Sequence[Backup]:
    """The destination's backups of the server whose newest is meant. Raise as latest_moment() does."""
    with target.destination.connect() as session:
        copies = session.copies().to_restore()
    backups = _latest(ctx, target, copies, options)
    if not usable_bases(backups):
        raise NotRecoverable(_none(ctx, target, copies))
    return backups


def _latest(ctx: Context, target: ShipTarget, copies: Copies, options: RestoreOptions) -> Sequence[Backup]:
    """The backups of the one server whose newest is meant, which --base tells where there are several.

    Raise Refused, naming them, where that is not clear and nobody said that it does not matter.
    """
    servers = [s for s in by_server(copies.backups) if options.base in ("", *(b.name for b in s))]
    if not servers:
        return copies.backups
    newest = max((s[-1] for s in servers), key=lambda b: b.createtxg)
    place = target.destination.place
    if len(servers) > 1 and not options.accept_older:
        each = "; ".join(f"{s[-1].name} {_whose(s[-1])}" for s in servers)
        raise Refused(
            f"backups of {len(servers)} servers lie at {place}, and the newest of each are {each}: say which "
            f"is meant with --base NAME, or --accept-older to take {newest.name}, which arrived last"
        )
    if copies.unreadable and not options.accept_older:
        name, problem = copies.unreadable[0]
        raise Refused(
            f"{name} at {place} cannot be read, and may be the newest ({problem}): --accept-older takes "
            f"{newest.name}, the newest that can be read"
        )
    return next(s for s in servers if s[-1] is newest)


def _whose(backup: Backup) -> str:
    return f"of {backup.record.members[0][0]} and server {backup.record.server_uuid}"


def transaction_there(
    ctx: Context, target: ShipTarget, name: TransactionName, base: str = ""
) -> UnseenTransaction:
    """That transaction, if the destination's backups lead up to it, as far as they tell.

    When it was committed is known only when its log is here. Raise NotRecoverable.
    """
    ctx.recovery.check_name(name)
    with target.destination.connect() as session:
        copies = session.copies().to_restore()
    if not copies.backups:
        raise NotRecoverable(_none(ctx, target, copies))
    log = _choice(ctx, copies, UnseenTransaction(name, ctx.clock.now()), base).log
    if log is None or log.record.complete_to is None:
        raise AssertionError("a recovery without a finished log source was planned")
    return UnseenTransaction(name, log.record.complete_to)


def backup_there(target: ShipTarget, name: str) -> BackupAsItIs:
    """The backup of that name at the destination, as it is. Raise NotFound."""
    with target.destination.connect() as session:
        copies = session.copies().to_restore()
    return as_it_is(name, copies.backups, f"zbackup list --at {target.name}")


def plan_restore_from(
    ctx: Context, target: ShipTarget, asked: RestoreTarget, options: RestoreOptions
) -> RestorePlan:
    """Decide by what the destination's backups say of themselves, and fetch and change nothing."""
    require_possible(ctx, asked, options)
    name = options.name or default_name(ctx.instance, asked.at)
    require_unused(ctx, name, options)
    with target.destination.connect() as session:
        choice = _choose(ctx, target, session.copies().to_restore(), asked, options)
        source = choice.log or choice.base
        size = sizes(session, choice.base, source)
    return RestorePlan(
        name=name,
        asked=asked,
        target=replay_target(asked, accept_clock=options.accept_clock),
        base=choice.base,
        log=source,
        reason=choice.reason,
        replay=nothing_replayed(asked.at) if choice.as_it_is else None,
        fetch=size,
        as_it_is=choice.as_it_is,
    )


def plan_restore_there(
    ctx: Context, target: ShipTarget, asked: RestoreTarget, options: RestoreOptions
) -> RestorePlan:
    """The same for a restore where the copies are, which fetches nothing."""
    return replace(plan_restore_from(at_destination(ctx, target), target, asked, options), fetch=0)


def restore_there(
    ctx: Context, target: ShipTarget, asked: RestoreTarget, options: RestoreOptions
) -> RestoreReport:
    """Recover it on the destination's own pool, from clones of what is there. No data is copied.

    Raise Refused when the destination is not on this host, and whatever restore_from() raises.
    """
    at = at_destination(ctx, target)

    def bring(_: Session, name: str, base: Backup, source: Backup) -> Catalog:
        return clone_there(at, name, base, source)

    return _restore(at, target, asked, options, _Way(bring, clean_up))


def restore_from(
    ctx: Context, target: ShipTarget, asked: RestoreTarget, options: RestoreOptions
) -> RestoreReport:
    """Fetch what is needed into new datasets beside the clones, and recover it there as always.

    Cut off while it fetches, the same command goes on. What was fetched goes with the clone. Raise
    NotRecoverable when the destination's backups do not reach the moment, and whatever restore() raises.
    """

    def bring(session: Session, name: str, base: Backup, source: Backup) -> Catalog:
        return fetch(ctx, session, name, base, source, target.limit)

    return _restore(ctx, target, asked, options, _Way(bring, _note_kept))


@dataclass(frozen=True, slots=True)
class _Way:
    """`bring` makes what is needed of the destination a catalogue of this host; `failed` is told of the
    recovery of that name when it came to nothing, and must not raise."""

    bring: Callable[[Session, str, Backup, Backup], Catalog]
    failed: Callable[[Context, str], None]


def _restore(
    ctx: Context,
    target: ShipTarget,
    asked: RestoreTarget,
    options: RestoreOptions,
    way: _Way,
) -> RestoreReport:
    require_possible(ctx, asked, options)
    name = options.name or default_name(ctx.instance, asked.at)
    watch = Stopwatch(ctx.progress, ctx.clock.monotonic)
    ctx = replace(ctx, progress=watch)
    with working_on(ctx, name, "zbackup restore"), ExitStack() as failed:
        require_free(ctx, name, options)
        ctx.progress.phase("looking", f"which backup, at {target.destination.place}")
        with target.destination.connect() as session:
            there = session.copies().to_restore()
            choice = _choose(ctx, target, there, asked, options)
            base, source = choice.base, choice.log or choice.base
            failed.callback(way.failed, ctx, name)
            with remote_holds(ctx, target, session, name, there, (base, source)):
                catalog = way.bring(session, name, base, source)
        if isinstance(asked, UnseenTransaction):
            asked, options = _found(ctx, asked.name, catalog, base), replace(options, name=name)
        # What was fetched to read the log from, also where its record does not say how far it reaches.
        plan = make_plan(ctx, catalog, catalog.backups, asked, options, log=catalog.backups[-1])
        report = act(ctx, catalog, plan, options, _nothing)
        failed.pop_all()
        return replace(report, phases=watch.phases())


def _choose(
    ctx: Context, target: ShipTarget, copies: Copies, asked: RestoreTarget, options: RestoreOptions
) -> RecoveryPlan:
    """Base, log source and why. There is no live log to go on with: a backup has to reach the moment."""
    place = target.destination.place
    if not copies.backups:
        raise NotRecoverable(_none(ctx, target, copies))
    note_unreadable(ctx, copies.unreadable)
    backups = copies.backups
    latest = isinstance(asked, Moment) and asked.text == LATEST
    if latest:
        backups = tuple(_latest(ctx, target, copies, options))
    choice = _choice(ctx, replace(copies, backups=backups), asked, options.base)
    if (servers := len(by_server(copies.backups))) > 1:
        ctx.progress.note(
            f"backups of {servers} servers, or from before the datasets were moved, lie at {place}: "
            f"{choice.base.name}, which is chosen, is {_whose(choice.base)}; --base NAME starts from another"
        )
    require_usable(ctx, choice)
    if latest and not choice.as_it_is:
        newest = max(backups, key=lambda b: b.createtxg)
        return replace(choice, log=farthest_log(choice.base, backups) or newest, others=())
    if choice.log is None:
        reached = max(b.record.complete_to for b in copies.backups if b.record.complete_to)
        raise NotRecoverable(
            f"the backups at {place} do not reach that moment: the last one they reach is "
            f"{local_text(reached, ctx.zone)} (--to latest)"
        )
    return choice


def _found(ctx: Context, name: TransactionName, catalog: Catalog, base: Backup) -> BeforeTransaction:
    """The transaction in what was fetched. Raise NotRecoverable when the base holds it after all."""
    before = locate_in(ctx, name, catalog)
    if place(base.record.log_to) > place(before.transaction.start):
        raise NotRecoverable(f"{base.name} proves to hold {name} already: name an older backup with --base")
    return before


def _choice(ctx: Context, copies: Copies, asked: RestoreTarget, base: str) -> RecoveryPlan:
    """What was possible first; of what nothing reaches, what all of them together are good for."""

    def plan(backups: Sequence[Backup]) -> RecoveryPlan:
        return choose(ctx, backups, asked, base)

    def reaches(backup: Backup) -> bool:
        if isinstance(asked, UnseenTransaction):
            return may_hold(backup, asked.name)
        return backup.reaches(asked.at)

    if isinstance(asked, BackupAsItIs) or (isinstance(asked, Moment) and asked.text == LATEST):
        return plan(copies.backups)
    return first_to_reach(by_server(copies.backups), reaches, plan) or plan(copies.backups)


def _none(ctx: Context, target: ShipTarget, copies: Copies) -> str:
    said = f"there is no committed backup of {ctx.instance} at {target.destination.place}"
    return ": ".join((f"{said} that can be read", copies.unreadable[0][1])) if copies.unreadable else said


def _note_kept(ctx: Context, name: str) -> None:
    """Never hides the failure itself."""
    try:
        kept = ctx.zfs.exists(f"{ctx.clones}/{copy_name(name)}")
    except ZbackupError:
        return
    if kept:
        ctx.progress.note(
            f"what was fetched is kept in {ctx.clones}/{copy_name(name)}: the same command goes on with it, "
            f"zbackup clone destroy {copy_name(name)} removes it"
        )


def _nothing() -> None:
    """There is no lock to let go: nobody else knows of what was fetched."""
