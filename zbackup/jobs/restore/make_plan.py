"""Decide how a restore is made: from which backup, with which log, and where the replay stops."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context
from zbackup.jobs.restore.log_source import (
    Examined,
    clock_warnings,
    examined,
    nothing_replayed,
    require_replayable,
    require_undisputed,
)
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.preconditions import require_usable
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.log import ClusterTime
from zbackup.model.moment import Moment, local_text
from zbackup.model.recovery import LeftOut, ReplayRange
from zbackup.model.target import (
    BackupAsItIs,
    BeforeTransaction,
    RestoreTarget,
    Stop,
    UnseenTransaction,
    WholeLog,
    stop_of,
    time_of,
)
from zbackup.plan.recovery.as_it_is import at_own_moment, find_backup
from zbackup.plan.recovery.before_transaction import plan_before, plan_unseen
from zbackup.plan.recovery.recovery import (
    RecoveryPlan,
    plan_as_it_is,
    plan_recovery,
    plan_whole_log,
    require_whole_log,
)
from zbackup.plan.recovery.window import recovery_window

MOST_OLDER = 10
"""Older bases that are looked at, at most, where one lacks what the log needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """The plan of a restore: how the `target` is reached.

    The replay goes to `stop`, if anything is replayed and its transaction was found already. `log` is
    None while the snapshot to read the log from is still to be taken, and `replay` when the engine can tell
    only afterwards what it replayed.

    `warnings` are what was said of the server when the backups were taken that this starts from. `fetch` is
    how many bytes would come from a destination, 0 for none or unknown. `as_it_is`: the base is restored as
    it is, with nothing replayed. `others` are read instead of `log` when that proves not to lead on.
    `left_out` is passed over by the replay, if it is not None.
    """

    name: str
    target: RestoreTarget
    stop: Stop | None
    base: Backup
    log: Backup | None
    reason: str
    replay: ReplayRange | None
    warnings: tuple[str, ...] = ()
    fetch: int = 0
    as_it_is: bool = False
    others: tuple[Backup, ...] = ()
    left_out: LeftOut | None = None

    @property
    def found_stop(self) -> Stop:
        """Where to stop: as it was found in the log, if it was, which is searched for it once."""
        if self.stop is None:
            raise AssertionError(f"{self.target} is no position in a log, or was not searched for")
        if self.replay is None:
            return self.stop
        return self.replay.first_skipped or WholeLog(time_of(self.stop))

    @property
    def clock_accepted(self) -> bool:
        """Whether the log could have been cut elsewhere, too, and somebody took its times as they
        are."""
        return self.replay is not None and self.replay.later is not None


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


def make_plan(
    ctx: Context,
    catalog: Catalog,
    backups: tuple[Backup, ...],
    target: RestoreTarget,
    options: RestoreOptions,
    log: Backup | None = None,
) -> RestorePlan:
    """Decide with these backups, and look into the log. `log`: read this one, whatever else there is."""
    stop = stop_of(target, accept_clock=options.accept_clock)
    choice = choose(ctx, backups, target, options.base)
    base = choice.base
    require_usable(ctx, choice)
    if serving := options.serving:
        ctx.recovery.check_serving(base.record, serving)
    sources = _sources(choice, log)
    if choice.as_it_is:
        found = Examined(log or base, nothing_replayed(target.at), ())
    elif stop is None:
        raise AssertionError(f"{target} was not searched for")
    else:
        found = examined(ctx, catalog, (backups, base, sources), stop)
        if _needs_older(found) and not options.base:
            choice, found = _from_older(ctx, catalog, (backups, log), (target, stop), (choice, found))
            base, sources = choice.base, _sources(choice, log)
        require_undisputed(ctx, found.replay, stop)
        require_replayable(ctx, found.replay)
    return RestorePlan(
        name=options.name,
        target=target,
        stop=stop,
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


def _sources(choice: RecoveryPlan, log: Backup | None) -> tuple[Backup | None, ...]:
    return (log,) if log else (choice.log, *choice.others)


def _needs_older(found: Examined) -> bool:
    return bool(found.replay and found.replay.stopped and found.replay.stopped.of_base)


def _from_older(
    ctx: Context,
    catalog: Catalog,
    known: tuple[Sequence[Backup], Backup | None],
    wanted: tuple[RestoreTarget, Stop],
    first: tuple[RecoveryPlan, Examined],
) -> tuple[RecoveryPlan, Examined]:
    """The plan from the newest of the older bases that has what the first lacks; the first if none has it.

    `known` are all backups, and the one whose log is to be read.
    """
    (backups, log), (target, stop) = known, wanted
    began = first[0].base.record.as_of_or_taken
    older = [b for b in backups if b.record.purpose == "base" and b.record.as_of_or_taken < began]
    for base in sorted(older, key=lambda b: b.record.as_of_or_taken, reverse=True)[:MOST_OLDER]:
        try:
            choice = choose(ctx, backups, target, base.name)
            require_usable(ctx, choice)
            found = examined(ctx, catalog, (backups, base, _sources(choice, log)), stop)
        except (NotRecoverable, Refused):
            continue
        if choice.base == base and not _needs_older(found):
            why = f"{choice.reason}; the newer one lacks temporary tables that the log uses"
            return replace(choice, reason=why), found
    return first


def choose(ctx: Context, backups: Sequence[Backup], target: RestoreTarget, base: str) -> RecoveryPlan:
    """Choose which of the backups to start from and to read the log from. Raise NotRecoverable."""
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
    at, cluster_time = target.at, None
    if isinstance(target, ClusterTime):
        # It is somewhere within its second, and the log has to reach beyond that.
        at, cluster_time = max(at, min(at + timedelta(seconds=1), now)), target
    effective = ctx.log_reader.effective_target(target.at)
    return plan_recovery(
        at, now, backups, ctx.zone, effective=effective, cluster_time=cluster_time, base=base
    )


def note_unreadable(ctx: Context, unreadable: Sequence[tuple[str, str]]) -> None:
    """Say which backups nobody can start from; all others count."""
    for name, problem in unreadable:
        ctx.progress.note(f"{name} and so its backup cannot be read: {problem}")


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


def note_replica(ctx: Context, plan: RestorePlan, replay: ReplayRange | None) -> None:
    """Note where a replica had not received all: what is missing is in no log of its own."""
    record = plan.log.record if plan.log else None
    if plan.as_it_is or record is None or record.role != "replica" or record.as_of is None or not replay:
        return
    if replay.first_skipped:
        return
    end = replay.last_applied.committed if replay.last_applied and not plan.replay else record.as_of
    if plan.stop and (record.complete_to or record.as_of) < time_of(plan.stop):
        ctx.progress.note(
            f"this replica's log ends at {local_text(end, ctx.zone)}: what its source committed "
            f"after that and before the target is not in it"
        )
