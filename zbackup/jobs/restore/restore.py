"""Bring an instance back to a moment, beside the original."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from zbackup.catalog.local import Catalog
from zbackup.jobs.backup.complete_record import finish_all
from zbackup.jobs.backup.log_snapshot import snapshot_log
from zbackup.jobs.backup.prune import drop_replaced_logs
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import announce
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.clones.temporary import log_clone, removed_on_failure
from zbackup.jobs.context import Context
from zbackup.jobs.restore.log_source import (
    Examined,
    clock_warnings,
    examined,
    nothing_replayed,
    require_undisputed,
)
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.preconditions import require_free, require_possible, require_unused, require_usable
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.errors import DatasetNotFound, NotFound, NotRecoverable
from zbackup.model.log import ClusterTime
from zbackup.model.moment import Moment, local_text
from zbackup.model.progress import Phase, Stopwatch
from zbackup.model.recovery import Files, Recovered, ReplayRange, Serving
from zbackup.model.target import (
    BackupAsItIs,
    BeforeTransaction,
    RestoreTarget,
    Target,
    UnseenTransaction,
    WholeLog,
    replay_target,
    time_of,
)
from zbackup.plan.clones.clone_name import default_name
from zbackup.plan.recovery.as_it_is import at_own_moment, find_backup
from zbackup.plan.recovery.before_transaction import plan_before, plan_unseen
from zbackup.plan.recovery.recovery import (
    RecoveryPlan,
    farthest_log,
    plan_as_it_is,
    plan_recovery,
    plan_whole_log,
    require_whole_log,
)
from zbackup.plan.recovery.window import recovery_window

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What will be done for the target that was `asked` for.

    The replay stops at `target`; it is None where nothing is replayed, or the transaction has yet to be found.
    `log` is None while the snapshot to read the log from is still to be taken, and `replay` when the engine
    can tell only afterwards what it replayed.

    `warnings` are what was said of the server when the backups were taken that this starts from. `fetch` is
    how many bytes would come from a destination, 0 for none or unknown. `as_it_is`: the base is restored as
    it is, with nothing replayed. `others` are read instead of `log` when that proves not to lead on.
    """

    name: str
    asked: RestoreTarget
    target: Target | None
    base: Backup
    log: Backup | None
    reason: str
    replay: ReplayRange | None
    warnings: tuple[str, ...] = ()
    fetch: int = 0
    as_it_is: bool = False
    others: tuple[Backup, ...] = ()

    @property
    def stop(self) -> Target:
        """Where to stop: as it was found in the log, if it was, which is searched for it once."""
        if self.target is None:
            raise AssertionError(f"{self.asked} is no place in a log, or was not searched for")
        if self.replay is None:
            return self.target
        return self.replay.first_skipped or WholeLog(time_of(self.target))

    @property
    def clock_accepted(self) -> bool:
        """Whether the log could have been cut elsewhere, too, and somebody took its times as they are."""
        return self.replay is not None and self.replay.later is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was done. `socket` and `connect` lead to the recovered server, which goes on running. `phases` are
    what it took."""

    plan: RestorePlan
    clone: Clone
    recovered: Recovered
    socket: str
    connect: str
    phases: tuple[Phase, ...] = ()

    @property
    def replay(self) -> ReplayRange | None:
        """What was replayed."""
        return self.recovered.replay or self.plan.replay

    @property
    def clock_accepted(self) -> bool:
        """See RestorePlan."""
        return self.recovered.clock_accepted or self.plan.clock_accepted


def plan_restore(ctx: Context, target: RestoreTarget, options: RestoreOptions) -> RestorePlan:
    """Look and decide, and change nothing; without a later snapshot the live log is looked at."""
    require_possible(ctx, target, options)
    require_unused(ctx, options.name or default_name(ctx.instance, target.at), options)
    catalog = ctx.catalog()
    note_unreadable(ctx, catalog.unreadable)
    with window_named(ctx, catalog.backups):
        plan = make_plan(ctx, catalog, catalog.backups, target, options)
        require_whole_live_log(plan, catalog.backups, options)
        return plan


def require_whole_live_log(plan: RestorePlan, backups: Sequence[Backup], options: RestoreOptions) -> None:
    """Raise NotRecoverable where the server's own log is to be read, and lacked something since the base."""
    if plan.log is None and not options.stored_only:
        require_whole_log(plan.base, None, backups, "start from a newer backup, or name a moment before that")


@contextmanager
def window_named(ctx: Context, backups: Sequence[Backup]) -> Iterator[None]:
    """A moment that cannot be restored is told of with those that can be."""
    try:
        yield
    except NotRecoverable as failure:
        window = recovery_window(backups, None, ctx.clock.now()).overall
        if window and "recovery window" not in str(failure):
            failure.args = (f"{failure}; the recovery window is {window.describe(ctx.zone)}",)
        raise


