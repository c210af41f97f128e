"""Restore from the backups on this host, and the server's own log behind them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from zbackup.jobs.backup.complete_record import finish_all
from zbackup.jobs.backup.log_snapshot import log_behind, snapshot_log
from zbackup.jobs.backup.prune import drop_replaced_logs
from zbackup.jobs.context import Context
from zbackup.jobs.restore.locate_transaction import locate
from zbackup.jobs.restore.make_plan import (
    RestorePlan,
    make_plan,
    note_replica,
    note_unreadable,
    require_whole_live_log,
    window_named,
)
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.search_log import search_log
from zbackup.jobs.restore.source import Opened, as_it_is, labelled
from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, NotRecoverable, ZbackupError
from zbackup.model.log import LOG_BEHIND
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.moment import Moment, parse_moment
from zbackup.model.record import LOG_ENDED, ends_log, leaves_out
from zbackup.model.target import LATEST, BackupAsItIs, BeforeTransaction, RestoreTarget
from zbackup.model.transaction_name import TransactionName
from zbackup.plan.health.promoted import give_back, what_happened
from zbackup.plan.recovery.as_it_is import latest_as_it_is
from zbackup.plan.recovery.coverage import first_break
from zbackup.plan.recovery.recovery import farthest_log


def what_keeps_log(ctx: Context, server_uuid: str) -> tuple[str, ...]:
    """Return why what the server writes now is not in its log; () when it is, or when the server does not
    answer.

    A recovery must be possible while the server is down.
    """
    try:
        facts = ctx.engine.inspect()
    except (ZbackupError, OSError) as failure:
        ctx.progress.note(f"the server was not asked whether it still writes its log: {failure}")
        return ()
    if facts.server_uuid != server_uuid:
        return ()
    return tuple(blocker for blocker in facts.blockers if ends_log(blocker) or leaves_out(blocker))


def require_in_log(ctx: Context, plan: RestorePlan) -> Mapping[str, str]:
    """Return what is to be recorded with a snapshot of the live log: whether the server writes it no more.

    Raise NotRecoverable when what is asked for may be missing there.
    """
    base, target = plan.base, plan.target
    why = what_keeps_log(ctx, base.record.server_uuid)
    if not why:
        return {}
    lacking = "; ".join(why)
    alone = f"{command_line('--to-backup', base.name)} restores that backup as it is"
    if not all(ends_log(blocker) for blocker in why):
        raise NotRecoverable(f"the log behind {base.name} is not whole: {lacking}; {alone}")
    if not _takes_what_there_is(target) and not (plan.replay and plan.replay.first_skipped):
        raise NotRecoverable(
            f"the log behind {base.name} ends before that, and what the server wrote since is in none: "
            f"{lacking}; --to latest restores up to the log's end, and {alone}"
        )
    ctx.progress.note(f"the server writes no log any more ({lacking}): what it wrote since is left out")
    return {LOG_ENDED: lacking}


def require_all_read(ctx: Context, plan: RestorePlan, behind: str) -> None:
    """Raise NotRecoverable where the server's log is read through the server, and that does not answer: what
    was not read before is wanted, maybe. `behind` is what it said, "" for a log that is here."""
    if not behind:
        return
    if not _takes_what_there_is(plan.target) and not (plan.replay and plan.replay.first_skipped):
        raise NotRecoverable(
            "what the server wrote last is in its encrypted log alone, which it has to send (plain_log): "
            f"{behind}; start it, or take what was read before: --to latest"
        )
    if not (plan.replay and plan.replay.first_skipped):
        ctx.progress.note(f"what the server wrote last is missing, as its log is read from it: {behind}")


def where_log_ended(plan: RestorePlan, backups: Sequence[Backup]) -> Backup | None:
    """The snapshot that holds the end of the log behind the base, where that is all that is asked for."""
    if plan.log is not None or not _takes_what_there_is(plan.target):
        return None
    broken = first_break(plan.base, None, backups)
    return broken if broken and broken.record.log_ended else None


def _takes_what_there_is(target: RestoreTarget) -> bool:
    return isinstance(target, Moment) and target.is_now and target.text == LATEST


@contextmanager
def _promotion_named(ctx: Context) -> Iterator[None]:
    """Add to a failure that a clone was promoted by hand, and the command that moves the backups back."""
    try:
        yield
    except (NotRecoverable, NotFound) as failure:
        if found := ctx.catalog().promoted:
            failure.args = (f"{failure}; {what_happened(found)}. To move them back: {give_back(found)}",)
        raise


class LocalSource:
    def context(self, ctx: Context) -> Context:
        """The instance's own."""
        return ctx

    def latest(self, ctx: Context, options: RestoreOptions) -> Moment:
        """Now, to which the server's own log leads; where it keeps none, the newest backup's own moment."""
        if alone := latest_as_it_is(ctx.catalog().backups):
            return Moment(alone, LATEST, ctx.zone)
        now = parse_moment("now", ctx.zone, ctx.clock.now())
        return Moment(now.at, LATEST, ctx.zone, is_now=True)

    def backup(self, ctx: Context, name: str) -> BackupAsItIs:
        with _promotion_named(ctx):
            return as_it_is(name, ctx.catalog().backups)

    def labelled(self, ctx: Context, label: str) -> BackupAsItIs:
        with _promotion_named(ctx):
            return labelled(label, ctx.catalog().backups)

    def transaction(self, ctx: Context, name: TransactionName, base: str) -> BeforeTransaction:
        with _promotion_named(ctx):
            return locate(ctx, name, base)

    def search(self, ctx: Context, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        with _promotion_named(ctx):
            yield from search_log(ctx, wanted)

    def plan(self, ctx: Context, target: RestoreTarget, options: RestoreOptions) -> RestorePlan:
        """See Source. Without a later snapshot the live log is looked at."""
        catalog = ctx.catalog()
        note_unreadable(ctx, catalog.unreadable)
        with _promotion_named(ctx), window_named(ctx, catalog.backups):
            plan = make_plan(ctx, catalog, catalog.backups, target, options)
            if ended := where_log_ended(plan, catalog.backups):
                plan = make_plan(ctx, catalog, catalog.backups, target, options, log=ended)
            require_whole_live_log(plan, catalog.backups, options)
            if plan.log is None and not options.stored_only:
                require_in_log(ctx, plan)
                require_all_read(ctx, plan, log_behind(ctx, catalog, plan.base.record))
            return plan

    @contextmanager
    def opened(self, ctx: Context, target: RestoreTarget, options: RestoreOptions) -> Iterator[Opened]:
        """Lock the instance, and take a snapshot to read the log from where none holds it yet."""
        ctx.progress.phase("inspecting", "which backup, how much log")
        with ExitStack() as window, ExitStack() as lock:
            lock.enter_context(ctx.instance_lock("zbackup restore"))
            catalog = ctx.catalog()
            note_unreadable(ctx, catalog.unreadable)
            backups = finish_all(ctx, catalog.all_datasets, catalog.backups)
            window.enter_context(_promotion_named(ctx))
            window.enter_context(window_named(ctx, backups))
            plan = make_plan(ctx, catalog, backups, target, options)
            if ended := where_log_ended(plan, backups):
                ctx.progress.note(
                    f"when {ended.name} was taken, {ended.record.log_ended}: what followed is left out"
                )
                plan = make_plan(ctx, catalog, backups, target, options, log=ended)
            require_whole_live_log(plan, backups, options)
            if plan.log is None and options.stored_only:
                newest = farthest_log(plan.base, backups) or max(
                    (b for b in backups if b.complete and b.finished), key=lambda b: b.createtxg
                )
                plan = make_plan(ctx, catalog, backups, target, options, log=newest)
            elif plan.log is None:
                said = require_in_log(ctx, plan)
                behind = log_behind(ctx, catalog, plan.base.record)
                require_all_read(ctx, plan, behind)
                ctx.progress.phase("taking a snapshot", "to read the log from")
                taken = snapshot_log(ctx, catalog, backups, plan.base.record, said=said)
                ctx.progress.note(f"took {taken.name} to read the log from")
                backups = drop_replaced_logs(ctx, (*backups, taken))
                plan = make_plan(ctx, catalog, backups, target, options, log=taken)
                if not behind:
                    require_all_read(ctx, plan, taken.record.server.get(LOG_BEHIND, ""))
            note_replica(ctx, plan, plan.replay)
            yield Opened(catalog, plan, lock.close)


LOCAL = LocalSource()
