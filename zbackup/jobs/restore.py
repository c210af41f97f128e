"""Bring an instance back to a moment, beside the original."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from zbackup.catalog.local import Catalog
from zbackup.jobs import clone_files
from zbackup.jobs.clone import working_on
from zbackup.jobs.clone_claim import announce, everywhere, require_free_port
from zbackup.jobs.context import Context, live_files
from zbackup.jobs.finish import finish_all
from zbackup.jobs.log_snapshot import snapshot_log
from zbackup.jobs.restore_options import RestoreOptions
from zbackup.jobs.temporary import log_clone, removed_on_failure
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.commit_times import Anchor, micros
from zbackup.model.errors import ClockDisputed, Refused, Taken, UsageError
from zbackup.model.exact import Before, Exact, WholeLog
from zbackup.model.log import ClusterTime, Transaction, how_many
from zbackup.model.moment import Moment, local_text
from zbackup.model.recovery import Recovered, ReplayRange, Serving
from zbackup.model.snapshot import Dataset
from zbackup.plan.before import plan_before
from zbackup.plan.clock_anchors import END_OF_LOG, anchors_of
from zbackup.plan.clone_name import default_name, log_name, require_good
from zbackup.plan.recovery import RecoveryPlan, farthest_log, plan_recovery, plan_whole_log

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What will be done. `log` is None while the snapshot to read the log from is still to be taken, and
    `replay` when the engine can tell only afterwards what it replayed.

    `warnings` are what was said of the server when the backups were taken that this starts from. `fetch` is
    how many bytes would come from a destination, 0 for none or unknown.
    """

    name: str
    target: datetime
    base: Backup
    log: Backup | None
    reason: str
    replay: ReplayRange | None
    warnings: tuple[str, ...] = ()
    fetch: int = 0

    @property
    def clock_accepted(self) -> bool:
        """Whether the log could have been cut elsewhere, too, and somebody took its times as they are."""
        return self.replay is not None and self.replay.later is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was done. `socket` and `connect` lead to the recovered server, which goes on running."""

    plan: RestorePlan
    clone: Clone
    recovered: Recovered
    socket: str
    connect: str

    @property
    def replay(self) -> ReplayRange | None:
        """What was replayed."""
        return self.recovered.replay or self.plan.replay

    @property
    def clock_accepted(self) -> bool:
        """See RestorePlan."""
        return self.recovered.clock_accepted or self.plan.clock_accepted


def plan_restore(ctx: Context, moment: Moment, options: RestoreOptions) -> RestorePlan:
    """Look and decide, and change nothing; without a later snapshot the live log is looked at."""
    require_possible(ctx, options)
    require_unused(ctx, options.name or default_name(ctx.instance, moment.at), options)
    catalog = ctx.catalog()
    note_unreadable(ctx, catalog.unreadable)
    return make_plan(ctx, catalog, catalog.backups, moment, options)


def restore(ctx: Context, moment: Moment, options: RestoreOptions, *, held: bool = False) -> RestoreReport:
    """Recover the instance as of the moment into a clone with a server of its own.

    Everything committed before the moment is there and nothing from it on. Raise NotRecoverable, Taken,
    Refused before anything is made; VerificationFailed or DatabaseError after which, unless `keep`, what
    was made is gone again. `held`: the caller holds the lock of the clone's name.
    """
    require_possible(ctx, options)
    name = options.name or default_name(ctx.instance, moment.at)
    with nullcontext() if held else working_on(ctx, name, "zbackup restore"):
        require_free(ctx, name, options)
        ctx.progress.phase("looking", "which backup, how much log")
        with ExitStack() as looked:
            looked.enter_context(ctx.alone("zbackup restore"))
            catalog = ctx.catalog()
            note_unreadable(ctx, catalog.unreadable)
            backups = finish_all(ctx, catalog.places, catalog.backups)
            plan = make_plan(ctx, catalog, backups, moment, options)
            if plan.log is None and options.stored_only:
                newest = farthest_log(plan.base, backups) or max(
                    (b for b in backups if b.complete and b.finished), key=lambda b: b.createtxg
                )
                plan = make_plan(ctx, catalog, backups, moment, options, log=newest)
            elif plan.log is None:
                ctx.progress.phase("taking a snapshot", "to read the log from")
                taken = snapshot_log(ctx, catalog, backups, plan.base.record)
                ctx.progress.note(f"took {taken.name} to read the log from")
                plan = make_plan(ctx, catalog, (*backups, taken), moment, options, log=taken)
            _note_replica(ctx, plan, plan.replay)
            return act(ctx, catalog, plan, moment, options, looked.close)


def make_plan(
    ctx: Context,
    catalog: Catalog,
    backups: tuple[Backup, ...],
    moment: Moment,
    options: RestoreOptions,
    log: Backup | None = None,
) -> RestorePlan:
    target = moment.exclusive_end
    choice = choose(ctx, backups, moment, options)
    base, source = choice.base, log or choice.log
    require_recoverable(base)
    ctx.recovery.check_program(base.record)
    if serving := _serving(options):
        ctx.recovery.check_serving(base.record, serving)
    where = source.browse(catalog.places) if source else live_files(catalog.datasets)
    record = source.record if source else base.record
    replay = ctx.recovery.examine(
        (base.record, base.browse(catalog.places)),
        (record, where),
        target,
        options.stop(moment),
        clock_anchors(ctx, backups, base, source),
    )
    require_undisputed(ctx, replay, moment, options)
    return RestorePlan(
        name=options.name or default_name(ctx.instance, moment.at),
        target=target,
        base=base,
        log=source,
        reason=choice.reason,
        replay=replay,
        warnings=(*_recorded_warnings(base, source or base), *_clock_warnings(replay), *_outside(replay)),
    )


def clock_anchors(
    ctx: Context, backups: Sequence[Backup], base: Backup, source: Backup | None
) -> tuple[Anchor, ...]:
    """The clock readings there are for the log behind `base`, that of now for the server's own."""
    found = anchors_of(backups, base)
    if source is not None or ctx.engine_name == "mongodb":
        return found
    now = micros(ctx.clock.now())
    return (*found, Anchor(place=END_OF_LOG, earliest=now, latest=now, clock=ctx.clock.reading()))


