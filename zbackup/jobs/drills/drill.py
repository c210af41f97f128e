"""Prove that backups, here or at a destination, lead to a server that runs: recover, check, destroy."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from zbackup.catalog.switched import require_settled, switches
from zbackup.jobs.clones.claim import announce
from zbackup.jobs.clones.lifecycle import destroy
from zbackup.jobs.clones.temporary import own_name, what_is_left
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.drills.guard import DrillGuard, one_at_a_time
from zbackup.jobs.drills.verdicts import of_backups, write_down
from zbackup.jobs.restore.at_destination import at_destination
from zbackup.jobs.restore.destination_source import DestinationSource, latest_backups
from zbackup.jobs.restore.options import Finish, RestoreOptions
from zbackup.jobs.restore.restore import RestoreReport, plan_restore, restore
from zbackup.model import bounds
from zbackup.model.archive import MOST_EPOCH
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.drill import DrillVerdict, one_line
from zbackup.model.errors import (
    ConfigError,
    ConnectionFailed,
    DatasetBusy,
    DatasetNotFound,
    NotFound,
    Postponed,
    PrivateKeyElsewhere,
    Refused,
    Stopped,
    Taken,
    UsageError,
    VerificationFailed,
    ZbackupError,
)
from zbackup.model.event_log import log
from zbackup.model.moment import Moment
from zbackup.model.record import TIMES_OUT_OF_ORDER
from zbackup.model.recovery import CheckedTables, RecoveryFiles
from zbackup.model.target import LATEST
from zbackup.plan.clones.clone_name import copy_name, drill_names
from zbackup.plan.health.pool_space import FREE_SERIOUS
from zbackup.plan.recovery.drills import DrillPlan, plan_drill, plan_whole_drill
from zbackup.zfs.facts import ZfsFacts

UNTRIED = (
    *(Postponed, Stopped, Taken, DatasetBusy, DatasetNotFound, NotFound, ConnectionFailed),
    *(UsageError, ConfigError, PrivateKeyElsewhere),
)
"""Failures that say nothing of the backup: others were at work, it could not be reached, opened here, or was
pruned."""

WHAT = "zbackup drill"
NOTHING = CheckedTables(tables=0)
ANY = RestoreOptions(accept_older=True, epoch=MOST_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """The report of a drill: what was recovered, which is gone again, how long that took, with all that was
    fetched for it, and how many tables were checked. `verdict` is what was written down of it; `left` what
    could not be removed, and why, "" when nothing is left."""

    restored: RestoreReport
    took: timedelta
    verdict: DrillVerdict
    checked: CheckedTables = NOTHING
    left: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drill:
    """One drill: what is tried, how a restore of it is made, and in which context its clone is.

    `there` says whether the backup is still there: one that was pruned meanwhile has not failed.
    """

    plan: DrillPlan
    between: bool
    destination: str
    here: Backup | None
    at: Context
    there: Callable[[], bool]
    recover: Callable[[Context, Moment, RestoreOptions], RestoreReport]


def plan_here(ctx: Context, *, between: bool) -> DrillPlan:
    """What a drill of this host's backups would restore. Raise NotRecoverable when there is none."""
    backups = ctx.catalog().backups
    if not between:
        return plan_whole_drill(backups)
    passed = {backup for backup, v in of_backups(ctx, backups).items() if v.passed}
    return plan_drill(backups, passed, ctx.log_reader.effective_target, _out_of_order)


def plan_at(ctx: Context, destination: ShipDestination, *, between: bool) -> DrillPlan:
    """The same for the backups at a destination."""
    # It tries what is there; whose it is and what cannot be read, others say.
    backups = latest_backups(ctx, destination, ANY)
    if not between:
        return plan_whole_drill(backups)
    passed = {backup for backup, v in of_backups(ctx, backups, destination.name).items() if v.passed}
    return plan_drill(backups, passed, ctx.log_reader.effective_target, _out_of_order)


