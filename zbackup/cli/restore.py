"""zbackup restore"""

import re
from typing import Annotated

import typer

from zbackup import app
from zbackup.cli import complete
from zbackup.cli.options import Options
from zbackup.cli.output import emit
from zbackup.cli.restore_report import Asked, headline, plan_shape, render_plan, render_report, report_shape
from zbackup.cli.working import OneInstance, on_one
from zbackup.jobs.context import Context, ShipTarget
from zbackup.jobs.restore import RestoreOptions, RestorePlan, plan_restore, restore
from zbackup.jobs.restore_from import (
    LATEST,
    latest_moment,
    plan_restore_from,
    plan_restore_there,
    restore_from,
    restore_there,
)
from zbackup.model.errors import UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.moment import FORMS, Moment, parse_moment

HELP = f"""Restore to a moment, as a new server.

Everything committed before the moment is there, nothing from it on. It runs beside the original, whose
server and datasets are not touched; it may even be down. The new one keeps running: see zbackup clone.

A moment is {FORMS}. Without a zone it is in the configured
one; without a day it is the last time it was that late. A time that happened twice or never because clocks
were changed is refused, with both readings.

\b
zbackup restore --to "2024-05-01 10:02"
zbackup restore shop --to -15m --dry-run
zbackup restore shop --to "yesterday 10:02:03.5" --name before-drop --port 3307 --read-only
zbackup restore shop --to 10:02 --base zbackup-20240501T080000Z   from an older backup than it would take
zbackup restore shop --from offsite --to latest    from a destination, fetched into new datasets
zbackup restore shop --from here --run-at-destination --to latest    on the destination's own pool
zbackup restore docs --to-timestamp 1714557720,1 --port 27018 --as-replica-set rescue
"""


Target = Annotated[
    str | None,
    typer.Option("--to", metavar="MOMENT", help="The moment to restore to.", show_default=False),
]
ToTimestamp = Annotated[
    str | None,
    typer.Option(
        "--to-timestamp",
        metavar="SECONDS,INC",
        help="MongoDB: the exact cluster time to restore to, instead of --to. It is left out itself.",
        show_default=False,
    ),
]
AsReplicaSet = Annotated[
    str,
    typer.Option(
        "--as-replica-set",
        metavar="NAME",
        help="MongoDB: make the new server a replica set of its own (default: a standalone one).",
        show_default=False,
    ),
]
Base = Annotated[
    str,
    typer.Option(
        "--base",
        metavar="NAME",
        help="Start from this backup instead of the newest that is old enough; see zbackup list.",
        show_default=False,
    ),
]
Name = Annotated[
    str,
    typer.Option("--name", help="Name of the clone (default: instance and moment).", show_default=False),
]
Port = Annotated[
    int,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help="Listen on this port of 127.0.0.1 too (default: a socket only).",
        show_default=False,
    ),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Let nobody write to the new server.")]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="DESTINATION",
        help="Fetch the backup from this destination; nothing else of the instance has to be here.",
        autocompletion=complete.destinations,
        show_default=False,
    ),
]
There = Annotated[
    bool,
    typer.Option(
        "--run-at-destination",
        help="With --from a pool of this host (zfs:...): run on clones of what is there, and copy nothing.",
    ),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep what was made when the restore fails.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")]


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: OneInstance = None,
    *,
    to: Target = None,
    to_timestamp: ToTimestamp = None,
    origin: From = None,
    there: There = False,
    base: Base = "",
    name: Name = "",
    port: Port = 0,
    read_only: ReadOnly = False,
    as_replica_set: AsReplicaSet = "",
    keep: Keep = False,
    dry_run: DryRun = False,
) -> None:
    exact = _cluster_time(to, to_timestamp)
    choice = RestoreOptions(
        name=name,
        port=port,
        read_only=read_only,
        keep=keep,
        cluster_time=exact,
        base=base,
        replica_set=_replica_set(as_replica_set),
    )
    with on_one(options, "restore", instance) as ctx:
        target = app.choose_target(ctx, origin) if origin else None
        if there and not target:
            raise UsageError("--run-at-destination needs a destination: --from DESTINATION")
        asked = Asked(ctx.instance, _moment(ctx, target, to or "", exact), exact)
        ctx.progress.note(headline(asked))
        if dry_run:
            plan = _planned(ctx, target, asked.moment, choice, there=there)
        elif target:
            bring_back = restore_there if there else restore_from
            report = bring_back(ctx, target, asked.moment, choice)
        else:
            report = restore(ctx, asked.moment, choice)
    if dry_run:
        emit(options, "restore", plan_shape(asked, plan), lambda: render_plan(asked, plan))
    else:
        emit(options, "restore", report_shape(asked, report), lambda: render_report(asked, report))


def _moment(ctx: Context, target: ShipTarget | None, to: str, exact: ClusterTime | None) -> Moment:
    if exact:
        return Moment(exact.second, str(exact), ctx.zone)
    if to.strip().lower() == LATEST and target:
        return latest_moment(ctx, target)
    return parse_moment(to, ctx.zone, ctx.clock.now())


def _planned(
    ctx: Context, target: ShipTarget | None, moment: Moment, choice: RestoreOptions, *, there: bool
) -> RestorePlan:
    if target:
        return (plan_restore_there if there else plan_restore_from)(ctx, target, moment, choice)
    return plan_restore(ctx, moment, choice)


def _cluster_time(to: str | None, exact: str | None) -> ClusterTime | None:
    """The exact target if one was given. Raise UsageError unless there is exactly one target."""
    if (to is None) == (exact is None):
        raise UsageError("say where to restore to: either --to MOMENT or --to-timestamp SECONDS,INC")
    if exact is None:
        return None
    try:
        return ClusterTime.parse(exact)
    except ValueError as wrong:
        raise UsageError(f"--to-timestamp: {wrong}") from wrong


def _replica_set(name: str) -> str:
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UsageError(f'"{name}" is no good name of a replica set: use letters, digits, ".", "_" and "-"')
    return name
