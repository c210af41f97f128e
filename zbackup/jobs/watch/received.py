"""Report how a host is that receives backups: what lies there, how old it is, what is arriving, and the room
left.

It has none of the instances' datasets, and may have no configuration. Looks only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from zbackup.clock import Clock
from zbackup.destinations.copies import Copies, by_home, by_server, committed
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.journal import JobState
from zbackup.jobs.ship.prune_at import plan_prune_at
from zbackup.jobs.watch.received_log import ArchivedLot, archived_lots
from zbackup.model.backup import Backup
from zbackup.model.finding import Finding, Severity, worst
from zbackup.model.schedule import job_at
from zbackup.model.shipping import COMMITTED
from zbackup.model.snapshot import Snapshot
from zbackup.model.space import Pool
from zbackup.plan.health import received as plan
from zbackup.plan.health.health import JobFacts
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.facts import ZfsFacts
from zbackup.zfs.streams import ZfsStreams


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedCare:
    """The care that the configuration arranges at a destination: `due` backups that its rules want no more,
    and how the daemon's jobs there went. `scheduled`: whether there are to be any."""

    instance: str
    destination: str
    due: tuple[Backup, ...]
    jobs: tuple[JobState, ...]
    scheduled: bool
    max_lag: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    """The backups of one server of an instance, oldest first, in the dataset `home`.

    `arrived` is when the newest was committed, by the clock of who sent it; `age` how much would be lost with
    the host that has the database, at most.
    """

    instance: str
    home: str
    backups: tuple[Backup, ...]
    arrived: str
    age: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """All that lies below `root`, and `logs`, what is archived there of servers' logs. `arriving` are
    datasets that hold a stream in part, which is under way or was cut; `held` are (snapshot, tag). `used` and
    `available` are the bytes of `root`, by its quota."""

    root: str
    looked: datetime
    lots: tuple[Lot, ...]
    arriving: tuple[str, ...]
    held: tuple[tuple[str, str], ...]
    kept: tuple[ReceivedCare, ...]
    logs: tuple[ArchivedLot, ...] = ()
    used: int
    available: int
    pool: Pool
    findings: tuple[Finding, ...]

    @property
    def health(self) -> Severity:
        return worst(self.findings)


def kept_at(
    ctx: Context, destination: ShipDestination, remembered: Sequence[JobState], *, scheduled: bool
) -> ReceivedCare:
    """What is done at the destination, which is on this host. Raise what connecting raises."""
    names = {job_at("prune", destination.name), job_at("verify", destination.name)}
    return ReceivedCare(
        instance=ctx.instance,
        destination=destination.name,
        due=plan_prune_at(ctx, destination).retention.destroy,
        jobs=tuple(r for r in remembered if r.instance == ctx.instance and r.job in names),
        scheduled=scheduled,
        max_lag=destination.max_lag,
    )


def inspect(
    zfs: Zfs,
    clock: Clock,
    root: str,
    kept: Sequence[ReceivedCare] = (),
    *,
    most: timedelta | None = None,
    daemon_runs: bool = False,
) -> Received:
    """Look, and judge. `most` is how old the newest backups may be. Raise DatasetNotFound for no root."""
    now = clock.now()
    snapshots = zfs.snapshots_below(root)
    promised = {f"{root}/{each.instance}": each.max_lag for each in kept}
    found = {home: Copies((), ()) for home in promised} | _by_home(root, snapshots)
    lots = tuple(lot for home, copies in found.items() for lot in _lots(home, copies, now))
    logs = archived_lots(zfs.runner, found, now)
    held = _held(zfs, snapshots)
    room = _room(zfs, root)
    targets = ZfsStreams(zfs.runner).target_datasets(root)
    ages = [
        plan.LotFacts(instance=lot.instance, home=lot.home, age=lot.age, most=most or promised.get(lot.home))
        for lot in lots
    ]
    findings = plan.judge(
        plan.ReceivedFacts(
            root=root,
            lots=ages,
            unreadable=[problem for copies in found.values() for problem in copies.unreadable],
            remains=sum(len(copies.remains) for copies in found.values()),
            held=held,
            pool=room.pool,
            free_share=room.available / ((room.used + room.available) or 1),
            jobs=[_job_facts(r) for each in kept for r in each.jobs],
            scheduled=any(each.scheduled for each in kept),
            daemon_runs=daemon_runs,
            log_problems=[(lot.instance, problem) for lot in logs for problem in lot.problems],
            shut=plan.unopenable(targets),
        )
    )
    return Received(
        root=root,
        looked=now,
        lots=lots,
        arriving=tuple(each.dataset for each in targets if each.partial),
        held=held,
        kept=tuple(kept),
        logs=logs,
        used=room.used,
        available=room.available,
        pool=room.pool,
        findings=findings,
    )


@dataclass(frozen=True, slots=True)
class _Room:
    """The bytes of a dataset, by its quota, and its pool."""

    pool: Pool
    used: int
    available: int


def _room(zfs: Zfs, root: str) -> _Room:
    facts = ZfsFacts(zfs.runner)
    pool, used = facts.pool(root.partition("/")[0]), facts.used(root)
    return _Room(pool, used, facts.settings([root])[0].number("available"))


def _held(zfs: Zfs, snapshots: Sequence[Snapshot]) -> tuple[tuple[str, str], ...]:
    tags = zfs.holds(snapshots)
    return tuple((str(s), tag) for s in snapshots for tag in tags.get(s.guid, ()))


def _job_facts(job: JobState) -> JobFacts:
    return JobFacts(job=job.job, failures=job.failures, message=job.message, error=job.error)


def _by_home(root: str, snapshots: Sequence[Snapshot]) -> dict[str, Copies]:
    """The committed backups by the dataset that they lie in."""
    return {home: committed(copies) for home, copies in by_home(root, snapshots).items()}


def _lots(home: str, copies: Copies, now: datetime) -> Iterator[Lot]:
    name = home.rpartition("/")[2]
    for backups in by_server(copies.backups) or [[]]:
        newest = backups[-1] if backups else None
        yield Lot(
            instance=newest.record.instance if newest else name,
            home=home,
            backups=tuple(backups),
            arrived=dict(newest.snapshots[-1].properties)[COMMITTED] if newest else "",
            # One from the future is not newer: a clock was wrong.
            age=max(now - newest.record.taken, timedelta()) if newest else None,
        )