def drill(
    ctx: Context, destination: ShipDestination, *, between: bool = False, guard: DrillGuard | None = None
) -> DrillReport:
    """Recover what is at the destination, from what is fetched, or from clones where that is on this host.

    `between`: to a moment between two backups, of the newest that has not passed yet; else all of the log up
    to the end, from the backup before. Nobody can reach the server meanwhile. The clone is never finished:
    what a killed drill leaves of it, the next one removes. Raise whatever a restore raises, and
    VerificationFailed when a table is damaged.
    """
    with one_at_a_time(ctx, WHAT):
        ctx.progress.phase("inspecting", f"which backup, at {destination.adapter.address}")
        plan = plan_at(ctx, destination, between=between)
        here = destination.adapter.here
        source = DestinationSource(destination, run_at_destination=bool(here))

        def recover(inner: Context, moment: Moment, options: RestoreOptions) -> RestoreReport:
            options = replace(options, accept_older=True, epoch=MOST_EPOCH)
            if not here:
                _require_room(inner, destination, plan_restore(inner, moment, options, source).fetch)
            return restore(inner, moment, options, source)

        at = at_destination(ctx, destination) if here else ctx
        what = _Drill(
            plan=plan,
            between=between,
            destination=destination.name,
            here=None,
            at=at,
            there=lambda: _is_there(plan, lambda: latest_backups(ctx, destination, ANY)),
            recover=recover,
        )
        return _tried(ctx, what, guard or DrillGuard())


def drill_here(ctx: Context, *, between: bool = False, guard: DrillGuard | None = None) -> DrillReport:
    """The same with the backups of this host, as far as they reach without the server's own log.

    Raise whatever restore() raises.
    """
    with one_at_a_time(ctx, WHAT):
        return _here(ctx, guard or DrillGuard(), between=between)


def prove_once(ctx: Context, *, wait: float) -> DrillVerdict:
    """Return the verdict of a drill of this host's backups that passed; where there is none, of one made now.

    A drill that somebody else is making, such as a daemon that runs, is waited for up to `wait` seconds, and
    counts. Raise Taken after that, and whatever restore() raises.
    """
    with one_at_a_time(ctx, WHAT, wait=wait):
        verdicts = of_backups(ctx, ctx.catalog().backups).values()
        passed = next((v for v in verdicts if v.passed), None)
        return passed or _here(ctx, DrillGuard(), between=False).verdict


def _here(ctx: Context, guard: DrillGuard, *, between: bool) -> DrillReport:
    ctx.progress.phase("inspecting", "which backup")
    plan = plan_here(ctx, between=between)

    def recover(inner: Context, moment: Moment, options: RestoreOptions) -> RestoreReport:
        return restore(inner, moment, replace(options, stored_only=True))

    what = _Drill(
        plan=plan,
        between=between,
        destination="",
        here=plan.base,
        at=ctx,
        there=lambda: _is_settled(ctx) and _is_there(plan, lambda: ctx.catalog().backups),
        recover=recover,
    )
    return _tried(ctx, what, guard)


def _is_there(plan: DrillPlan, backups: Callable[[], Sequence[Backup]]) -> bool:
    """Whether it is still there: where nobody can tell, a failure is one of the backup's."""
    with suppress(ZbackupError):
        return plan.base.record.backup in {b.record.backup for b in backups()}
    return True


def _is_settled(ctx: Context) -> bool:
    """No switch is half done, which keeps all of the instance's backups from being looked at."""
    try:
        require_settled(switches(ctx.zfs, ctx.clones, ctx.instance))
    except Refused:
        return False
    return True