def restore(
    ctx: Context, target: RestoreTarget, options: RestoreOptions, *, held: bool = False
) -> RestoreReport:
    """Recover the instance as of the target into a clone with a server of its own.

    Everything committed before the target is there, and nothing after it. Raise NotRecoverable, Taken,
    Refused before anything is made; VerificationFailed or DatabaseError after which, unless `keep`, what
    was made is gone again. `held`: the caller holds the lock of the clone's name.
    """
    require_possible(ctx, target, options)
    name = options.name or default_name(ctx.instance, target.at)
    watch = Stopwatch(ctx.progress, ctx.clock.monotonic)
    ctx = replace(ctx, progress=watch)
    with nullcontext() if held else working_on(ctx, name, "zbackup restore"):
        require_free(ctx, name, options)
        ctx.progress.phase("looking", "which backup, how much log")
        with ExitStack() as looked, ExitStack() as alone:
            alone.enter_context(ctx.alone("zbackup restore"))
            catalog = ctx.catalog()
            note_unreadable(ctx, catalog.unreadable)
            backups = finish_all(ctx, catalog.places, catalog.backups)
            looked.enter_context(window_named(ctx, backups))
            plan = make_plan(ctx, catalog, backups, target, options)
            require_whole_live_log(plan, backups, options)
            if plan.log is None and options.stored_only:
                newest = farthest_log(plan.base, backups) or max(
                    (b for b in backups if b.complete and b.finished), key=lambda b: b.createtxg
                )
                plan = make_plan(ctx, catalog, backups, target, options, log=newest)
            elif plan.log is None:
                ctx.progress.phase("taking a snapshot", "to read the log from")
                taken = snapshot_log(ctx, catalog, backups, plan.base.record)
                ctx.progress.note(f"took {taken.name} to read the log from")
                backups = drop_replaced_logs(ctx, (*backups, taken))
                plan = make_plan(ctx, catalog, backups, target, options, log=taken)
            _note_replica(ctx, plan, plan.replay)
            report = _act(ctx, catalog, plan, options, alone.close)
            return replace(report, phases=watch.phases())


def _act(
    ctx: Context,
    catalog: Catalog,
    plan: RestorePlan,
    options: RestoreOptions,
    let_go: Callable[[], None],
) -> RestoreReport:
    """Go on with the next log source when one proves not to lead on from the base."""
    try:
        return act(ctx, catalog, plan, options, let_go)
    except NotRecoverable as failure:
        if not plan.others or options.keep or plan.log is None:
            raise
        following, *others = plan.others
        ctx.progress.note(f"{plan.log.name} does not lead there ({failure}): trying {following.name}")
        why = failure
    again = replace(plan, log=following, others=tuple(others), replay=None)
    try:
        return _act(ctx, catalog, again, options, let_go)
    except (DatasetNotFound, NotFound) as gone:
        # Nobody holds the instance's lock any more: a prune may have been faster.
        raise why from gone


def make_plan(
    ctx: Context,
    catalog: Catalog,
    backups: tuple[Backup, ...],
    asked: RestoreTarget,
    options: RestoreOptions,
    log: Backup | None = None,
) -> RestorePlan:
    """Decide with these backups, and look into the log. `log`: read this one, whatever else there is."""
    target = replay_target(asked, accept_clock=options.accept_clock)
    choice = choose(ctx, backups, asked, options.base)
    base = choice.base
    require_usable(ctx, choice)
    if serving := _serving(options):
        ctx.recovery.check_serving(base.record, serving)
    sources = (log,) if log else (choice.log, *choice.others)
    if choice.as_it_is:
        found = Examined(log or base, nothing_replayed(asked.at), ())
    elif target is None:
        raise AssertionError(f"{asked} was not searched for")
    else:
        found = examined(ctx, catalog, (backups, base, sources), target)
        require_undisputed(ctx, found.replay, target)
    return RestorePlan(
        name=options.name or default_name(ctx.instance, asked.at),
        asked=asked,
        target=target,
        base=base,
        log=found.log,
        reason=choice.reason if found.log in sources[:1] else f"{choice.reason}, but does not lead there",
        replay=found.replay,
        warnings=(
            *_recorded_warnings(base, found.log or base),
            *clock_warnings(found.replay),
            *_outside(found.replay),
        ),
        as_it_is=choice.as_it_is,
        others=found.others,
    )


def choose(ctx: Context, backups: Sequence[Backup], target: RestoreTarget, base: str) -> RecoveryPlan:
    """Which of the backups to start from and to read the log from. Raise NotRecoverable."""
    if isinstance(target, BackupAsItIs):
        return plan_as_it_is(find_backup(target.name, backups))
    if isinstance(target, UnseenTransaction):
        return plan_unseen(target.name, backups, base=base)
    own = at_own_moment(target.at, backups) if isinstance(target, Moment) else None
    if own and base in ("", own.name):
        return plan_as_it_is(own)
    # What a backup has is not in the future, whatever this host's clock says: it may be another's.
    now = max((ctx.clock.now(), *(b.record.complete_to for b in backups if b.record.complete_to)))
    if isinstance(target, BeforeTransaction):
        return plan_before(target, now, backups, ctx.zone, base=base)
    if isinstance(target, Moment) and target.is_now:
        return plan_whole_log(backups, base=base)
    wanted = target.at
    if isinstance(target, ClusterTime):
        # It is somewhere within its second, and the log has to reach beyond that.
        wanted = max(wanted, min(wanted + timedelta(seconds=1), now))
    cut = ctx.recovery.cut_for(target.at)
    return plan_recovery(wanted, now, backups, ctx.zone, cut=cut, base=base)


