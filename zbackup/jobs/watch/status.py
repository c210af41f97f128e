"""Report how an instance is: its newest backup, what can be restored, the daemon's jobs, room, and its
health.

The database server is not asked, so that this is cheap and always answers.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from zbackup.catalog.local import Catalog, FoundClones, read_clones
from zbackup.jobs.archive.state import ArchiveState, archive_states
from zbackup.jobs.backup.complete_record import times_out_of_order
from zbackup.jobs.clones.clone_datasets import server_process
from zbackup.jobs.clones.find_leftovers import down, leftovers
from zbackup.jobs.context import Context
from zbackup.jobs.drills.verdicts import Drilled, drilled
from zbackup.jobs.journal import JobState
from zbackup.jobs.ship.lag import Shipped, shipped
from zbackup.jobs.watch.window import as_they_are
from zbackup.jobs.watch.window import inspect as inspect_window
from zbackup.model.backup import Backup
from zbackup.model.finding import Finding, Health, worst
from zbackup.model.moment import local_text
from zbackup.model.operator_notes import NO_NOTES, Acknowledgement, OperatorNotes, Pause
from zbackup.model.space import DatasetSettings, Space
from zbackup.plan.calendar import back
from zbackup.plan.due import CronSlots
from zbackup.plan.health import health
from zbackup.plan.health.acknowledged import in_the_light_of
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.plan.health.archive_health import ArchiveFacts
from zbackup.plan.health.drill_health import DrillFacts, most_between
from zbackup.plan.health.keys_not_loaded import not_loaded
from zbackup.plan.health.promoted import promoted_clones
from zbackup.plan.health.unfinished_clones import Leftover
from zbackup.plan.recovery.window import RecoveryWindow, Window, moment_bases, usable_bases
from zbackup.plan.retention.retention import plan_retention
from zbackup.plan.retention.tier_space import TierSpace, by_tier
from zbackup.proc.lock import lock_owner
from zbackup.zfs.facts import ZfsFacts

TREND = timedelta(days=7)
SHORTEST_TREND = timedelta(hours=1)


EXPLAINED: Final = ("switch", "silent")
"""Causes of gaps that are reported separately and do not count as a broken promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """`working` is who works on the instance now, "" for nobody. `jobs` are the daemon's.

    `shipped` is what has arrived at each destination, `archives` how its log archive is, and `drills` what
    drills proved there and here.
    `as_they_are` are backups that can be restored without a log. `gaps` are the causes of those in the
    promised window, and `gap_keys` what each is known by, but for those that a switch made, which are in
    `switched`, and `lost` how much of it is
    out of reach, though backups go back far enough: gaps, and what somebody destroyed. `servers` are
    the clones whose server runs, `leftovers` those that nobody finished, and `down` those that should run and
    do not.
    `paused` and `acknowledged` are what an operator said of it that holds now.
    """

    instance: str
    looked: datetime
    newest: Backup | None
    backups: int
    clones: int
    window: Window | None
    gaps: tuple[str, ...]
    lost: timedelta
    space: Space
    tiers: tuple[TierSpace, ...]
    jobs: tuple[JobState, ...]
    daemon_runs: bool
    working: str
    shipped: tuple[Shipped, ...]
    findings: tuple[Finding, ...] = ()
    as_they_are: tuple[Backup, ...] = ()
    drills: tuple[Drilled, ...] = ()
    archives: tuple[ArchiveState, ...] = ()
    switched: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    gap_keys: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    down: tuple[str, ...] = ()
    paused: Pause | None = None
    acknowledged: Acknowledgement | None = None

    @property
    def health(self) -> Health:
        return worst(self.findings)