def _tried(ctx: Context, what: _Drill, guard: DrillGuard) -> DrillReport:
    began = ctx.clock.now()
    plan = what.plan
    moment = Moment(plan.moment, LATEST if plan.whole else "drill", ctx.zone, is_now=plan.whole)
    checks = _Checks(ctx)
    with own_name(what.at, drill_names(ctx.instance), WHAT) as name:
        pass  # its leftovers are gone; the restore locks it again
    try:
        with guard.watching(what.at) as progress:
            inner, checks.ctx = replace(ctx, progress=progress), replace(what.at, progress=progress)
            finish = Finish(begin=partial(announce, checks.ctx), hand_over=checks.hand_over)
            options = RestoreOptions(name=name, finish=finish, base=plan.base.name, accept_clock=True)
            report = what.recover(inner, moment, options)
    except ZbackupError as failure:
        if what.between:
            _leave_nothing(what.at, name)
        if not isinstance(failure, UNTRIED) and what.there():
            _write(ctx, what, began, None, checks.found, one_line(str(failure)))
        raise
    verdict = _write(ctx, what, began, report, checks.found)
    log.info("drill.passed", destination=what.destination, backup=plan.base.name, seconds=verdict.seconds)
    took = timedelta(seconds=verdict.seconds)
    left = what_is_left(what.at, name)
    return DrillReport(restored=report, took=took, verdict=verdict, checked=checks.found, left=left)


@dataclass(slots=True)
class _Checks:
    """The end of a drill's restore: no server for users, but a look at every table."""

    ctx: Context
    found: CheckedTables = NOTHING

    def hand_over(self, files: RecoveryFiles, clone: Clone) -> Clone:
        """Raise VerificationFailed when a table is damaged."""
        self.found = self.ctx.recovery.check_tables(files, self.ctx.progress)
        if damaged := self.found.damaged:
            more = f" (and {len(damaged) - 1} more)" if damaged[1:] else ""
            raise VerificationFailed(f"a table is damaged: {damaged[0]}{more}")
        return clone


def _write(
    ctx: Context,
    what: _Drill,
    began: datetime,
    report: RestoreReport | None,
    checked: CheckedTables,
    why: str = "",
) -> DrillVerdict:
    """Write the verdict down. Where that cannot be done, it hides no failure, and makes none of a success."""
    at, base = ctx.clock.now(), what.plan.base
    replay = report.replay if report else None
    verdict = DrillVerdict(
        backup=base.record.backup,
        name=base.name,
        at=at,
        to=_reached(what.plan, report) if report else None,
        transactions=replay.transactions if replay else None,
        tables=checked.tables if report else None,
        unchecked=(len(checked.unchecked) or None) if report else None,
        seconds=round(max(0.0, (at - began).total_seconds()), 3),
        why=why,
    )
    try:
        write_down(ctx, what.destination, what.here, verdict)
    except ZbackupError as failure:
        ctx.progress.note(f"the verdict of the drill could not be written down: {failure}")
    return verdict


def _reached(plan: DrillPlan, report: RestoreReport) -> datetime:
    """The moment that the clone was at: that asked for, or of the last transaction of all the log."""
    last = report.recovered.last_applied
    if plan.whole and last and bounds.EARLIEST <= last.committed < bounds.LATEST:
        return last.committed
    return plan.moment


def _leave_nothing(ctx: Context, name: str) -> None:
    """Destroy what was fetched: it would take room until the next drill on schedule, which wants another
    backup. By hand the same command resumes it, after a cut or when its key was loaded."""
    with suppress(ZbackupError):
        destroy((ctx,), copy_name(name))


def _require_room(ctx: Context, destination: ShipDestination, needed: int) -> None:
    """Raise Refused when what a drill fetches would fill the pool: production may lie on it."""
    pool = ZfsFacts(ctx.zfs.runner).pool(ctx.clones.partition("/")[0])
    if pool.free - needed < FREE_SERIOUS * pool.size:
        raise Refused(
            f"fetching from {destination.name} for a drill needs {needed >> 20} MiB; {pool.name} has "
            f"{pool.free >> 20} MiB free, and {FREE_SERIOUS:.0%} of the pool must stay free"
        )


def _out_of_order(backup: Backup) -> bool:
    return bool(backup.record.server.get(TIMES_OUT_OF_ORDER))