def require_undisputed(
    ctx: Context, replay: ReplayRange | None, moment: Moment, options: RestoreOptions
) -> None:
    """Raise ClockDisputed when the log can be read in two ways there, unless its times are accepted."""
    if replay is None or replay.later is None or options.accept_clock:
        return
    first, later = replay.first_skipped, replay.later.first_skipped
    between = replay.later.transactions - replay.transactions
    where = f"before {_named(ctx, later)}" if later else "at the end of the log"
    ways = f"--before {later.start}" if later else "--to now"
    if first is None:
        raise AssertionError("a log that ends before the target has no later end")
    raise ClockDisputed(
        f"the log's times contradict its order around {local_text(moment.at, ctx.zone)}, so it is not known "
        f"where that is: before {_named(ctx, first)}, or {how_many(between)} later, {where}; look at them "
        f"with mysqlbinlog, then say --before {first.start} or {ways} instead of --to, or take the earlier "
        "with --accept-clock"
    )


def _named(ctx: Context, subject: Transaction) -> str:
    gtid = f"GTID {subject.gtid}, " if subject.gtid else ""
    return f"{subject.start} ({gtid}which says {local_text(subject.committed, ctx.zone)})"


def _clock_warnings(replay: ReplayRange | None) -> tuple[str, ...]:
    """What a script should know, too: it reads no remarks."""
    if replay is None or not replay.out_of_order:
        return ()
    return (
        f"{how_many(replay.out_of_order)} behind the cut say that they are from before the target; "
        "the order of the log is what counts",
    )


def choose(ctx: Context, backups: Sequence[Backup], moment: Moment, options: RestoreOptions) -> RecoveryPlan:
    """Which of the backups to start from and to read the log from. Raise NotRecoverable."""
    # What a backup has is not in the future, whatever this host's clock says: it may be another's.
    now = max((ctx.clock.now(), *(b.record.complete_to for b in backups if b.record.complete_to)))
    if isinstance(options.exact, Before):
        return plan_before(options.exact, now, backups, ctx.zone, base=options.base)
    if moment.is_now and options.exact is None:
        return plan_whole_log(backups, base=options.base)
    # A cluster time is somewhere within its second, and the log has to reach beyond that.
    wanted = max(moment.at, min(moment.at + timedelta(seconds=1), now)) if options.exact else moment.at
    cut = ctx.recovery.cut_for(moment.exclusive_end)
    return plan_recovery(wanted, now, backups, ctx.zone, cut=cut, base=options.base)


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


def require_possible(ctx: Context, options: RestoreOptions) -> None:
    """Raise UsageError when what is asked for is not to be had with this engine, or not together."""
    if not isinstance(options.exact, ClusterTime) and not options.replica_set:
        return
    if ctx.engine_name != "mongodb":
        raise UsageError(
            f"{ctx.instance} is {ctx.engine_name}: only MongoDB has cluster times and replica sets"
        )
    if options.replica_set and not options.port:
        raise UsageError("--as-replica-set needs --port: a member of a set is known by host and port")
    if options.replica_set and options.read_only:
        raise UsageError("--as-replica-set and --read-only exclude each other: a member writes its own oplog")


