"""Restore from the backups on this host, and the server's own log behind them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zbackup.jobs.backup.complete_record import finish_all
from zbackup.jobs.backup.log_snapshot import log_behind, snapshot_log
from zbackup.jobs.backup.prune import drop_replaced_logs
from zbackup.jobs.context import Context
from zbackup.jobs.restore.live_log import require_all_read, require_in_log, where_log_ended
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
from zbackup.jobs.restore.source import LATEST, Opened, as_it_is, labelled
from zbackup.model.errors import NotFound, NotRecoverable
from zbackup.model.log import LOG_BEHIND
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.moment import Moment, parse_moment
from zbackup.model.target import BackupAsItIs, BeforeTransaction, RestoreTarget
from zbackup.model.transaction_name import TransactionName
from zbackup.plan.health.promoted import give_back, what_happened
from zbackup.plan.recovery.as_it_is import latest_as_it_is
from zbackup.plan.recovery.recovery import farthest_log


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
