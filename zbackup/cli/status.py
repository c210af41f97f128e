"""zbackup status"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic_core import PydanticCustomError

from zbackup import app
from zbackup.cli import json_shapes, output, prose, tables
from zbackup.cli.command_context import AnyInstance, Done, Failed, Outcomes, conclude, on_each, whole
from zbackup.cli.options import Options
from zbackup.config.load import load
from zbackup.config.units import duration
from zbackup.jobs.archive.state import ArchiveState
from zbackup.jobs.context import Context
from zbackup.jobs.drills.verdicts import Drilled
from zbackup.jobs.journal import JobState, Journal
from zbackup.jobs.ship.lag import Shipped
from zbackup.jobs.watch.status import InstanceStatus, inspect
from zbackup.model.errors import DatasetNotFound, NotFound, UsageError, ZbackupError
from zbackup.model.finding import Finding
from zbackup.model.moment import local_text
from zbackup.model.schedule import parted
from zbackup.proc.lock import lock_owner

WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
OK, WARNING, CRITICAL, UNKNOWN = range(4)
LEVELS = {"ok": OK, "advice": OK, "warning": WARNING, "critical": CRITICAL}
WORST_LAST = (OK, WARNING, UNKNOWN, CRITICAL)

Outcome = Done[InstanceStatus] | Failed


def answer(inspect: Callable[[], Sequence[Outcome]]) -> tuple[int, str]:
    """The exit status, and what to print. An error is an answer, too: that nobody knows."""
    try:
        outcomes = inspect()
    except ZbackupError as failure:
        return UNKNOWN, f"ZBACKUP UNKNOWN - {_line(str(failure))}"
    level = max((_level(o) for o in outcomes), key=WORST_LAST.index)
    wrong = [line for outcome in outcomes for line in _wrong(outcome)]
    first = wrong[0] if wrong else ", ".join(f"{name(o)}: ok{_known(o)}" for o in outcomes)
    known = [f"{name(o)}:{_known(o)}" for o in outcomes if _known(o)] if wrong else []
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    data = " ".join(number for o in outcomes if isinstance(o, Done) for number in _numbers(o.result))
    return level, "\n".join(
        (f"ZBACKUP {WORDS[level]} - {first}{more}{f' | {data}' if data else ''}", *wrong[1:], *known)
    )


def _known(outcome: Outcome) -> str:
    """Problems that an operator knows of are no reason to call, and are not hidden."""
    found = outcome.result.findings if isinstance(outcome, Done) else ()
    subjects = ", ".join(f"{f.subject} {f.key}".strip() for f in found if f.acknowledged)
    return f" (acknowledged: {_line(subjects)})" if subjects else ""


def name(outcome: Outcome) -> str:
    return outcome.instance if isinstance(outcome, Failed) else outcome.result.instance


def _level(outcome: Outcome) -> int:
    return UNKNOWN if isinstance(outcome, Failed) else LEVELS[outcome.result.health]


def _wrong(outcome: Outcome) -> list[str]:
    """What is wrong with it, the worst first."""
    if isinstance(outcome, Failed):
        return [f"{outcome.instance}: {_line(str(outcome.error))}"]
    found = sorted(
        (f for f in outcome.result.findings if LEVELS[f.severity] > OK), key=lambda f: -LEVELS[f.severity]
    )
    return [f"{outcome.result.instance}: {f.subject}: {_line(f.text)}" for f in found]


def _numbers(status: InstanceStatus) -> list[str]:
    """Performance data: how old the newest backup and the last drills that passed are, how far each
    destination is behind, what is free."""
    ages = [("age", (status.looked - status.newest.record.taken).total_seconds())] if status.newest else []
    behind = [
        (f"behind {each.destination}", each.behind.total_seconds())
        for each in status.shipped
        if each.behind is not None
    ]
    passed = [
        (f"drill {each.destination}".strip(), age.total_seconds())
        for each in status.drills
        if (age := each.age(status.looked)) is not None
    ]
    seconds = [f"'{status.instance} {what}'={amount:.0f}s" for what, amount in (*ages, *behind, *passed)]
    return [*seconds, f"'{status.instance} pool free'={status.space.pool.free_share * 100:.0f}%"]


def _line(text: str) -> str:
    """Replace bars: what is behind one would be taken for performance data."""
    return " ".join(text.replace("|", "/").split())


HELP = """Show the state of the instances.

