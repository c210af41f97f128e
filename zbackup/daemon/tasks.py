"""Define the daemon's jobs: from settings and what is remembered to tasks, and what each does."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from zbackup import app
from zbackup.config.settings import Instance, Settings
from zbackup.daemon.job_table import Key, Task
from zbackup.jobs.backup.prune import PruneReport, prune
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.cleanup.cleanup import reconcile, remove_own_leftovers
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.dev_clones.lease import Reaped, reap
from zbackup.jobs.drills.scheduled_drill import DrillRules, DrillTurn, drill_turn
from zbackup.jobs.journal import JobState, Journal
from zbackup.jobs.ship.prune_at import prune_at
from zbackup.jobs.ship.ship import ship_all
from zbackup.jobs.ship.verify_at import VerifyReport, prove_at
from zbackup.jobs.watch.new_base import Renewals, renew_base
from zbackup.jobs.watch.status import InstanceStatus, inspect
from zbackup.model.errors import ConfigError, Stopped, ZbackupError
from zbackup.model.log import how_many
from zbackup.model.schedule import Interval, Job, JobKind, Retry, Timing, job_at, parted
from zbackup.plan.due import History, offset

# Snapshots are due meanwhile, and an instance has one job at a time.
PRUNE_TURN_S = 30.0

# How often that which was different is compared again, at last.
VERIFY_AGAIN_S = 6 * 3600.0

# How late the end of a dev clone's lease may be noticed.
LEASES_EVERY_S = 60.0


def tasks(settings: Settings) -> list[Task]:
    """The jobs of all instances. Raise ConfigError when no instance has any."""
    found = [task for instance in settings.instance.values() for task in _of(settings, instance)]
    if not found:
        raise ConfigError(
            ['no instance has a schedule: add [instance.NAME.schedule] with snapshot = "5m", for example']
        )
    return found


def _of(settings: Settings, instance: Instance) -> Iterator[Task]:
    schedule = instance.schedule
    wanted: list[tuple[JobKind, Timing | None]] = [
        ("snapshot", schedule.snapshot),
        ("prune", schedule.prune),
        ("ship", schedule.ship),
    ]
    configured = [(job, timing) for job, timing in wanted if timing is not None]
    retry = Retry(first=schedule.retry, most=schedule.retry_max)
    jobs: list[tuple[Job, Timing | None, Retry]] = []
    # One clone that cannot be destroyed does not prolong the others' leases.
    soon = Retry(first=LEASES_EVERY_S, most=LEASES_EVERY_S)
    promised = any(ship.max_lag for ship in instance.ship)
    # A host that receives prunes there, and has nothing else of the instance: it has no more to do.
    if configured or promised or instance.archive or "clones" in instance.model_fields_set:
        at_home: list[tuple[JobKind, Timing | None]] = [
            ("reconcile", None),
            *configured,
            ("watch", Interval(settings.daemon.watch)),
        ]
        jobs += [(job, timing, retry) for job, timing in at_home]
        jobs.append(("leases", Interval(LEASES_EVERY_S), soon))
    if schedule.drill:
        jobs.append(("drill", schedule.drill, _seldom(retry)))
    for job, timing, again in (*jobs, *_at_destinations(instance, retry)):
        yield Task(
            key=(instance.name, job),
            timing=timing,
            retry=again,
            jitter=schedule.jitter,
            zone=settings.timezone,
        )


def _at_destinations(instance: Instance, retry: Retry) -> Iterator[tuple[Job, Timing, Retry]]:
    """What is done at the instance's destinations."""
    for ship in instance.ship:
        if ship.prune:
            yield job_at("prune", ship.label), ship.prune, retry
        if ship.verify:
            yield job_at("verify", ship.label), ship.verify, _seldom(retry)
        if ship.drill:
            yield job_at("drill", ship.label), ship.drill, _seldom(retry)


def _seldom(retry: Retry) -> Retry:
    """Wait longer before a comparison is tried again: what was different is so a minute later, and it takes
    gigabytes to say so."""
    return Retry(first=retry.most, most=max(VERIFY_AGAIN_S, retry.most))


