"""What the daemon's jobs are: from settings and what is remembered to tasks, and what each does."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from zbackup import app
from zbackup.config.settings import Instance, Settings
from zbackup.daemon.agenda import Key, Task
from zbackup.jobs.clone_lease import reap
from zbackup.jobs.context import Context
from zbackup.jobs.journal import Journal, Remembered
from zbackup.jobs.prune import PruneReport, prune
from zbackup.jobs.reconcile import reconcile
from zbackup.jobs.ship import ship_all
from zbackup.jobs.snapshot import snapshot
from zbackup.jobs.status import Status, look
from zbackup.model.errors import ConfigError
from zbackup.model.schedule import Interval, JobKind, Retry, Timing
from zbackup.plan.schedule import History

# Snapshots are due meanwhile, and an instance has one job at a time.
PRUNE_TURN_S = 30.0

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
    if not configured and "clones" not in instance.model_fields_set:
        return
    own: list[tuple[JobKind, Timing | None]] = [
        ("watch", Interval(settings.daemon.watch)),
        ("leases", Interval(LEASES_EVERY_S)),
    ]
    for job, timing in [("reconcile", None), *configured, *own]:
        yield Task(
            key=(instance.name, job),
            timing=timing,
            retry=Retry(first=schedule.retry, most=schedule.retry_max),
            jitter=schedule.jitter,
            zone=settings.timezone,
        )


def histories(remembered: Iterable[Remembered]) -> dict[Key, History]:
    """What the journal says of each job. What it says of snapshots is replaced by what ZFS says.

    Each start reconciles anew, and tries anew what failed.
    """
    jobs: dict[str, JobKind] = {"prune": "prune", "ship": "ship"}
    return {(row.instance, jobs[row.job]): History(last=row.last) for row in remembered if row.job in jobs}


def jobs(
    settings: Callable[[], Settings], journal: Journal, stopping: Callable[[], bool]
) -> Mapping[JobKind, Callable[[Context], Any]]:
    """What each job does. `settings` are those of the moment in which a job begins; what is being sent is
    cut when the daemon is `stopping`: the next run continues it."""

    def watch(ctx: Context) -> Status:
        current = settings()
        expected = app.expected(current, current.instance[ctx.instance], ctx.clock.now())
        return look(ctx, expected, journal.read(), daemon_runs=True)

    def some(ctx: Context) -> PruneReport:
        return prune(ctx, PRUNE_TURN_S)

    def everywhere(ctx: Context) -> None:
        ship_all(ctx, stopping)

    return {
        "reconcile": reconcile,
        "snapshot": snapshot,
        "prune": some,
        "ship": everywhere,
        "watch": watch,
        "leases": reap,
    }