Of one instance or all of them: ok, warning or critical with the reasons, the newest backup, what can be
restored, the daemon's last and next runs, and free space. The database servers are not asked. What the
daemon remembers of its runs comes from its state file, everything else from ZFS.

\b
zbackup status
zbackup status shop --watch   until Ctrl-C
zbackup status --max-age 26h  critical when the newest backup is older, whatever is configured
zbackup status --plugin       for Nagios, Icinga and others: a line, and 0, 1, 2 or 3 as the exit status
zbackup status --json
"""

EVERY_S = 2.0
CLEAR = "\x1b[H\x1b[2J"


def command(
    options: Options,
    instance: AnyInstance = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again every two seconds.")] = False,
    max_age: Annotated[
        str,
        typer.Option(
            "--max-age",
            metavar="TIME",
            help='How old the newest backup may be: "26h", "90m" (default: max_age of the configuration).',
            show_default=False,
        ),
    ] = "",
    plugin: Annotated[
        bool,
        typer.Option(
            "--plugin", help="Answer as a monitoring plugin: 0 OK, 1 warning, 2 critical, 3 unknown."
        ),
    ] = False,
) -> None:
    most = _seconds(max_age) if max_age else None
    if plugin:
        if watch or options.json:
            raise UsageError("--plugin excludes --watch and --json")
        level, text = answer(lambda: whole(_inspected(options, instance, most)))
        output.say(text)
        raise typer.Exit(level)
    if not watch:
        conclude(options, "status", _inspected(options, instance, most), shape=_shape, text=_text)
        return
    before = CLEAR if sys.stdout.isatty() and not options.json else ""
    while True:
        # Until all was looked at the last picture stays.
        found = whole(_inspected(options, instance, most))
        print(before, end="")
        conclude(options, "status", found, shape=_shape, text=_text)
        time.sleep(EVERY_S)


def _seconds(text: str) -> float:
    try:
        return duration(text)
    except PydanticCustomError:
        raise UsageError(f'"{text}" is no length of time: write "26h", "90m" or "2d"') from None


def _inspected(options: Options, instance: str | None, most: float | None) -> Outcomes[InstanceStatus]:
    settings = load(options.config)
    notes = app.operator_file(settings).read()
    remembered = Journal(settings.daemon.state_dir).read()
    runs = bool(lock_owner(app.daemon_lock(settings)))

    def action(ctx: Context) -> InstanceStatus:
        expected = app.expected(settings, settings.instance[ctx.instance], ctx.clock.now())
        expected = replace(expected, max_age=most) if most is not None else expected
        try:
            return inspect(ctx, expected, remembered, daemon_runs=runs, notes=notes)
        except DatasetNotFound as gone:
            if not any(destination.adapter.here for destination in ctx.destinations):
                raise
            raise NotFound(f"{gone}; zbackup received shows the copies that lie here") from gone

    return on_each(options, "status", instance, action)


def _shape(done: Done[InstanceStatus]) -> dict[str, Any]:
    status = done.result
    record = status.newest.record if status.newest else None
    return {
        "health": status.health,
        "looked": output.plain(status.looked),
        "newest": json_shapes.backup(status.newest) if status.newest else None,
        "age_seconds": round((status.looked - record.taken).total_seconds(), 3) if record else None,
        "backups": status.backups,
        "clones": status.clones,
        "clones_running": list(status.servers),
        "clones_unfinished": [left.clone.name for left in status.leftovers],
        "window": {
            "after": output.plain(status.window.start),
            "to": output.plain(status.window.end),
            "gaps": list(status.gaps),
            "switched": list(status.switched),
            "silent": list(status.silent),
            "lacking_seconds": status.lost.total_seconds(),
        }
        if status.window
        else None,
        "as_they_are": [b.name for b in status.as_they_are],
        "space": output.plain(status.space),
        "tiers": output.plain(status.tiers),
        "daemon_runs": status.daemon_runs,
        "working": status.working or None,
        "paused": output.plain(status.paused),
        "acknowledged": json_shapes.acknowledgement(status.acknowledged),
        "shipped": [_shipped_shape(each) for each in status.shipped],
        "archives": [_archive_shape(each, status.looked) for each in status.archives],
        "drills": [_drill_shape(each) for each in status.drills],
        "jobs": [_job_shape(job) for job in status.jobs],
        "findings": [json_shapes.finding(f) for f in status.findings],
    }


def _job_shape(job: JobState) -> dict[str, Any]:
    shape: dict[str, Any] = output.plain(job)
    return {key: value for key, value in shape.items() if key != "instance"}


def _shipped_shape(each: Shipped) -> dict[str, Any]:
    newest, behind, most = each.newest, each.behind, each.max_lag
    return {
        "destination": each.destination,
        "newest": newest.name if newest else None,
        "taken": output.plain(newest.taken) if newest else None,
        "as_of": output.plain(newest.as_of) if newest else None,
        "behind_seconds": round(behind.total_seconds(), 3) if behind is not None else None,
        "max_lag_seconds": most.total_seconds() if most is not None else None,
    }


def _archive_shape(each: ArchiveState, now: datetime) -> dict[str, Any]:
    exposed = each.exposed(now)
    return {
        "destination": each.destination,
        "exposed_seconds": round(exposed.total_seconds(), 3) if exposed is not None else None,
        "end": each.end or None,
        "error": each.error or None,
    }


def _drill_shape(each: Drilled) -> dict[str, Any]:
    return {
        "destination": each.destination or None,
        "every_seconds": each.every.total_seconds() if each.every else None,
        "last": json_shapes.verdict(each.last),
        "passed": json_shapes.verdict(each.passed),
    }


def _text(found: list[Done[InstanceStatus]]) -> str:
    return prose.fold("\n\n".join(render(done.result, done.context.zone) for done in found))


def render(status: InstanceStatus, zone: ZoneInfo) -> str:
    """One instance for people."""
    rows = [
        ("newest snapshot", _newest(status, zone)),
        ("can be restored", _window(status, zone)),
        *(("next " + job.job, _next(job, status, zone)) for job in status.jobs if _planned(job)),
        *(("last " + job.job, _last(job, zone)) for job in status.jobs if _planned(job)),
        ("daemon", "runs" if status.daemon_runs else "does not run"),
        *([("works on it", status.working)] if status.working else []),
        *(("at " + each.destination, _arrived(each, zone)) for each in status.shipped),
        *(("log at " + each.destination, _archived(each, status.looked)) for each in status.archives),
        *([("clones", _clones(status))] if status.clones else []),
        *((_drill_name(each), _drilled(each, status, zone)) for each in status.drills),
        ("space", _space(status)),
        ("backups", _tiers(status)),
    ]
    wide = max(15, *(len(name) for name, _ in rows))
    lines = [f"  {name.ljust(wide)}  {text}" for name, text in rows]
    return "\n".join([f"Instance {status.instance}: {status.health}", *findings(status.findings), *lines])


def findings(found: tuple[Finding, ...]) -> list[str]:
    """What was found, a line each, with why it matters and what to do below it."""
    lines = []
    for finding in found:
        lines.append(f"  {finding.severity}: {finding.subject}: {finding.text}")
        lines += [f"      {finding.why}"] if finding.why else []
        lines += [f"      {tables.remedy(finding.fix)}"] if finding.fix else []
    return lines


def _archived(each: ArchiveState, now: datetime) -> str:
    exposed = each.exposed(now)
    if exposed is None:
        return "the clock was set back since" if each.archived else "not archived since this host was started"
    return (
        f"archived up to {each.end or 'nothing yet'}; {tables.length(exposed.total_seconds())} would be lost"
    )


def _newest(status: InstanceStatus, zone: ZoneInfo) -> str:
    if status.newest is None:
        return "none"
    record = status.newest.record
    as_of = f", data as of {local_text(record.as_of, zone)}" if record.as_of else ""
    locked = f", locked for {tables.length(record.lock_held_ms / 1000)}" if record.lock_held_ms else ""
    return f"{status.newest.name}, {_ago(status.looked - record.taken)}{as_of}{locked}"


def _arrived(each: Shipped, zone: ZoneInfo) -> str:
    newest, behind = each.newest, each.behind
    if newest is None or behind is None:
        return "nothing yet"
    as_of = f", data as of {local_text(newest.as_of, zone)}" if newest.as_of else ""
    return f"{newest.name}, {tables.length(behind.total_seconds())} behind{as_of}"


def _drill_name(each: Drilled) -> str:
    return f"drill at {each.destination}" if each.destination else "drill"


def _drilled(each: Drilled, status: InstanceStatus, zone: ZoneInfo) -> str:
    last = each.last
    if last is None:
        return "none yet"
    if last.passed:
        return f"passed {_ago(status.looked - last.at)}: {tables.proven(last, zone)}"
    before = f"; passed {_ago(status.looked - each.passed.at)}" if each.passed else ""
    return f"FAILED {_ago(status.looked - last.at)}: {last.name}: {last.why}{before}"


def _window(status: InstanceStatus, zone: ZoneInfo) -> str:
    if status.window:
        return status.window.describe(zone)
    if not status.as_they_are:
        return "nothing yet"
    count = len(status.as_they_are)
    return f"{count} backups as they are" if count > 1 else "1 backup as it is"


def _planned(job: JobState) -> bool:
    """Jobs that people schedule; the daemon's own looks only when they fail."""
    kind, _ = parted(job.job)
    return kind in ("snapshot", "prune", "ship", "verify", "drill") or job.failures > 0