def _recorded_warnings(*backups: Backup) -> tuple[str, ...]:
    """Each once. What concerned the server then, such as channels that lag, concerns what is restored."""
    said = (text for b in backups for text in b.record.server.get("warnings", "").splitlines())
    return tuple(dict.fromkeys(said))


def _outside(replay: ReplayRange | None) -> tuple[str, ...]:
    """A switch could not bring such a table into production's place."""
    if replay is None or not replay.outside:
        return ()
    where = ", ".join(replay.outside)
    return (
        f"the log makes tables in {where} (DATA DIRECTORY), which is on none of the instance's datasets: the "
        "recovered server keeps them in a directory of its own clone instead",
    )


def _note_replica(ctx: Context, plan: RestorePlan, replay: ReplayRange | None) -> None:
    """What a replica had not received is in no log of its own, and only its source knows of it."""
    record = plan.log.record if plan.log else None
    if plan.as_it_is or record is None or record.role != "replica" or record.as_of is None or not replay:
        return
    if replay.first_skipped:
        return
    end = replay.last_applied.committed if replay.last_applied and not plan.replay else record.as_of
    if plan.target and (record.complete_to or record.as_of) < time_of(plan.target):
        ctx.progress.note(
            f"this replica's log ends at {local_text(end, ctx.zone)}: what its source committed "
            f"after that and before the target is not in it"
        )


def note_unreadable(ctx: Context, unreadable: Sequence[tuple[str, str]]) -> None:
    """Say which backups nobody can start from; all others count."""
    for name, problem in unreadable:
        ctx.progress.note(f"{name} and so its backup cannot be read: {problem}")


def act(
    ctx: Context,
    catalog: Catalog,
    plan: RestorePlan,
    options: RestoreOptions,
    let_go: Callable[[], None],
) -> RestoreReport:
    """`let_go` lets others work on the instance: what is cloned, no prune can destroy."""
    finish = options.finish
    clone = Clone(
        id=clone_datasets.new_id(),
        name=plan.name,
        instance=ctx.instance,
        engine=plan.base.record.engine,
        kind="restore",
        state="building",
        created=ctx.clock.now(),
        backup=plan.base.name,
        target=plan.asked.at.isoformat(),
        port=options.port,
        read_only=options.read_only,
        replica_set=options.replica_set,
    )
    ctx.progress.phase("cloning", plan.base.name)
    with removed_on_failure(ctx, clone, keep=options.keep):
        clone = finish.begin(clone) if finish else announce(ctx, clone)
        base = clone_datasets.fill(ctx, clone, plan.base)
        base, recovered = _recovered(ctx, catalog, (clone, base), plan, options, let_go)
        base = replace(base, beside=())
        clone = replace(clone, reached=recovered.gtid or recovered.position)
        clone = finish.hand_over(base, clone) if finish else clone_datasets.mark_ready(ctx, clone)
    if plan.replay is None:
        _note_replica(ctx, plan, recovered.replay)
    log.info("restore.finished", clone=clone.name, backup=plan.base.name, target=clone.target)
    path, line = ctx.recovery.connection(base.run, clone.port, clone.login)
    return RestoreReport(plan=plan, clone=clone, recovered=recovered, socket=path, connect=line)


def _recovered(
    ctx: Context,
    catalog: Catalog,
    made: tuple[Clone, Files],
    plan: RestorePlan,
    options: RestoreOptions,
    let_go: Callable[[], None],
) -> tuple[Files, Recovered]:
    """Let the engine do it with the clone that was made, and its files."""
    clone, base = made
    if plan.as_it_is:
        let_go()
        base = clone_datasets.in_sight_of(ctx, base, catalog.places, [clone])
        return base, ctx.recovery.open(base, _serving(options), ctx.progress)
    if plan.log is None:
        raise AssertionError("a recovery without a log source was planned")
    with log_clone(ctx, catalog, clone, plan.log, keep=options.keep) as (source, visible):
        let_go()
        base = clone_datasets.in_sight_of(ctx, base, catalog.places, visible)
        recovered = ctx.recovery.recover(base, source, plan.stop, _serving(options), ctx.progress)
    return base, recovered


def _serving(options: RestoreOptions) -> Serving | None:
    if options.finish:
        return None
    return Serving(port=options.port, read_only=options.read_only, replica_set=options.replica_set)
