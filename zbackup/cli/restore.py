"""zbackup restore"""

import re
from dataclasses import replace
from typing import Annotated

import typer

from zbackup import app
from zbackup.cli import complete
from zbackup.cli.options import Options
from zbackup.cli.output import emit
from zbackup.cli.restore_report import Asked, headline, plan_shape, render_plan, render_report, report_shape
from zbackup.cli.working import OneInstance, on_one
from zbackup.jobs.context import Context, ShipTarget
from zbackup.jobs.restore.from_destination import (
    latest_moment,
    moment_of_copy,
    moment_there,
    plan_restore_from,
    plan_restore_there,
    restore_from,
    restore_there,
)
from zbackup.jobs.restore.latest import LATEST, latest_here, moment_here
from zbackup.jobs.restore.locate_transaction import locate, moment_of
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import RestorePlan, plan_restore, restore
from zbackup.model.errors import ClockAccepted, UsageError
from zbackup.model.exact import BackupName, TransactionName, parse_transaction
from zbackup.model.log import ClusterTime
from zbackup.model.moment import FORMS, Moment, parse_moment

HELP = f"""Restore to a moment, as a new server.

Everything committed before the moment is there, nothing at it or later. It runs beside the original, whose
server and datasets are not touched; it may even be down. The new one keeps running: see zbackup clone.

A moment is {FORMS}. Without a zone it is in the configured
one; without a day it is the last time it was that late. A time that happened twice or never because clocks
were changed is refused, with both readings.

\b
zbackup restore --to "2024-05-01 10:02"
zbackup restore shop --to -15m --dry-run
zbackup restore shop --to "yesterday 10:02:03.5" --name before-drop --port 3307 --read-only
zbackup restore shop --before 3e11fa47-71ca-11e1-9e33-c80aa9429562:23     everything before this transaction
zbackup restore shop --before binlog.000012:4711 --dry-run     the same by its position in the log
zbackup restore shop --to-backup zbackup-20240501T080000Z   a backup as it is, with nothing replayed
zbackup restore shop --to latest                   all that there is
zbackup restore shop --to 10:02 --base zbackup-20240501T080000Z   from an older backup than it would take
zbackup restore shop --from offsite --to latest    from a destination, fetched into new datasets
zbackup restore shop --from here --run-at-destination --to latest    on the destination's own pool
zbackup restore docs --to-timestamp 1714557720,1 --port 27018 --as-replica-set rescue
"""


Named = ClusterTime | TransactionName | BackupName

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
BeforeOption = Annotated[
    str | None,
    typer.Option(
        "--before",
        metavar="TRANSACTION",
        help="MySQL, MariaDB: restore what is in the log before this transaction, and not it: its GTID, or "
        "FILE:POSITION as mysqlbinlog prints it. Instead of --to.",
        show_default=False,
    ),
]
ToBackup = Annotated[
    str | None,
    typer.Option(
        "--to-backup",
        metavar="NAME",
        help="Restore this backup as it is, with nothing replayed; also of a server that keeps no log. "
        "Instead of --to; see zbackup list.",
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
AcceptOlder = Annotated[
    bool,
    typer.Option(
        "--accept-older",
        help="With --to latest: take the newest that can be read, also when another may be meant.",
    ),
]
AcceptClockOption = Annotated[
    bool,
    typer.Option(
        "--accept-clock",
        help="Where the log's times contradict its order at the moment: take them as they are, and leave out "
        "everything from the first transaction on that says it is from then or later. Ends with 16.",
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
    before: BeforeOption = None,
    to_backup: ToBackup = None,
    origin: From = None,
    there: There = False,
    base: Base = "",
    accept_older: AcceptOlder = False,
    name: Name = "",
    port: Port = 0,
    read_only: ReadOnly = False,
    as_replica_set: AsReplicaSet = "",
    accept_clock: AcceptClockOption = False,
    keep: Keep = False,
    dry_run: DryRun = False,
) -> None:
    exact = _exact(to, to_timestamp, before, to_backup)
    if base and isinstance(exact, BackupName):
        raise UsageError("--to-backup names what is restored: leave out --base")
    choice = RestoreOptions(
        name=name,
        port=port,
        read_only=read_only,
        keep=keep,
        base=base,
        accept_older=accept_older,
        replica_set=_replica_set(as_replica_set),
        accept_clock=accept_clock,
    )
    with on_one(options, "restore", instance) as ctx:
        target = app.choose_target(ctx, origin) if origin else None
        if there and not target:
            raise UsageError("--run-at-destination needs a destination: --from DESTINATION")
        asked = _asked(ctx, target, to or "", exact, choice)
        choice = replace(choice, exact=asked.exact)
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
        done = asked.known(report)
        emit(options, "restore", report_shape(done, report), lambda: render_report(done, report))
    if (plan if dry_run else report).clock_accepted:
        raise typer.Exit(ClockAccepted.exit_status)


def _asked(
    ctx: Context, target: ShipTarget | None, to: str, exact: Named | None, choice: RestoreOptions
) -> Asked:
    if isinstance(exact, ClusterTime):
        return Asked(ctx.instance, Moment(exact.second, str(exact), ctx.zone), exact)
    if exact is None:
        return Asked(ctx.instance, _moment(ctx, target, to, choice))
    if isinstance(exact, BackupName):
        of = moment_of_copy(ctx, target, exact) if target else moment_here(ctx, exact)
        return Asked(ctx.instance, of, exact)
    if target:
        return Asked(ctx.instance, moment_there(ctx, target, exact, choice.base), exact)
    before = locate(ctx, exact, choice.base)
    return Asked(ctx.instance, moment_of(ctx, before), before)


def _moment(ctx: Context, target: ShipTarget | None, to: str, choice: RestoreOptions) -> Moment:
    if to.strip().lower() == LATEST:
        return latest_moment(ctx, target, choice) if target else latest_here(ctx)
    return parse_moment(to, ctx.zone, ctx.clock.now())


def _planned(
    ctx: Context, target: ShipTarget | None, moment: Moment, choice: RestoreOptions, *, there: bool
) -> RestorePlan:
    if target:
        return (plan_restore_there if there else plan_restore_from)(ctx, target, moment, choice)
    return plan_restore(ctx, moment, choice)


def _exact(
    to: str | None, to_timestamp: str | None, before: str | None, to_backup: str | None
) -> Named | None:
    """The exact target if one was given. Raise UsageError unless there is exactly one target."""
    if sum(target is not None for target in (to, to_timestamp, before, to_backup)) != 1:
        raise UsageError(
            "say where to restore to, by one of --to MOMENT, --to-backup NAME, --before TRANSACTION and "
            "--to-timestamp SECONDS,INC"
        )
    if to_backup is not None:
        return BackupName(to_backup.strip())
    if before is not None:
        return parse_transaction(before)
    if to_timestamp is None:
        return None
    try:
        return ClusterTime.parse(to_timestamp)
    except ValueError as wrong:
        raise UsageError(f"--to-timestamp: {wrong}") from wrong


def _replica_set(name: str) -> str:
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UsageError(f'"{name}" is no good name of a replica set: use letters, digits, ".", "_" and "-"')
    return name
