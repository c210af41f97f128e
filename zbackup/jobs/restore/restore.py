"""Bring an instance back to a moment, beside the original."""

from contextlib import nullcontext
from dataclasses import dataclass, replace

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import announce, reserved_ports
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.clones.temporary import log_files, removed_on_failure
from zbackup.jobs.context import Context
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.make_plan import RestorePlan, note_replica
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.preconditions import require_free, require_possible, require_unused
from zbackup.jobs.restore.prove import prove
from zbackup.jobs.restore.skip import planned_without, require_within
from zbackup.jobs.restore.source import BackupSource, Opened
from zbackup.model.clone import Clone
from zbackup.model.errors import DatasetNotFound, NotFound, NotRecoverable
from zbackup.model.event_log import log
from zbackup.model.progress import Phase, Stopwatch
from zbackup.model.proof import Proof
from zbackup.model.recovery import Recovered, RecoveryFiles, ReplayRange
from zbackup.model.target import RestoreTarget
from zbackup.plan.clones.clone_name import default_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The report of a restore. `socket` and `connect` lead to the recovered server, which goes on running.
    `proof` is what was seen of what was
    searched for, and `phases` are those of the work, with what each took."""

    plan: RestorePlan
    clone: Clone
    recovered: Recovered
    socket: str
    connect: str
    proof: Proof | None = None
    phases: tuple[Phase, ...] = ()

    @property
    def replay(self) -> ReplayRange | None:
        """What was replayed."""
        return self.recovered.replay or self.plan.replay

    @property
    def clock_accepted(self) -> bool:
        return self.recovered.clock_accepted or self.plan.clock_accepted


def plan_restore(
    ctx: Context, target: RestoreTarget, options: RestoreOptions, source: BackupSource = LOCAL
) -> RestorePlan:
    """Look and decide, and change nothing. Raise as restore() does before anything is made."""
    ctx = source.context(ctx)
    require_possible(ctx, target, options)
    name = _name(ctx, target, options)
    require_unused(ctx, name, options)
    plan = source.plan(ctx, target, replace(options, name=name))
    return planned_without(ctx, plan, options.skip)


def restore(
    ctx: Context,
    target: RestoreTarget,
    options: RestoreOptions,
    source: BackupSource = LOCAL,
    *,
    locked: bool = False,
) -> RestoreReport:
    """Recover the instance as of the target into a clone with a server of its own.

    Everything committed before the target is there, and nothing after it. Raise NotRecoverable, Taken,
    Refused before anything is made; VerificationFailed or DatabaseError after which, unless `keep`, what
    was made is gone again. `locked`: the caller holds the lock of the clone's name.
    """
    ctx = source.context(ctx)
    require_possible(ctx, target, options)
    name = _name(ctx, target, options)
    watch = Stopwatch(ctx.progress, ctx.clock.monotonic)
    ctx = replace(ctx, progress=watch)
    with nullcontext() if locked else working_on(ctx, name, "zbackup restore"):
        require_free(ctx, name, options)
        options = replace(options, name=name)
        if options.skip:
            require_within(source.plan(ctx, target, options), options.skip)
        with source.opened(ctx, target, options) as opened:
            opened = replace(opened, plan=planned_without(ctx, opened.plan, options.skip))
            report = _act_with_next_log(ctx, opened, options)
    return replace(report, phases=watch.phases())


def _name(ctx: Context, target: RestoreTarget, options: RestoreOptions) -> str:
    """The clone's name, which is decided here alone: sources and plans are given it in the options."""
    return options.name or default_name(ctx.instance, target.at)


def _act_with_next_log(ctx: Context, opened: Opened, options: RestoreOptions) -> RestoreReport:
    """Continue with the next log source when one proves not to lead on from the base."""
    plan = opened.plan
    try:
        return _act(ctx, opened, options)
    except NotRecoverable as failure:
        if not plan.others or options.keep or plan.log is None:
            raise
        following, *others = plan.others
        ctx.progress.note(f"{plan.log.name} does not lead there ({failure}): trying {following.name}")
        why = failure
    again = replace(plan, log=following, others=tuple(others), replay=None)
    try:
        return _act_with_next_log(ctx, replace(opened, plan=again), options)
    except (DatasetNotFound, NotFound) as gone:
        # Nobody holds the instance's lock any more: a prune may have been faster.
        raise why from gone


def _act(ctx: Context, opened: Opened, options: RestoreOptions) -> RestoreReport:
    plan = opened.plan
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
        target=plan.target.at.isoformat(),
        port=options.port,
        read_only=options.read_only,
        replica_set=options.replica_set,
    )
    ctx.progress.phase("cloning", plan.base.name)
    with removed_on_failure(ctx, clone, keep=options.keep):
        clone = finish.begin(clone) if finish else announce(ctx, clone)
        with reserved_ports(clone.port, host=clone.host):
            base = clone_datasets.fill(ctx, clone, plan.base)
            base, recovered = _recovered(ctx, opened, (clone, base), options)
            base = replace(base, beside=())
            proof = prove(ctx, (clone, base), plan, recovered, options.proves) if options.proves else None
            clone = replace(clone, reached=recovered.gtid or recovered.position)
            clone = finish.hand_over(base, clone) if finish else clone_datasets.mark_ready(ctx, clone)
    if plan.replay is None:
        note_replica(ctx, plan, recovered.replay)
    log.info("restore.finished", clone=clone.name, backup=plan.base.name, target=clone.target)
    path, line = ctx.recovery.connection(base.run, clone.port, clone.login)
    return RestoreReport(plan=plan, clone=clone, recovered=recovered, socket=path, connect=line, proof=proof)


def _recovered(
    ctx: Context, opened: Opened, made: tuple[Clone, RecoveryFiles], options: RestoreOptions
) -> tuple[RecoveryFiles, Recovered]:
    """Let the engine do it with the clone that was made, and its files."""
    clone, base = made
    catalog, plan = opened.catalog, opened.plan
    if plan.as_it_is:
        opened.release()
        base = clone_datasets.in_sight_of(ctx, base, catalog.all_datasets, [clone])
        return base, ctx.recovery.open(base, options.serving, ctx.progress)
    if plan.log is None:
        raise AssertionError("a recovery without a log source was planned")
    with log_files(ctx, catalog, made, plan.log, keep=options.keep) as (source, visible):
        opened.release()
        base = clone_datasets.in_sight_of(ctx, base, catalog.all_datasets, visible)
        recovered = ctx.recovery.recover(
            base,
            source,
            plan.found_stop,
            options.serving,
            ctx.progress,
            skip=options.skip,
            proves=options.proves,
        )
    return base, recovered