def _note_replica(ctx: Context, plan: RestorePlan, replay: ReplayRange | None) -> None:
    """What a replica had not received is in no log of its own, and only its source knows of it."""
    record = plan.log.record if plan.log else None
    if record is None or record.role != "replica" or record.as_of is None or not replay:
        return
    if replay.first_skipped:
        return
    end = replay.last_applied.committed if replay.last_applied and not plan.replay else record.as_of
    if (record.complete_to or record.as_of) < plan.target:
        ctx.progress.note(
            f"this replica's log ends at {local_text(end, ctx.zone)}: what its source committed "
            f"after that and before the target is not in it"
        )


def note_unreadable(ctx: Context, unreadable: Sequence[tuple[str, str]]) -> None:
    """Say which backups nobody can start from; all others count."""
    for name, problem in unreadable:
        ctx.progress.note(f"{name} and so its backup cannot be read: {problem}")


def require_recoverable(base: Backup) -> None:
    if blockers := base.record.server.get("blockers"):
        raise Refused(f"{base.name} cannot be recovered to a moment: {'; '.join(blockers.splitlines())}")


def require_free(ctx: Context, name: str, options: RestoreOptions) -> None:
    """The name and the port are free, or the name is that of our own leftover, which is removed."""
    for leftover in require_unused(ctx, name, options):
        # Its maker holds the lock we hold now, or is dead.
        ctx.progress.note(f"removing what a killed run left of {leftover[0].name}")
        clone_files.destroy(ctx, *leftover)


def require_unused(ctx: Context, name: str, options: RestoreOptions) -> list[tuple[Clone, Dataset]]:
    """Raise Taken when the name or the port is not free; returns what runs that were cut short left of it."""
    if options.name:
        require_good(options.name)
    if options.port:
        require_free_port(options.port, everywhere(ctx))
    leftovers = []
    for wanted in (name, log_name(name)):
        found = clone_files.find_clone(ctx, wanted)
        if found and found[0].state == "building":
            leftovers.append(found)
        for place in ctx.everywhere()[1:] if found in leftovers else ctx.everywhere():
            dataset = f"{place.clones}/{wanted}"
            if place.zfs.exists(dataset):
                raise Taken(f"{dataset} exists: choose another --name, or zbackup clone destroy {wanted}")
    return leftovers


def act(
    ctx: Context,
    catalog: Catalog,
    plan: RestorePlan,
    moment: Moment,
    options: RestoreOptions,
    let_go: Callable[[], None],
) -> RestoreReport:
    """`let_go` lets others work on the instance: what is cloned, no prune can destroy."""
    finish = options.finish
    if plan.log is None:
        raise AssertionError("a recovery without a log source was planned")
    clone = Clone(
        id=clone_files.new_id(),
        name=plan.name,
        instance=ctx.instance,
        engine=plan.base.record.engine,
        kind="restore",
        state="building",
        created=ctx.clock.now(),
        backup=plan.base.name,
        target=moment.at.isoformat(),
        port=options.port,
        read_only=options.read_only,
        replica_set=options.replica_set,
    )
    ctx.progress.phase("cloning", plan.base.name)
    with removed_on_failure(ctx, clone, keep=options.keep):
        clone = finish.begin(clone) if finish else announce(ctx, clone)
        base = clone_files.fill(ctx, clone, plan.base)
        with log_clone(ctx, catalog, clone, plan.log, keep=options.keep) as (source, visible):
            let_go()
            base = clone_files.in_sight_of(ctx, base, catalog.places, visible)
            recovered = ctx.recovery.recover(
                base, source, plan.target, _serving(options), ctx.progress, _stop(plan, moment, options)
            )
        base = replace(base, beside=())
        clone = replace(clone, reached=recovered.gtid or recovered.position)
        clone = finish.hand_over(base, clone) if finish else clone_files.mark_ready(ctx, clone)
    if plan.replay is None:
        _note_replica(ctx, plan, recovered.replay)
    log.info("restore.finished", clone=clone.name, backup=plan.base.name, target=clone.target)
    path, line = ctx.recovery.connection(base.run, clone.port, clone.login)
    return RestoreReport(plan=plan, clone=clone, recovered=recovered, socket=path, connect=line)


def _stop(plan: RestorePlan, moment: Moment, options: RestoreOptions) -> Exact | None:
    """Where to stop, as it was decided already if it was: a log is looked through for it once."""
    if plan.replay is None:
        return options.stop(moment)
    return plan.replay.first_skipped or WholeLog()


def _serving(options: RestoreOptions) -> Serving | None:
    if options.finish:
        return None
    return Serving(port=options.port, read_only=options.read_only, replica_set=options.replica_set)
