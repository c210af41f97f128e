"""Restore from the backups at a destination, on a host that may have nothing else of the instance."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from zbackup.catalog.local import Catalog
from zbackup.destinations.base import Session
from zbackup.destinations.copies import Copies, by_server
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.restore.archived_log import ArchiveWish, archived_bytes, with_archived_log
from zbackup.jobs.restore.at_destination import at_destination, clean_up, clone_at_destination
from zbackup.jobs.restore.fetch import fetch, sizes
from zbackup.jobs.restore.locate_transaction import locate_in, search_by_name
from zbackup.jobs.restore.log_source import nothing_replayed
from zbackup.jobs.restore.make_plan import RestorePlan, choose, make_plan, note_unreadable
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.preconditions import require_usable
from zbackup.jobs.restore.search_copies import search_copies
from zbackup.jobs.restore.source import Opened, as_it_is, labelled
from zbackup.jobs.ship.archived import ArchivedCopies, archived_copies, require_readable_log
from zbackup.jobs.ship.remote_holds import remote_holds
from zbackup.model.backup import Backup, finished
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed, ZbackupError
from zbackup.model.log import ClusterTime, position_of
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.moment import Moment, local_text
from zbackup.model.target import (
    LATEST,
    BackupAsItIs,
    BeforeTransaction,
    RestoreTarget,
    UnseenTransaction,
    stop_of,
)
from zbackup.model.transaction_name import TransactionName
from zbackup.plan.clones.clone_name import copy_name
from zbackup.plan.recovery.archived import Carrier, is_other_log
from zbackup.plan.recovery.as_it_is import require_one_server
from zbackup.plan.recovery.before_transaction import may_contain
from zbackup.plan.recovery.recovery import RecoveryPlan, farthest_log, plan_whole_log
from zbackup.plan.recovery.window import usable_bases
from zbackup.plan.retention.received_backups import first_to_reach


@dataclass(frozen=True, slots=True)
class DestinationSource:
    """Backups at a destination: fetched into new datasets beside the clones, which go with the clone, or
    `run_at_destination`, cloned on the destination's own pool, with no data copied. See Source.

    Cut off while it fetches, the same restore goes on. `address`: what it was made for, "" where a
    configuration names the destination.
    """

    destination: ShipDestination
    run_at_destination: bool = False
    address: str = ""

    @property
    def _list(self) -> str:
        """The command that shows its backups, for people."""
        where = ("--from", self.address) if self.address else ("--at", self.destination.name)
        return command_line("zbackup", "list", *where)

    def context(self, ctx: Context) -> Context:
        """With the clones on the destination's pool, if in place. Raise Refused when that is not here."""
        return at_destination(ctx, self.destination) if self.run_at_destination else ctx

    def latest(self, ctx: Context, options: RestoreOptions) -> Moment:
        """Behind the last transaction of the destination's backups.

        Raise Refused when another than the newest that can be read may be meant.
        """
        backups = latest_backups(ctx, self.destination, options)
        base = plan_whole_log(backups).base
        newest = farthest_log(base, backups) or base
        return Moment(newest.record.as_of_or_taken, LATEST, ctx.zone, is_now=True)

    def backup(self, ctx: Context, name: str) -> BackupAsItIs:
        return as_it_is(name, _restorable(ctx, self.destination).copies.backups, self._list)

    def labelled(self, ctx: Context, label: str) -> BackupAsItIs:
        backups = _restorable(ctx, self.destination).copies.backups
        require_one_server(label, by_server(backups))
        return labelled(label, backups, self._list)

    def transaction(self, ctx: Context, name: TransactionName, base: str) -> UnseenTransaction:
        """The transaction of that name, if the destination's backups lead up to it, as far as they tell.

        When it was committed is known only when its log is here. Raise NotRecoverable.
        """
        search_by_name(ctx, name)
        copies = _restorable(ctx, self.destination).with_holders
        if not copies.backups:
            raise NotRecoverable(_none(ctx, self.destination, copies))
        log = _choice(ctx, copies, UnseenTransaction(name, ctx.clock.now()), base).log
        holders = finished([log] if log else [])
        if not holders:
            raise NotRecoverable(f"no finished backup at {self.destination.adapter.address} holds {name}")
        return UnseenTransaction(name, holders[0].complete_to)

    def search(self, ctx: Context, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        return search_copies(ctx, self.destination, wanted)

    def plan(self, ctx: Context, target: RestoreTarget, options: RestoreOptions) -> RestorePlan:
        """Decide by what the destination's backups say of themselves, and fetch nothing."""
        with self.destination.adapter.connect() as session:
            there = _with_archive(ctx, session, options.epoch)
            choice = _choose(ctx, self.destination, there, target, options)
            log = choice.log or choice.base
            carrier = there.carrier(log)
            require_readable_log(session, carrier.since(choice.base.record) if carrier else None)
            size = 0 if self.run_at_destination else sizes(session, choice.base, there.real(log))
            size += archived_bytes(carrier.since(choice.base.record)) if carrier else 0
        return RestorePlan(
            name=options.name,
            target=target,
            stop=stop_of(target, accept_clock=options.accept_clock),
            base=choice.base,
            log=log,
            reason=choice.reason,
            replay=nothing_replayed(target.at) if choice.as_it_is else None,
            fetch=size,
            as_it_is=choice.as_it_is,
        )

    @contextmanager
    def opened(self, ctx: Context, target: RestoreTarget, options: RestoreOptions) -> Iterator[Opened]:
        """Bring the two backups here, which are held at the destination meanwhile."""
        name = options.name
        ctx.progress.phase("inspecting", f"which backup, at {self.destination.adapter.address}")
        with ExitStack() as failed:
            with self.destination.adapter.connect() as session:
                there = _with_archive(ctx, session, options.epoch)
                choice = _choose(ctx, self.destination, there, target, options)
                base, log = choice.base, choice.log or choice.base
                real, carrier = there.real(log), there.carrier(log)
                require_readable_log(session, carrier.since(base.record) if carrier else None)
                failed.callback(clean_up if self.run_at_destination else _note_kept, ctx, name)
                # While the backup that it goes on from is held, no prune takes archived log away.
                with remote_holds(ctx, self.destination, session, name, there.copies, (base, real)):
                    catalog = self._bring(ctx, session, name, base, real)
                    if carrier:
                        _note_ways(ctx, target, carrier)
                        wish = ArchiveWish(
                            target.at,
                            base.record,
                            target.text == LATEST if isinstance(target, Moment) else False,
                            options.epoch,
                        )
                        catalog = self._with_log(ctx, session, name, catalog, carrier, wish)
                        _require_proven(ctx, target, log, catalog.backups[-1])
            if isinstance(target, UnseenTransaction):
                target = _found(ctx, target.name, catalog, base)
            # What was fetched to read the log from, also where its record does not say how far it reaches.
            plan = make_plan(ctx, catalog, catalog.backups, target, options, log=catalog.backups[-1])
            yield Opened(catalog, plan, _nothing)
            failed.pop_all()

    def _bring(self, ctx: Context, session: Session, name: str, base: Backup, log: Backup) -> Catalog:
        if self.run_at_destination:
            return clone_at_destination(ctx, name, base, log)
        return fetch(ctx, session, name, base, log, self.destination.limit)

    def _with_log(
        self,
        ctx: Context,
        session: Session,
        name: str,
        catalog: Catalog,
        carrier: Carrier,
        wish: ArchiveWish,
    ) -> Catalog:
        """See with_archived_log. Where that is another log, it is said what there is without."""
        try:
            return with_archived_log(ctx, session, name, catalog, carrier, self.destination.limit, wish)
        except NotRecoverable as another:
            if end := catalog.backups[-1].record.complete_to:
                alone = local_text(end, ctx.zone)
                another.args = (f"{another}; the backups alone lead up to {alone} (--to that)",)
            raise


def _restorable(ctx: Context, destination: ShipDestination, epoch: int | None = None) -> ArchivedCopies:
    with destination.adapter.connect() as session:
        return _with_archive(ctx, session, epoch)


def _with_archive(ctx: Context, session: Session, epoch: int | None) -> ArchivedCopies:
    """Return what can be restored from there. An archive that cannot be read keeps no backup from
    that."""
    there = archived_copies(session, session.copies().to_restore(), epoch)
    if there.unknown:
        ctx.progress.note(f"archived log is not read: {there.unknown}")
    for problem in there.archive.problems[:1]:
        ctx.progress.note(f"in the log archive at {there.archive.address}: {problem}")
    return there


def latest_backups(ctx: Context, destination: ShipDestination, options: RestoreOptions) -> Sequence[Backup]:
    """The destination's backups of the server whose newest is meant. Raise as Source.latest() does."""
    there = _restorable(ctx, destination, options.epoch)
    copies = there.with_holders
    _require_known(there, destination, options)
    backups = _latest(ctx, destination, copies, options)
    if not usable_bases(backups):
        raise NotRecoverable(_none(ctx, destination, copies))
    return backups


def _latest(
    ctx: Context, destination: ShipDestination, copies: Copies, options: RestoreOptions
) -> Sequence[Backup]:
    """The backups of the one server whose newest is meant, which --base tells where there are several.

    Raise Refused, naming them, where that is not clear and nobody said that it does not matter.
    """
    servers = [s for s in by_server(copies.backups) if options.base in ("", *(b.name for b in s))]
    if not servers:
        return copies.backups
    newest = max((s[-1] for s in servers), key=lambda b: b.createtxg)
    address = destination.adapter.address
    if len(servers) > 1 and not options.accept_older:
        each = "; ".join(f"{s[-1].name} {_whose(s[-1])}" for s in servers)
        raise Refused(
            f"backups of {len(servers)} servers lie at {address}, and the newest of each are {each}: say "
            f"which is meant with --base NAME, or --accept-older to take {newest.name}, which arrived last"
        )
    if copies.unreadable and not options.accept_older:
        name, problem = copies.unreadable[0]
        raise Refused(
            f"{name} at {address} cannot be read, and may be the newest ({problem}): --accept-older takes "
            f"{newest.name}, the newest that can be read"
        )
    return next(s for s in servers if s[-1] is newest)


def _whose(backup: Backup) -> str:
    return f"of {backup.record.members[0][0]} and server {backup.record.server_uuid}"


def _choose(
    ctx: Context,
    destination: ShipDestination,
    there: ArchivedCopies,
    target: RestoreTarget,
    options: RestoreOptions,
) -> RecoveryPlan:
    """Base, log source and why. There is no live log to continue with: a backup has to reach the moment, or
    what was archived behind one."""
    address, copies = destination.adapter.address, there.with_holders
    if not copies.backups:
        raise NotRecoverable(_none(ctx, destination, copies))
    note_unreadable(ctx, copies.unreadable)
    backups = copies.backups
    latest = isinstance(target, Moment) and target.text == LATEST
    if latest:
        _require_known(there, destination, options)
        backups = tuple(_latest(ctx, destination, copies, options))
    choice = _choice(ctx, replace(copies, backups=backups), target, options.base)
    if (servers := len(by_server(copies.backups))) > 1:
        ctx.progress.note(
            f"backups of {servers} servers, or from before the datasets were moved, lie at {address}: "
            f"{choice.base.name}, which is chosen, is {_whose(choice.base)}; --base NAME starts from another"
        )
    require_usable(ctx, choice)
    if latest and not choice.as_it_is:
        newest = max(backups, key=lambda b: b.createtxg)
        return replace(choice, log=farthest_log(choice.base, backups) or newest, others=())
    if choice.log is None:
        reached = max(b.record.complete_to for b in copies.backups if b.record.complete_to)
        archived = "and archived log " if there.carried else ""
        why = f"the last one they reach is {local_text(reached, ctx.zone)} (--to latest)"
        if isinstance(target, Moment) and target.at < reached:
            shown = command_line("zbackup", "window", ctx.instance, "--at", destination.name)
            why = f"their log has a gap there, and they go on behind it ({shown})"
        raise NotRecoverable(
            f"the backups {archived}at {address} do not reach that moment: {'; '.join((why, *there.ends))}"
        )
    return choice


def _require_known(there: ArchivedCopies, destination: ShipDestination, options: RestoreOptions) -> None:
    """Raise Refused where there may be later log, unless what can be read will do."""
    if there.unknown and not options.accept_older:
        raise Refused(
            f"the log archive at {destination.adapter.address} cannot be read, and may lead further "
            f"than the backups ({there.unknown}): --accept-older takes what the backups hold"
        )


def _require_proven(ctx: Context, target: RestoreTarget, said: Backup, proven: Backup) -> None:
    """Raise VerificationFailed where the archive was chosen by what its names claim, and that is not so."""
    if not isinstance(target, Moment | ClusterTime):
        return
    if isinstance(target, Moment) and target.text == LATEST:
        return
    if _leads_to(target, said) and not _leads_to(target, proven):
        reached = proven.record.complete_to
        upto = f"up to {local_text(reached, ctx.zone)} (--to that)" if reached else "up to no known moment"
        raise VerificationFailed(
            f"the log archive says that it reaches {local_text(target.at, ctx.zone)}, but what is there "
            f"proves to lead {upto}; --to latest takes all that proves"
        )


def _leads_to(target: Moment | ClusterTime, log: Backup) -> bool:
    """Whether all that was before the target is in the log.

    A cluster time is somewhere in its second.
    """
    if isinstance(target, Moment):
        return log.reaches(target.at)
    end = position_of(log.record.log_to)[:2]
    return end >= (target.seconds, target.increment) or log.reaches(target.at + timedelta(seconds=1))


def _note_ways(ctx: Context, target: RestoreTarget, carrier: Carrier) -> None:
    """Say where all that was archived does not lead to the end of the archive, and where it leads two
    ways."""
    chain, *others = carrier.chains
    if chain.why and isinstance(target, Moment) and target.text == LATEST:
        ctx.progress.note(f"the archived log counts up to {chain.end}: {chain.why}")
    also = (other.files[0] for other in others if not is_other_log(other.files[0], chain.files[0]))
    for fork in (*(row[0] for row in chain.forks), *also):
        ctx.progress.note(
            f"{fork.file.name} was archived another way, too, up to {fork.size} (epoch {fork.file.epoch}): "
            "the server's log was cut off or replaced there, and the newest epoch is what counts"
        )


def _found(ctx: Context, name: TransactionName, catalog: Catalog, base: Backup) -> BeforeTransaction:
    """The transaction in what was fetched. Raise NotRecoverable when the base holds it after all."""
    before = locate_in(ctx, name, catalog)
    if position_of(base.record.log_to) > position_of(before.transaction.start):
        raise NotRecoverable(
            f"backup {base.name} already contains transaction {name}: choose an older one with --base"
        )
    return before


def _choice(ctx: Context, copies: Copies, target: RestoreTarget, base: str) -> RecoveryPlan:
    """What was possible first; of what nothing reaches, what all of them together are good for."""

    def plan(backups: Sequence[Backup]) -> RecoveryPlan:
        return choose(ctx, backups, target, base)

    def reaches(backup: Backup) -> bool:
        if isinstance(target, UnseenTransaction):
            return may_contain(backup, target.name)
        return backup.reaches(target.at)

    if isinstance(target, BackupAsItIs) or (isinstance(target, Moment) and target.text == LATEST):
        return plan(copies.backups)
    return first_to_reach(by_server(copies.backups), reaches, plan) or plan(copies.backups)


def _none(ctx: Context, destination: ShipDestination, copies: Copies) -> str:
    said = f"there is no committed backup of {ctx.instance} at {destination.adapter.address}"
    return ": ".join((f"{said} that can be read", copies.unreadable[0][1])) if copies.unreadable else said


def _note_kept(ctx: Context, name: str) -> None:
    """Never hides the failure itself."""
    try:
        kept = ctx.zfs.exists(f"{ctx.clones}/{copy_name(name)}")
    except ZbackupError:
        return
    if kept:
        ctx.progress.note(
            f"what was fetched is kept in {ctx.clones}/{copy_name(name)}: the same command continues, "
            f"{command_line('zbackup', 'clone', 'destroy', copy_name(name))} removes it"
        )


def _nothing() -> None:
    """There is no lock to release: nobody else knows of what was fetched."""