def drill_rules(settings: Settings, instance: str, destination: ShipDestination | None) -> DrillRules:
    """When drills are due of the instance, here or at the destination. Raise ConfigError when nobody
    wants them any more."""
    table = settings.instance[instance]
    timing = table.schedule.drill
    if destination:
        timing = next((ship.drill for ship in table.ship if ship.label == destination.name), None)
    if timing is None:
        raise ConfigError([f"instance.{instance}: no drill is scheduled there any more"])
    job = job_at("drill", destination.name) if destination else "drill"
    return DrillRules(
        timing=timing,
        zone=settings.timezone,
        limit=table.schedule.drill_limit,
        offset=offset(":".join((instance, job)), table.schedule.jitter),
    )


def histories(remembered: Iterable[JobState]) -> dict[Key, History]:
    """What the journal says of each job. What it says of snapshots is replaced by what ZFS says.

    Each start reconciles again, and tries again what failed. But a difference that was found is one until it
    is disproved.
    """
    kept: tuple[JobKind, ...] = ("prune", "ship", "verify", "drill")
    return {(row.instance, row.job): _history(row) for row in remembered if parted(row.job)[0] in kept}


def _history(row: JobState) -> History:
    known = History(
        last=row.last, failures=row.failures, failed=row.failed, error=row.error, message=row.message
    )
    return known if known.differs else History(last=row.last)


def jobs(
    settings: Callable[[], Settings], journal: Journal, stopping: Callable[[], bool]
) -> Callable[[Job, Context], Any]:
    """What does a job. `settings` are those of the moment in which a job begins; what is being sent is
    cut when the daemon is `stopping`: the next run continues it."""

    def everywhere(ctx: Context) -> None:
        ship_all(ctx, stopping)

    def prune_at_destination(ctx: Context, destination: ShipDestination) -> PruneReport:
        return _all_done(prune_at(ctx, destination, stopping))

    def prove_at_destination(ctx: Context, destination: ShipDestination) -> VerifyReport:
        return prove_at(ctx, destination, stopping)

    def drill(ctx: Context, destination: ShipDestination | None = None) -> DrillTurn:
        current = settings()
        return drill_turn(ctx, destination, drill_rules(current, ctx.instance, destination), stopping)

    at_home: Mapping[str, Callable[[Context], Any]] = {
        "reconcile": reconcile,
        "snapshot": snapshot,
        "prune": _prune_some,
        "ship": everywhere,
        "drill": drill,
        "watch": _watch(settings, journal),
        "leases": _reap,
    }
    there: Mapping[str, Callable[[Context, ShipDestination], PruneReport | VerifyReport | DrillTurn]] = {
        "prune": prune_at_destination,
        "verify": prove_at_destination,
        "drill": drill,
    }

    def do(job: Job, ctx: Context) -> Any:
        kind, destination = parted(job)
        if destination:
            return there[kind](ctx, app.choose_destination(ctx, destination))
        return at_home[kind](ctx)

    return do


def _prune_some(ctx: Context) -> PruneReport:
    """Nobody reads the report: that it may destroy nothing would show when the pool is full. Raise that."""
    report = prune(ctx, PRUNE_TURN_S)
    if failure := report.powerless:
        raise failure
    return report


def _reap(ctx: Context) -> Reaped:
    """Nobody reads the report: raise what kept a clone that nobody works on from being destroyed, after the
    others. Leftovers of drills that were in use are removed here, too."""
    report = reap(ctx)
    remove_own_leftovers(ctx)
    if failed := report.failed:
        more = f" (and {len(failed) - 1} more)" if failed[1:] else ""
        raise ZbackupError(f"a clone whose lease is over could not be destroyed: {failed[0]}{more}")
    return report


def _all_done(report: PruneReport) -> PruneReport:
    """Raise Stopped for what was cut short: the next start would take it for done, until it is due again."""
    if report.cut:
        left = how_many(report.left, "backup", "backups") if report.left else "what else it removes there"
        raise Stopped(("zbackup", "prune"), -1, f"zbackup was told to end with {left} left to go")
    return report


def _watch(settings: Callable[[], Settings], journal: Journal) -> Callable[[Context], InstanceStatus]:
    renewals: dict[str, Renewals] = defaultdict(Renewals)

    def watch(ctx: Context) -> InstanceStatus:
        current = settings()
        if current.instance[ctx.instance].schedule.snapshot:
            renew_base(ctx, renewals[ctx.instance])
        expected = app.expected(current, current.instance[ctx.instance], ctx.clock.now())
        return inspect(
            ctx, expected, journal.read(), daemon_runs=True, notes=app.operator_file(current).read()
        )

    return watch