def _next(job: JobState, status: InstanceStatus, zone: ZoneInfo) -> str:
    if not status.daemon_runs:
        return "never: no daemon runs"
    if job.next is None:
        return "not planned"
    left = job.next - status.looked
    if left <= timedelta():
        return f"now ({job.why})"
    return f"in {tables.length(left.total_seconds())}, {_clock(job.next, zone)} ({job.why})"


def _last(job: JobState, zone: ZoneInfo) -> str:
    if job.failures:
        times = f"{job.failures} time{'s' * (job.failures != 1)}"
        return f"failed {times}, last {_clock(job.failed, zone)}: {job.message}"
    took = f", took {tables.length(job.seconds)}" if job.seconds is not None else ""
    return f"ok, {_clock(job.last, zone)}{took}" if job.last else "never"


def _clock(moment: datetime | None, zone: ZoneInfo) -> str:
    return local_text(moment.replace(microsecond=0), zone) if moment else "-"


def _clones(status: InstanceStatus) -> str:
    run = f"; running: {', '.join(status.servers)}" if status.servers else ", none of them running"
    return f"{status.clones}{run}"


def _ago(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{tables.length(seconds)} ago" if seconds >= 0 else f"{tables.length(-seconds)} in the future"


def _tiers(status: InstanceStatus) -> str:
    listed = [f"{t.tier}: {t.backups} ({tables.size(t.used)})" for t in status.tiers]
    return f"{status.backups}" + (f"; {', '.join(listed)}" if listed else "")


def _space(status: InstanceStatus) -> str:
    room, size = status.space, tables.size
    parts = (("data", room.data), ("snapshots", room.snapshots), ("clones", room.clones))
    listed = ", ".join(f"{what} {size(amount)}" for what, amount in parts)
    return f"{listed}; {room.pool.name} has {size(room.pool.free)} free ({room.pool.free_share:.0%})"
