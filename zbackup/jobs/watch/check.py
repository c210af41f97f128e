"""The doctor: would a snapshot be taken, and would it restore? Looks only; tries it if asked to."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from zbackup.catalog.local import Catalog, read_clones
from zbackup.destinations.base import Encrypting
from zbackup.jobs.archive.archive import archive_destinations
from zbackup.jobs.archive.archive import ready as archive_ready
from zbackup.jobs.backup.complete_record import times_out_of_order
from zbackup.jobs.clones.find_leftovers import down, leftovers
from zbackup.jobs.context import Context, live_files
from zbackup.jobs.drills.drill import DrillReport, drill_here
from zbackup.jobs.drills.verdicts import drilled
from zbackup.jobs.ship.ship import ready
from zbackup.jobs.ship.stale_holds import find_stale
from zbackup.jobs.watch.status import written_by_dataset
from zbackup.jobs.watch.window import inspect as inspect_window
from zbackup.model.errors import CommandFailed, ConfigError, Refused, ZbackupError
from zbackup.model.finding import Finding, Health, worst
from zbackup.model.server import ServerFacts
from zbackup.plan.checked_tables import checked
from zbackup.plan.health import doctor, doctor_mongodb
from zbackup.plan.health.advice_on_arrangements import Expected, advice_on_arrangements
from zbackup.plan.health.bucket_keys import of_keys
from zbackup.plan.health.doctor import shared_with_connections
from zbackup.plan.health.drill_health import NO_DRILL, DrillFacts, described_drill, of_drills
from zbackup.plan.health.health import damaged_log, gap_in_window, log_times, no_log_behind
from zbackup.plan.health.keys_not_loaded import not_loaded
from zbackup.plan.health.placement import needed_datasets, require_one_snapshot_covers
from zbackup.plan.health.pool_space import of_space
from zbackup.plan.health.promoted import promoted_clones
from zbackup.plan.health.unfinished_clones import of_leftovers, of_those_down
from zbackup.plan.health.unreadable import unreadable_clones
from zbackup.plan.recovery.window import usable_bases
from zbackup.proc.run import run
from zbackup.zfs.facts import ZfsFacts

ASK_CLOCK = ("timedatectl", "show", "--property=NTPSynchronized", "--value")
ASK_LIMIT_S = 10.0
NET = Path("/proc/sys/net/ipv4")


def examine(ctx: Context, catalog: Catalog, server: ServerFacts | None, expected: Expected) -> list[Finding]:
    """List what could be better, and what will hurt one day. Raise CommandFailed when ZFS cannot be asked."""
    zfs = ZfsFacts(ctx.zfs.runner)
    newest = max(usable_bases(catalog.backups), key=lambda b: b.createtxg, default=None)
    facts = doctor.DoctorFacts(
        tuning=server.tuning if server else None,
        datasets=catalog.datasets,
        settings=zfs.settings([d.name for d in catalog.datasets]),
        every=expected.snapshot_every,
        arc_limit=zfs.arc_limit(),
        clock_synchronised=clock_synchronised(),
        held_ms=newest.record.lock_held_ms if newest else None,
        ceiling_s=expected.lock_ceiling,
    )
    rates = written_by_dataset(catalog.backups, ctx.clock.now())
    oplog = doctor_mongodb.examine(
        server.oplog if server else None, expected.snapshot_every, facts.datasets, facts.settings
    )
    ports = shared_with_connections(
        ctx.cloning.ports, _kernel_says("ip_local_port_range"), _kernel_says("ip_local_reserved_ports")
    )
    space = of_space(zfs.pool(catalog.datasets[0].pool), rates, facts.settings)
    return [*doctor.examine(facts), *oplog, *ports, *space]


def clock_synchronised() -> bool | None:
    """What systemd says of the clock; None where it is not asked."""
    try:
        return run(ASK_CLOCK, mutates=False, timeout=ASK_LIMIT_S).strip() == "yes"
    except CommandFailed:
        return None


def _kernel_says(setting: str) -> str:
    try:
        return (NET / setting).read_text()
    except OSError:
        return ""


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """All findings of one instance."""

    instance: str
    findings: tuple[Finding, ...]

    @property
    def exit_status(self) -> int:
        """The status of the first critical finding that keeps zbackup from its work; 0 for none.

        Others, such as a pool that lacks a disk, are the machine's: they hide none of ours, and end with 1.
        """
        found = [f.exit_status for f in self.findings if f.severity == "critical"]
        return next(filter(None, found), ZbackupError.exit_status if found else 0)

    @property
    def health(self) -> Health:
        return worst(self.findings)


def check(ctx: Context, expected: Expected, *, with_drill: bool = False) -> CheckReport:
    """Look at everything that can be looked at; what one problem hides is left out, never guessed.

    `with_drill`: recover this host's newest backup into a server, too, and remove that again. It writes its
    verdict down like any drill.
    """
    doctor = _Doctor()
    catalog = doctor.examine(
        "datasets",
        ctx.catalog,
        lambda c: ", ".join(d.name for d in c.datasets),
        lambda c: not_loaded(ZfsFacts(ctx.zfs.runner).settings([d.name for d in c.datasets])),
    )
    facts = doctor.examine("server", ctx.engine.inspect, _describe)
    if facts is not None:
        _check_engine(ctx, doctor, facts)
        _check_server(ctx, doctor, facts, catalog)
    if catalog is not None:
        _check_log(ctx, doctor, catalog, facts)
        _check_backups(ctx, doctor, catalog)
        if with_drill:
            _try_a_drill(ctx, doctor)
        _check_drills(ctx, doctor, catalog)
        known = catalog
        advice = doctor.examine(
            "settings",
            lambda: examine(ctx, known, facts, expected),
            lambda found: f"{len(found)} remark{'s' * (len(found) != 1)}" if found else "no problems found",
        )
        for finding in (*(advice or []), *advice_on_arrangements(expected.arrangements, ctx.instance)):
            doctor.add(finding)
    elif any(destination.adapter.here for destination in ctx.destinations):
        text = "where only copies of it lie, as on a host that receives them, see zbackup received"
        doctor.add(Finding(severity="advice", subject="datasets", text=text))
    _check_files(ctx, doctor)
    _check_elsewhere(ctx, doctor)
    _check_keys(ctx, doctor, expected)
    return CheckReport(instance=ctx.instance, findings=tuple(doctor.findings))


def _check_elsewhere(ctx: Context, doctor: "_Doctor") -> None:
    """Look at what else zbackup logs in to or sends to."""
    copier = ctx.copier() if ctx.copier else None
    if copier is not None and copier.configured:
        doctor.examine("copying back", copier.require_account, str)
    for destination in ctx.destinations:
        address = destination.adapter.address
        doctor.examine(
            f"destination {destination.name}", partial(ready, ctx, destination), f"{address}: {{}}".format
        )
    for destination in archive_destinations(ctx) if ctx.archive else ():
        look = partial(archive_ready, ctx, destination)
        doctor.examine(f"archive {destination.name}", look, f"{destination.adapter.address}: {{}}".format)


def _check_keys(ctx: Context, doctor: "_Doctor", expected: Expected) -> None:
    """Who can read what lies in buckets, and what is on schedule here that cannot."""
    scheduled = [(name, "a drill") for name, _ in expected.drills if name]
    scheduled += [(name, 'a verification with verify_read = "all"') for name in expected.read_all]
    for destination in ctx.destinations:
        if isinstance(destination.adapter, Encrypting):
            reads = " and ".join(what for name, what in scheduled if name == destination.name)
            try:
                found = destination.adapter.readers()
            except ZbackupError as problem:
                text = f"cannot find out who can read this bucket: {problem}"
                subject = f"keys of {destination.name}"
                doctor.add(Finding(severity="warning", subject=subject, text=text))
                continue
            for finding in of_keys(found, destination.name, reads=reads):
                doctor.add(finding)


def _check_server(ctx: Context, doctor: "_Doctor", facts: ServerFacts, catalog: Catalog | None) -> None:
    choice = doctor.examine("lock", lambda: ctx.engine.choose_lock(facts), lambda c: f"{c.kind}: {c.reason}")
    if choice is not None:
        doctor.examine(
            "privileges",
            lambda: ctx.engine.require_privileges(facts, choice.kind),
            lambda _: f"the account has what the lock {choice.kind} needs",
        )
    if catalog is not None:
        _check_placement(ctx, doctor, facts, catalog)
    members = [d.mountpoint for d in catalog.datasets if d.mountpoint] if catalog else []
    doctor.examine(
        "server program",
        lambda: ctx.recovery.check_version(facts.server, facts.version, members),
        lambda program: program,
    )
    for blocker in facts.blockers:
        doctor.add(Finding(severity="critical", subject="recovery", text=blocker, exit_status=9))
    for warning in facts.warnings:
        doctor.add(Finding(severity="warning", subject="server", text=warning))


def _check_engine(ctx: Context, doctor: "_Doctor", facts: ServerFacts) -> None:
    if facts.flavor != ctx.engine_name:
        doctor.add(
            Finding(
                severity="critical",
                subject="engine",
                text=f"the configuration says {ctx.engine_name}, and it is {facts.flavor} {facts.version}",
                why="a restore would start the wrong server program",
                fix=f'[instance.{ctx.instance}] engine = "{facts.flavor}"',
                exit_status=Refused.exit_status,
            )
        )


def _check_placement(ctx: Context, doctor: "_Doctor", facts: ServerFacts, catalog: Catalog) -> None:
    try:
        members = require_one_snapshot_covers(facts.data_paths, catalog.datasets)
    except Refused as elsewhere:
        homes = ctx.zfs.homes([each.path for each in facts.data_paths])
        wanted = needed_datasets(homes, ctx.datasets)
        line = f"[instance.{ctx.instance}] datasets = {json.dumps(wanted)}" if wanted else ""
        doctor.add(
            Finding(
                severity="critical",
                subject="placement",
                text=str(elsewhere),
                fix=line,
                exit_status=elsewhere.exit_status,
            )
        )
    else:
        text = f"all files lie on {len(members)} datasets of one pool"
        doctor.add(Finding(severity="ok", subject="placement", text=text))


def _check_files(ctx: Context, doctor: "_Doctor") -> None:
    """Files that the configuration names, and that are needed only on the day when they are."""
    named = [(f"mask {step.sql or step.run[0]}", Path(step.sql or step.run[0])) for step in ctx.cloning.mask]
    named += [(f"destination {t.name}", file) for t in ctx.destinations for file in t.adapter.files]
    for subject, file in named:
        try:
            found = file.is_file()
        except OSError:
            found = False
        if not found:
            text = f"{file} is not there, or cannot be seen"
            doctor.add(
                Finding(severity="critical", subject=subject, text=text, exit_status=ConfigError.exit_status)
            )


def _check_log(ctx: Context, doctor: "_Doctor", catalog: Catalog, facts: ServerFacts | None) -> None:
    """Add the findings on whether the log that the server writes now leads on from the newest backup."""
    sound = [b for b in catalog.backups if b.complete and b.finished]
    newest = max(
        (b for b in sound if b.record.log_to or b.record.breaks_log), key=lambda b: b.createtxg, default=None
    )
    if newest is None:
        return
    if newest.record.breaks_log:
        if not (facts and facts.blockers):  # which say it already
            doctor.add(no_log_behind(newest))
        return
    try:
        damage = ctx.log_reader.live_log_damage(
            newest.files(catalog.all_datasets), live_files(catalog.datasets)
        )
    except (ZbackupError, OSError) as problem:
        text = f"it cannot be told that it leads on from {newest.name}: {problem}"
        doctor.add(Finding(severity="warning", subject="log", text=text, fix="zbackup window"))
        return
    for what in damage or ():
        doctor.add(damaged_log(what, running=facts is not None))
    if any(not what.unread for what in damage or ()):
        return
    reach, _ = inspect_window(ctx, catalog)
    # The judgement of `zbackup status`: a file that is missing is no damage of those that are there.
    if behind := [gap for gap in reach.gaps if not gap.newer]:
        doctor.add(gap_in_window(behind[-1].why))
    elif damage == ():
        doctor.add(Finding(severity="ok", subject="log", text=f"it can be read on from {newest.name}"))


def _check_backups(ctx: Context, doctor: "_Doctor", catalog: Catalog) -> None:
    for finding in promoted_clones(catalog.promoted):
        doctor.add(finding)
    for name, problem in catalog.unreadable:
        doctor.add(Finding(severity="warning", subject="backups", text=f"{name} cannot be read: {problem}"))
    for backup in catalog.backups:
        if not backup.complete:
            there = ", ".join(str(s) for s in backup.snapshots)
            text = f"{backup.name} misses a dataset's snapshot and restores nothing; it still has {there}"
            doctor.add(Finding(severity="warning", subject="backups", text=text))
        elif not backup.finished:
            text = f"{backup.name} was not finished; the next zbackup snapshot does that"
            doctor.add(Finding(severity="warning", subject="backups", text=text))
    for finding in log_times(times_out_of_order(catalog.backups)):
        doctor.add(finding)
    doctor.examine(
        "clones",
        lambda: read_clones(ctx.zfs, ctx.clones),
        lambda there: f"{len(there.found)} below {ctx.clones}",
        lambda there: (
            *unreadable_clones(there.unreadable),
            *of_leftovers(leftovers(ctx)),
            *of_those_down(down(ctx)),
        ),
    )
    stale = doctor.examine(
        "pins", lambda: find_stale(ctx), lambda s: f"{len(s)} for destinations that are gone"
    )
    for mark in stale or []:
        text = f"{mark.kind} {mark.tag or mark.name} on {mark.name}: {mark.why}; zbackup release --stale"
        doctor.add(Finding(severity="warning", subject="pins", text=text))


def _try_a_drill(ctx: Context, doctor: "_Doctor") -> None:
    """Ask a server what only it can tell: that it starts on a clone, replays the log and finds all whole."""
    tried = doctor.examine("restore", lambda: drill_here(ctx), _recovered)
    if tried and tried.left:
        doctor.add(Finding(severity="warning", subject="clones", text=tried.left))


def _recovered(drilled: DrillReport) -> str:
    verdict, end = drilled.verdict, "" if drilled.left else ", and removed"
    return f"{verdict.name} was recovered, {checked(verdict.tables or 0, verdict.unchecked or 0)}{end}"


def _check_drills(ctx: Context, doctor: "_Doctor", catalog: Catalog) -> None:
    """Judge drills: that a restore was tried lately tells most of whether one will work."""
    if not any(b.complete and b.finished for b in catalog.backups):
        return

    def facts() -> list[DrillFacts]:
        now = ctx.clock.now()
        return [
            DrillFacts(
                destination=each.destination,
                passed=each.age(now),
                every=None,
                failed=each.last.why if each.last else "",
            )
            for each in drilled(ctx, ())
        ]

    doctor.examine(
        "drills",
        facts,
        lambda there: "; ".join(map(described_drill, there)),
        lambda there: of_drills(there) if there else [NO_DRILL],
    )


def _describe(facts: ServerFacts) -> str:
    applier = (
        f", applier {'running' if facts.applier_running else 'stopped'}" if facts.role == "replica" else ""
    )
    return f"{facts.flavor} {facts.version}, {facts.role}{applier}"


class _Doctor:
    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def add(self, finding: Finding) -> None:
        self.findings.append(finding)

    def examine(
        self,
        subject: str,
        question: Callable[[], T],
        describe: Callable[[T], str],
        problems: Callable[[T], Sequence[Finding]] = lambda _: (),
    ) -> T | None:
        """Ask; an expected failure becomes a finding, and None is returned.

        An answer that shows no `problems` is described, and is ok.
        """
        try:
            answer = question()
            found = problems(answer)
        except ZbackupError as problem:
            self.add(
                Finding(
                    severity="critical", subject=subject, text=str(problem), exit_status=problem.exit_status
                )
            )
            return None
        self.findings += found or [Finding(severity="ok", subject=subject, text=describe(answer))]
        return answer