def inspect(
    ctx: Context,
    expected: Expected,
    remembered: Sequence[JobState],
    *,
    daemon_runs: bool,
    notes: OperatorNotes = NO_NOTES,
) -> InstanceStatus:
    """Look, and judge in the light of an operator's `notes`. Raise CommandFailed when ZFS cannot be asked."""
    working = lock_owner(ctx.lock_file)
    catalog, now = ctx.catalog(), ctx.clock.now()
    working = working or lock_owner(ctx.lock_file)
    reach, _ = inspect_window(ctx, catalog)
    promised = back(now, ctx.retention.window, ctx.zone)
    bases = usable_bases(catalog.backups)
    lacking = [gap for gap in reach.gaps if gap.to > promised and gap.cause not in EXPLAINED]
    known = read_clones(ctx.zfs, ctx.clones)
    there = [clone for clone, _ in known.found if clone.instance == ctx.instance]
    retention = plan_retention(catalog.backups, ctx.retention, now, ctx.zone, {}, ctx.clock.reading())
    settings = tuple(ZfsFacts(ctx.zfs.runner).settings([d.name for d in catalog.datasets]))
    found = InstanceStatus(
        instance=ctx.instance,
        looked=now,
        newest=max(bases, key=lambda b: b.createtxg, default=None),
        backups=len(catalog.backups),
        clones=len(there),
        servers=tuple(clone.name for clone in there if server_process(ctx, clone.name)),
        leftovers=leftovers(ctx),
        down=down(ctx),
        window=reach.overall,
        gaps=tuple(gap.why for gap in lacking),
        gap_keys=tuple(f"{gap.cause} after {local_text(gap.after, ctx.zone)}" for gap in lacking),
        switched=tuple(gap.why for gap in reach.gaps if gap.to > promised and gap.cause == "switch"),
        silent=tuple(gap.why for gap in reach.gaps if gap.to > promised and gap.cause == "silent"),
        lost=lost_of(catalog, reach, promised, now),
        space=space(ctx, catalog, settings),
        tiers=by_tier(retention),
        jobs=tuple(row for row in remembered if row.instance == ctx.instance),
        daemon_runs=daemon_runs,
        working=working,
        shipped=shipped(ctx, now),
        as_they_are=as_they_are(ctx, catalog.backups),
        drills=drilled(ctx, expected.drills),
        archives=archive_states(ctx, now),
        paused=notes.pause_of(ctx.instance, now),
        acknowledged=notes.acknowledgement_of(ctx.instance, now),
    )
    facts = replace(_facts(found, catalog, known, retention.note, expected.drill_slots), settings=settings)
    judged = (
        *not_loaded(settings),
        *promoted_clones(catalog.promoted),
        *health.judge(facts, _expected_now(expected, found.paused)),
    )
    return replace(found, findings=in_the_light_of(judged, found.paused, found.acknowledged, ctx.zone))


def _expected_now(expected: Expected, paused: Pause | None) -> Expected:
    """The same, but for snapshots while they are paused."""
    return replace(expected, snapshot_every=None) if paused else expected


def _facts(
    status: InstanceStatus,
    catalog: Catalog,
    clones: FoundClones,
    doubt: str,
    drill_slots: Sequence[tuple[str, CronSlots]],
) -> health.InstanceFacts:
    """What its health is judged by; `doubt` is why a prune does not count ages up to now."""
    now, backups, by_cron = status.looked, catalog.backups, dict(drill_slots)
    oldest = min((b.record.taken for b in usable_bases(backups)), default=now)
    waiting = max(now - oldest, timedelta())
    return health.InstanceFacts(
        now=now,
        newest=status.newest.record.taken if status.newest else None,
        # One that is being taken right now is not finished either.
        unfinished=0 if status.working else sum(b.complete and not b.finished for b in backups),
        broken=sum(not b.complete for b in backups),
        unreadable=catalog.unreadable,
        unreadable_clones=clones.unreadable,
        future=tuple(b.name for b in backups if b.record.taken > now + health.FUTURE),
        jobs=tuple(
            health.JobFacts(job=r.job, failures=r.failures, message=r.message, error=r.error)
            for r in status.jobs
        ),
        daemon_runs=status.daemon_runs,
        pool=status.space.pool,
        written=written_by_dataset(backups, now),
        gaps=status.gaps,
        gap_keys=status.gap_keys,
        switched=status.switched,
        silent=status.silent,
        lost=status.lost,
        alone=status.newest.record.blockers if status.newest else (),
        doubt=doubt,
        out_of_order=times_out_of_order(backups),
        leftovers=status.leftovers,
        drills=tuple(
            _drill_facts(each, now, waiting, by_cron.get(each.destination)) for each in status.drills
        ),
        down=status.down,
        archives=tuple(_archive_facts(each, now) for each in status.archives),
        lags=tuple(
            health.Lag(
                destination=s.destination,
                behind=s.behind,
                most=s.max_lag,
                waiting=waiting,
                other_key=s.other_key,
            )
            for s in status.shipped
        ),
    )


