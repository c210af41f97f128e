"""Look at all instances and clones for a page. Looks only, and asks no database server."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from zbackup.jobs.clones.lifecycle import CloneStatus, list_clones
from zbackup.jobs.context import Context
from zbackup.jobs.drills.verdicts import of_backups, read
from zbackup.jobs.journal import JobState
from zbackup.jobs.watch import status as instance_status
from zbackup.jobs.watch.status import InstanceStatus, written_a_day
from zbackup.jobs.watch.window import WindowReport, window
from zbackup.model import backup, drill, overview
from zbackup.model.errors import DatasetNotFound, ZbackupError
from zbackup.model.moment import local_text
from zbackup.model.operator_notes import OperatorNotes
from zbackup.model.retention import Retention
from zbackup.model.space import DatasetSettings
from zbackup.plan.clones.lease import end_of
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.plan.retention.retention import KeptBackup
from zbackup.plan.retention.rules import stays_until
from zbackup.zfs.facts import ZfsFacts


@dataclass(frozen=True, slots=True)
class Subject:
    """An instance to look at, and what the configuration promises of it."""

    ctx: Context
    expected: Expected


def inspect(
    subjects: Sequence[Subject],
    host: str,
    remembered: Sequence[JobState],
    notes: OperatorNotes,
    *,
    daemon_runs: bool,
    settings: tuple[tuple[str, str], ...] = (),
) -> overview.Overview:
    """Look at all of them. What cannot be looked at says why, and keeps nothing else from being shown."""
    ctx = subjects[0].ctx
    instances = [_instance(subject, remembered, notes, daemon_runs=daemon_runs) for subject in subjects]
    clones, unreadable, problem = clones_of([at for each in subjects for at in each.ctx.everywhere()])
    return overview.Overview(
        host=host,
        zone=ctx.zone.key,
        looked=ctx.clock.now(),
        daemon_runs=daemon_runs,
        instances=tuple(instances),
        clones=clones,
        unreadable_clones=unreadable,
        clones_problem=problem,
        settings=settings,
    )


def _instance(
    subject: Subject, remembered: Sequence[JobState], notes: OperatorNotes, *, daemon_runs: bool
) -> overview.OverviewInstance:
    ctx = subject.ctx
    try:
        status = instance_status.inspect(
            ctx, subject.expected, remembered, daemon_runs=daemon_runs, notes=notes
        )
        reach = window(ctx)
        backups = _backups(ctx, status, reach)
        verdicts = [(name, v) for name in ("", *(t.name for t in ctx.destinations)) for v in read(ctx, name)]
    except ZbackupError as problem:
        return overview.OverviewInstance(
            name=ctx.instance,
            engine=ctx.engine_name,
            health="critical",
            looked=ctx.clock.now(),
            problem=str(problem),
        )
    return overview.OverviewInstance(
        name=ctx.instance,
        engine=ctx.engine_name,
        health=status.health,
        looked=status.looked,
        findings=tuple(
            overview.OverviewFinding(
                severity=f.severity, subject=f.subject, text=f.text, why=f.why, fix=f.fix
            )
            for f in status.findings
        ),
        newest=status.newest.name if status.newest else "",
        newest_taken=status.newest.record.taken if status.newest else None,
        **_reach(ctx, reach),
        backups=backups.rows,
        destinations=_destinations(ctx, status),
        jobs=tuple(_job(row) for row in status.jobs),
        drills=tuple(_drill(name, verdict) for name, verdict in verdicts),
        room=_room(status, backups.written_a_day),
        working=status.working,
        paused=_paused(ctx, status),
        clone_lease=ctx.cloning.lease,
        clone_quota=ctx.cloning.quota,
        clone_masks=len(ctx.cloning.mask),
    )


@dataclass(frozen=True, slots=True)
class _Backups:
    """The backups as a page shows them, and how many bytes a day went into them."""

    rows: tuple[overview.OverviewBackup, ...]
    written_a_day: float | None


def _backups(ctx: Context, status: InstanceStatus, reach: WindowReport) -> _Backups:
    """Look at the backups that there are. Raise ZbackupError where ZFS cannot be asked."""
    backups = ctx.catalog().backups
    drills = of_backups(ctx, backups)
    kept = {each.backup.record.backup: each for each in reach.kept}
    stays = stays_until(backups, ctx.retention, status.looked, ctx.zone)
    opens = {b.record.backup for b in reach.as_they_are}
    rows = (
        _backup(
            b,
            ctx.retention,
            kept.get(b.record.backup),
            drills.get(b.record.backup),
            opens=b.record.backup in opens,
            until=stays.get(b.record.backup),
        )
        for b in backups
    )
    return _Backups(tuple(rows), written_a_day(backups, status.looked))


def _paused(ctx: Context, status: InstanceStatus) -> str:
    if not status.paused:
        return ""
    until = f"until {local_text(status.paused.until.replace(microsecond=0), ctx.zone)}"
    return f"{until}: {status.paused.reason}" if status.paused.reason else until


def _reach(ctx: Context, report: WindowReport) -> dict[str, Any]:
    found = report.window
    return {
        "ranges": tuple(overview.OverviewRange(after=r.after, to=r.to, live=r.live) for r in found.ranges),
        "gaps": tuple(
            overview.OverviewGap(
                after=g.after, to=g.to, cause=g.cause, older=g.older, newer=g.newer, why=g.why
            )
            for g in found.gaps
        ),
        "promised": report.promised,
        "promise": str(ctx.retention.window),
        "lacking": report.lacking,
        "note": report.note,
        "unreadable": report.unreadable,
    }


def _backup(
    subject: backup.Backup,
    rules: Retention,
    kept: KeptBackup | None,
    verdict: drill.DrillVerdict | None,
    *,
    opens: bool,
    until: datetime | None,
) -> overview.OverviewBackup:
    record, reasons = subject.record, kept.reasons if kept else ()
    sound = subject.complete and subject.finished
    return overview.OverviewBackup(
        name=subject.name,
        taken=record.taken,
        as_of=record.as_of,
        kind=record.purpose if sound else "unsound",
        tiers=tuple(why.tier.name for why in reasons if why.tier),
        keep=tuple(map(str, reasons)),
        label=record.label,
        drill="" if verdict is None else "passed" if verdict.passed else "failed",
        used=sum(s.used for s in subject.snapshots),
        opens=opens,
        until=until,
    )


def _destinations(ctx: Context, status: InstanceStatus) -> tuple[overview.OverviewDestination, ...]:
    addresses = {destination.name: destination.adapter.address for destination in ctx.destinations}
    archives = {each.destination: each for each in status.archives}
    found = []
    for each in status.shipped:
        archive = archives.get(each.destination)
        spans = [each.behind, archive.exposed(status.looked) if archive else None]
        known = [span for span in spans if span is not None]
        found.append(
            overview.OverviewDestination(
                name=each.destination,
                address=addresses[each.destination],
                newest=each.newest.name if each.newest else "",
                taken=each.newest.taken if each.newest else None,
                as_of=each.newest.as_of if each.newest else None,
                archived=archive.archived if archive else None,
                # Without a backup there, what is archived leads nowhere.
                lost=min(known).total_seconds() if each.newest and known else None,
                max_lag=each.max_lag.total_seconds() if each.max_lag is not None else None,
            )
        )
    return tuple(found)


def _job(row: JobState) -> overview.Job:
    return overview.Job(
        job=row.job,
        last=row.last,
        seconds=row.seconds,
        failures=row.failures,
        failed=row.failed,
        message=row.message,
        next=row.next,
        why=row.why,
    )


def _drill(destination: str, verdict: drill.DrillVerdict) -> overview.Drill:
    return overview.Drill(
        destination=destination,
        backup=verdict.name,
        at=verdict.at,
        to=verdict.to,
        transactions=verdict.transactions,
        tables=verdict.tables,
        unchecked=verdict.unchecked or 0,
        seconds=verdict.seconds,
        why=verdict.why,
    )


def _room(status: InstanceStatus, a_day: float | None) -> overview.Room:
    room = status.space
    return overview.Room(
        pool=room.pool.name,
        data=room.data,
        snapshots=room.snapshots,
        clones=room.clones,
        free=room.pool.free,
        free_share=room.pool.free_share,
        days=room.pool.free / a_day if a_day else None,
    )


def clones_of(
    contexts: Sequence[Context],
) -> tuple[tuple[overview.OverviewClone, ...], tuple[tuple[str, str], ...], str]:
    try:
        found = list_clones(contexts)
        quotas = _quotas(contexts, found.clones)
    except ZbackupError as problem:
        return (), (), str(problem)
    return tuple(_clone(c, quotas.get(c.dataset, 0)) for c in found.clones), found.unreadable, ""


def _quotas(contexts: Sequence[Context], clones: Sequence[CloneStatus]) -> dict[str, int]:
    """Map each clone's dataset to how far it may grow, in bytes; one that is destroyed meanwhile is not in
    it."""
    names = [clone.dataset for clone in clones]
    if not names:
        return {}
    facts, found = ZfsFacts(contexts[0].zfs.runner), list[DatasetSettings]()
    try:
        found += facts.settings(names)
    except DatasetNotFound:
        for name in names:
            with suppress(DatasetNotFound):
                found += facts.settings((name,))
    return {each.name: each.number("quota") for each in found}


def _clone(subject: CloneStatus, quota: int) -> overview.OverviewClone:
    clone = subject.clone

    def at(text: str) -> datetime | None:
        return datetime.fromisoformat(text) if text else None

    return overview.OverviewClone(
        name=clone.name,
        instance=clone.instance,
        kind=clone.kind,
        state=clone.state,
        running=subject.running,
        created=clone.created,
        target=at(clone.target),
        origin="its own copy" if clone.copied else clone.parent or clone.backup,
        port=clone.port,
        used=subject.used,
        connect=subject.connect,
        lease_ends=end_of(clone),
        protected_until=at(clone.protected),
        masked=clone.masked,
        quota=quota,
    )
