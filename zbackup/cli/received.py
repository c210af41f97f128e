"""zbackup received"""

from datetime import datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic_core import PydanticCustomError

from zbackup import app
from zbackup.cli import json_shapes, output, tables
from zbackup.cli.options import Options
from zbackup.cli.progress import shown
from zbackup.cli.status import findings
from zbackup.clock import SystemClock
from zbackup.config.load import load
from zbackup.config.settings import Settings
from zbackup.config.units import duration
from zbackup.config.zone import local_zone
from zbackup.jobs.journal import Journal
from zbackup.jobs.watch.received import Lot, Received, ReceivedCare, inspect, kept_at
from zbackup.jobs.watch.received_log import ArchivedLot
from zbackup.model.errors import NotFound, UsageError
from zbackup.model.moment import local_text
from zbackup.proc.lock import lock_owner
from zbackup.zfs.datasets import Zfs

HELP = """Show the state of the backups that other hosts have sent here, and of this host.

On a host that receives backups, which needs neither the database nor a configuration: the instances whose
backups lie below a dataset, the newest of each and its age, what is arriving or was cut off, which holds
there are, and free space. Without a dataset it is all datasets on this host that the configuration names
(to = "zfs:..."), and what its rules would prune there. Ends with 1 when something is critical, so
that monitoring can run it. --max-age, or max_lag in the configuration, says how old the newest may be.

\b
zbackup received tank/backups
zbackup received tank/backups/db1 --max-age 26h
zbackup received --json
"""

CRITICAL = 1


def command(
    options: Options,
    root: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET", help="The dataset below which backups are received.", show_default=False
        ),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="DURATION",
            help="How old the newest backup of each may be, as 26h.",
            show_default=False,
        ),
    ] = None,
) -> None:
    most = age(max_age) if max_age else None
    zone = local_zone()
    if root:
        reports = [inspect(Zfs(), SystemClock(), root, most=most)]
    else:
        settings = load(options.config)
        zone, reports = settings.timezone, _configured(options, settings, most)
    output.emit(
        options,
        "received",
        [_shape(report) for report in reports],
        lambda: "\n\n".join(render(report, zone) for report in reports),
    )
    if any(report.health == "critical" for report in reports):
        raise typer.Exit(CRITICAL)


def age(text: str) -> timedelta:
    """Read a length of time that somebody gave as an age. Raise UsageError."""
    try:
        return timedelta(seconds=duration(text))
    except PydanticCustomError:
        raise UsageError(f'"{text}" is no length of time: write "90m", "26h" or "2d"') from None


def _configured(options: Options, settings: Settings, most: timedelta | None) -> list[Received]:
    remembered = Journal(settings.daemon.state_dir).read()
    runs = bool(lock_owner(app.daemon_lock(settings)))
    roots: dict[str, list[ReceivedCare]] = {}
    with shown(options) as progress:
        for instance in settings.instance.values():
            ctx = app.context(settings, instance, progress)
            for ship, destination in zip(instance.ship, ctx.destinations, strict=True):
                if here := destination.adapter.here:
                    scheduled = bool(ship.prune or ship.verify)
                    roots.setdefault(here, []).append(
                        kept_at(ctx, destination, remembered, scheduled=scheduled)
                    )
    if not roots:
        raise NotFound(
            'no backups are received here by the configuration ([[instance.NAME.ship]] to = "zfs:..."): '
            "name the dataset that they lie below, zbackup received tank/backups"
        )
    return [
        inspect(Zfs(), SystemClock(), root, kept, most=most, daemon_runs=runs) for root, kept in roots.items()
    ]


def _shape(report: Received) -> dict[str, Any]:
    return {
        "root": report.root,
        "health": report.health,
        "looked": output.plain(report.looked),
        "instances": [_lot_shape(lot) for lot in report.lots],
        "arriving": list(report.arriving),
        "archived_log": [_log_shape(lot) for lot in report.logs],
        "held": [{"snapshot": snapshot, "tag": tag} for snapshot, tag in report.held],
        "prune": [
            {
                "instance": kept.instance,
                "destination": kept.destination,
                "due": [backup.name for backup in kept.due],
                "jobs": [output.plain(job) for job in kept.jobs],
            }
            for kept in report.kept
        ],
        "space": {
            "used": report.used,
            "available": report.available,
            "pool": output.plain(report.pool),
        },
        "findings": [json_shapes.finding(finding) for finding in report.findings],
    }


def _lot_shape(lot: Lot) -> dict[str, Any]:
    newest = lot.backups[-1] if lot.backups else None
    return {
        "instance": lot.instance,
        "dataset": lot.home,
        "backups": len(lot.backups),
        "newest": json_shapes.backup(newest) if newest else None,
        "committed": lot.arrived or None,
        "age_seconds": round(lot.age.total_seconds(), 3) if lot.age is not None else None,
    }


def _log_shape(lot: ArchivedLot) -> dict[str, Any]:
    return {
        "instance": lot.instance,
        "dataset": lot.home,
        "files": lot.files,
        "size": lot.size,
        "stored": lot.stored,
        "newest": output.plain(lot.newest) if lot.newest else None,
        "age_seconds": round(lot.age.total_seconds(), 3) if lot.age is not None else None,
        "problems": list(lot.problems),
    }


def render(report: Received, zone: ZoneInfo) -> str:
    """One root for people."""
    rows = [
        *((lot.instance, _newest(lot, zone)) for lot in report.lots),
        *((f"{lot.instance} log", _log(lot)) for lot in report.logs if lot.age is not None),
        *(("arriving", f"{name}: a stream is under way or was cut off") for name in report.arriving),
        *((f"prune {kept.destination}", _kept(kept, zone)) for kept in report.kept),
        ("space", _space(report)),
    ]
    wide = max(len(name) for name, _ in rows)
    return "\n".join(
        [
            f"Received below {report.root}: {report.health}",
            *findings(report.findings),
            *(f"  {name.ljust(wide)}  {text}" for name, text in rows),
        ]
    )


def _newest(lot: Lot, zone: ZoneInfo) -> str:
    if not lot.backups or lot.age is None:
        return f"no backup in {lot.home}"
    newest, count = lot.backups[-1], len(lot.backups)
    as_of = f", data as of {local_text(newest.record.as_of, zone)}" if newest.record.as_of else ""
    age = tables.length(lot.age.total_seconds())
    return f"{count} backup{'s' * (count != 1)} in {lot.home}, newest {newest.name}, {age} old{as_of}"


def _log(lot: ArchivedLot) -> str:
    size = f"{tables.size(lot.size)} ({tables.size(lot.stored)} on disk)"
    age = tables.length(lot.age.total_seconds()) if lot.age is not None else "no time"
    return f"{lot.files} archived file{'s' * (lot.files != 1)}, {size}, up to {age} ago"


def _kept(kept: ReceivedCare, zone: ZoneInfo) -> str:
    due = f"{len(kept.due)} due" if kept.due else "none due"
    runs = (f"{job.job} {_last(job.last, zone)}" for job in kept.jobs)
    return "; ".join((f"{kept.instance}: {due}", *runs))


def _last(moment: datetime | None, zone: ZoneInfo) -> str:
    return f"last success {local_text(moment.replace(microsecond=0), zone)}" if moment else "no success yet"


def _space(report: Received) -> str:
    size, pool = tables.size, report.pool
    return (
        f"{size(report.used)} used, {size(report.available)} available; {pool.name} is {pool.health} and has "
        f"{size(pool.free)} free ({pool.free_share:.0%})"
    )