def _drill_facts(drills: Drilled, now: datetime, waiting: timedelta, slots: CronSlots | None) -> DrillFacts:
    age = drills.age(now)
    return DrillFacts(
        destination=drills.destination,
        passed=age,
        every=drills.every,
        failed=drills.last.why if drills.last else "",
        waiting=waiting,
        most=most_between(slots, now - (waiting if age is None else age)) if slots else None,
    )


def _archive_facts(archive: ArchiveState, now: datetime) -> ArchiveFacts:
    return ArchiveFacts(
        destination=archive.destination,
        exposed=archive.exposed(now),
        every=timedelta(seconds=archive.every),
        error=archive.error,
        ahead=archive.archived is not None and archive.exposed(now) is None,
        failing=max(now - archive.failing, timedelta()) if archive.failing else timedelta(),
        stranded=archive.stranded,
    )


def lost_of(catalog: Catalog, reach: RecoveryWindow, promised: datetime, now: datetime) -> timedelta:
    """How much of the promised window is out of reach. A window that has not had the time to grow that
    long lacks nothing yet: what was before the first backup ever taken is not counted, nor what a switch
    lacks, or what the log does not show."""
    if not moment_bases(catalog.backups):
        # A server that keeps no log never led to any moment.
        return timedelta()
    # Of one that is unfinished neither is known.
    begins = (b.record.since or b.record.as_of for b in catalog.backups)
    first = min((begin for begin in begins if begin), default=now)
    lacking = reach.lacking(max(promised, first), now)
    made = [(gap.after, gap.to) for gap in reach.gaps if gap.cause in EXPLAINED]
    lost = sum((to - after for after, to in lacking), timedelta())
    return lost - sum((_overlap(one, other) for one in lacking for other in made), timedelta())


def _overlap(one: tuple[datetime, datetime], other: tuple[datetime, datetime]) -> timedelta:
    return max(min(one[1], other[1]) - max(one[0], other[0]), timedelta())


def space(ctx: Context, catalog: Catalog, settings: Sequence[DatasetSettings]) -> Space:
    """What the instance occupies. Raise CommandFailed."""
    zfs = ZfsFacts(ctx.zfs.runner)
    return Space(
        data=sum(s.number("usedbydataset") for s in settings),
        snapshots=sum(s.number("usedbysnapshots") for s in settings),
        clones=zfs.used(ctx.clones),
        available=min(s.number("available") for s in settings),
        pool=zfs.pool(catalog.datasets[0].pool),
    )


def written_a_day(backups: Sequence[Backup], now: datetime) -> float | None:
    """Bytes a day that went into the snapshots of the last week; None when that is too short to tell."""
    rates = written_by_dataset(backups, now)
    return sum(rates.values()) if rates else None


def written_by_dataset(backups: Sequence[Backup], now: datetime) -> dict[str, float]:
    """The same by the dataset that they are of; nothing when that is too short to tell."""
    recent = [b for b in backups if now - TREND <= b.record.taken <= now]
    if len(recent) < 2:
        return {}
    span = recent[-1].record.taken - recent[0].record.taken
    if span < SHORTEST_TREND:
        return {}
    written: dict[str, int] = defaultdict(int)
    for snapshot in (s for b in recent[1:] for s in b.snapshots):
        written[snapshot.dataset] += snapshot.written
    return {name: size / (span / timedelta(days=1)) for name, size in written.items()}
