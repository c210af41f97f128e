"""zbackup verify"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from zbackup import app
from zbackup.cli import cluster_option, completion, json_shapes, on_cluster, tables
from zbackup.cli import private_key as private_key_option
from zbackup.cli.command_context import AnyInstance, Done, conclude, on_each
from zbackup.cli.options import Options
from zbackup.cli.output import emit, plain
from zbackup.config.ship import Sample
from zbackup.jobs.cluster.drill import drill_cluster
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.drills.drill import DrillReport, drill, drill_here, plan_at, plan_here
from zbackup.jobs.ship.archived import CheckedLog
from zbackup.jobs.ship.verify_at import ReadBack, VerifyReport, uncompared, verify_at
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotRemoved, UsageError, VerificationFailed
from zbackup.model.log import how_many
from zbackup.model.moment import local_text
from zbackup.plan.checked_tables import checked
from zbackup.plan.recovery.drills import DrillPlan

HELP = """Verify backups: compare those at a destination with those here, or restore one as a drill.

For every backup on both sides, the snapshots must have the same guids, and the records must agree. For the
newest of them, data is read from the disks of both sides and compared. That needs a key that may read there:
zbackup gate lets an --append-only key compare, and not read. Nothing is changed.

A bucket is also verified by itself, even on a host that has nothing else of the instance: its manifests by
the listing of their objects, and with --read all every byte.

With --drill, the backups are also recovered into a server that nobody can reach: a backup is opened, the log
replayed up to the end of the newest, and every table checked by the server. Then the server is removed, and
the verdict is written down here, for zbackup list and status. Without --at, a drill tries the backups that
are here. A host makes one drill at a time; with instance.NAME.schedule.drill the daemon makes them.

\b
zbackup verify --at offsite                 compare all, and read the first GiB of each dataset
zbackup verify shop --at offsite --read all
zbackup verify --at offsite --read none     compare, and read nothing
zbackup verify --at cloud --read all        fetch, hash and decrypt all that is in a bucket
zbackup verify --at cloud --drill           and recover the newest of it into a server, which is removed again
zbackup verify shop --drill                 recover what is here
zbackup verify shop --drill --dry-run       only say which backup, and up to when
zbackup verify --cluster shop --drill       recover all members of a sharded MongoDB to one cluster time

The exit status is that of a failed verification when anything is different, and when nothing could be
compared or proven. If a drill passed but its datasets are still in use (such as by a container with its own
mounts), the exit status is 20. The message names the process, the drill counts as passed, and the datasets
are removed later.
"""


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: AnyInstance = None,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="DESTINATION",
            help="Which destination (with --drill alone: the backups that are here).",
            autocompletion=completion.destinations,
            show_default=False,
        ),
    ] = "",
    read: Annotated[
        str, typer.Option("--read", metavar="SIZE|all|none", help="How much of each dataset is read.")
    ] = "1GiB",
    with_drill: Annotated[
        bool,
        typer.Option(
            "--drill",
            help="If all is well, also recover the newest that is there, and remove it again.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Of a drill only say what it would recover.")
    ] = False,
    cluster: cluster_option.Name = "",
    private_key: private_key_option.Files = None,
) -> None:
    if private_key and not at:
        raise UsageError("--private-key works only with a bucket: add --at DESTINATION")
    if cluster:
        cluster_option.require_no_instance(instance)
        if not with_drill or dry_run:
            raise UsageError(
                "--cluster goes with --drill, --at and --private-key only: compare each member's copies by "
                "itself"
            )
        _drill_cluster(options, cluster, at, private_key)
        return
    if not at and not with_drill:
        raise UsageError(
            "say which destination: --at DESTINATION; or --drill to try the backups that are here"
        )
    if dry_run and not with_drill:
        raise UsageError("--dry-run is for --drill: a comparison changes nothing")
    most = _most(read)

    def act(ctx: Context) -> Verified:
        if dry_run:
            destination = app.choose_destination(ctx, at) if at else None
            plan = plan_at(ctx, destination, between=False) if destination else plan_here(ctx, between=False)
            return Verified(None, None, plan)
        if not at:
            return Verified(None, drill_here(ctx))
        return compare(ctx, app.choose_destination(ctx, at), most, with_drill=with_drill)

    outcomes = on_each(options, "verify", instance, act, private_key)
    conclude(options, "verify", outcomes, shape=_shape, text=_text)
    results = [o.result for o in outcomes if isinstance(o, Done)]
    if any(result.report and result.report.problems for result in results):
        raise typer.Exit(VerificationFailed.exit_status)
    if any(result.drilled and result.drilled.left for result in results):
        raise typer.Exit(NotRemoved.exit_status)


def compare(ctx: Context, destination: ShipDestination, most: int, *, with_drill: bool) -> "Verified":
    """Compare what is there, and recover the newest of it, too, where that is asked for and all is well."""
    report = verify_at(ctx, destination, most=most)
    if with_drill and not report.problems:
        return Verified(report, drill(ctx, destination))
    if not report.problems:
        _require_compared(report, ctx.instance)
    return Verified(report, None)


def _require_compared(report: VerifyReport, instance: str) -> None:
    """Raise VerificationFailed where nothing that is there was compared or proven: no success says so."""
    if why := uncompared(report):
        command = command_line(
            "zbackup", "verify", instance, "--at", report.destination.name, "--read", "none", "--drill"
        )
        raise VerificationFailed(
            f"nothing was compared at {report.destination.adapter.address}: {why} (to recover the newest of "
            f"them: {command})"
        )


def _drill_cluster(options: Options, name: str, at: str, private_keys: Sequence[Path] | None) -> None:
    """Recover all members of a cluster to one cluster time, and remove them again."""
    with on_cluster.on_members(options, "verify", name, private_keys) as (cluster, contexts):
        report = drill_cluster(cluster, on_cluster.inspect_members(contexts, at or None, stored=True))
    shape = {
        "cluster": cluster.name,
        "destination": at or None,
        "cluster_time": str(report.at),
        "took_s": report.took.total_seconds(),
        "members": [{"instance": m.name, "tables": c.tables} for m, c in report.members],
        "left": list(report.left),
    }
    collections = how_many(sum(c.tables for _, c in report.members), "collection", "collections")
    text = (
        f"Cluster {cluster.name}: {len(report.members)} members recovered to cluster time {report.at}, "
        f"{collections} checked, {'' if report.left else 'all removed again, '}in "
        f"{tables.length(report.took.total_seconds())}"
    )
    emit(options, "verify", shape, lambda: "\n".join((text, *report.left)))
    if report.left:
        raise typer.Exit(NotRemoved.exit_status)


@dataclass(frozen=True, slots=True)
class Verified:
    """The comparison that was made (None: nothing, as no destination was named), and what a drill recovered
    if one was asked for and nothing was wrong; or what it would recover."""

    report: VerifyReport | None
    drilled: DrillReport | None
    planned: DrillPlan | None = None


def _most(text: str) -> int:
    """Bytes; 0 for all, -1 for none."""
    try:
        return TypeAdapter(Sample).validate_python(text)
    except ValidationError as wrong:
        raise UsageError(f'--read "{text}": expected a size such as "1GiB", or all, or none') from wrong


def _shape(done: Done[Verified]) -> dict[str, Any]:
    report, drilled = done.result.report, done.result.drilled
    destination = report.destination if report else None
    read = report.read if report else ()
    proven = report.proven if report else ()
    return {
        "destination": destination.name if destination else None,
        "place": destination.adapter.address if destination else None,
        "compared": [plain(b.name) for b in report.compared] if report else [],
        "only_there": [plain(b.name) for b in report.alone] if report else [],
        "read": [
            {"snapshot": str(r.snapshot), "size": r.size, "whole": r.whole, "same": r.same} for r in read
        ],
        "proven": [{"name": c.name, "size": c.read, "problems": list(c.problems)} for c in proven],
        "archived_log": _log_shape(report.log) if report and report.log else None,
        "problems": list(report.problems) if report else [],
        "drill": _drill_shape(drilled) if drilled else None,
    } | ({"dry_run": True, "plan": _plan_shape(done.result.planned)} if done.result.planned else {})


def _plan_shape(plan: DrillPlan) -> dict[str, Any]:
    return {"base": json_shapes.backup(plan.base), "to": plain(plan.moment)}


def _drill_shape(drilled: DrillReport) -> dict[str, Any]:
    recovered = drilled.restored.recovered
    return {
        "base": json_shapes.backup(drilled.restored.plan.base),
        "last_applied": json_shapes.transaction(recovered.last_applied),
        "position": recovered.position,
        "gtid": recovered.gtid,
        "seconds": drilled.took.total_seconds(),
        "phases": json_shapes.phases(drilled.restored.phases),
        "tables": drilled.checked.tables,
        "unchecked": list(drilled.checked.unchecked),
        "verdict": json_shapes.verdict(drilled.verdict),
        "left": drilled.left or None,
    }


def _text(turns: list[Done[Verified]]) -> str:
    return "\n\n".join("\n".join(_lines(done)) for done in turns)


def _lines(done: Done[Verified]) -> list[str]:
    report, drilled = done.result.report, done.result.drilled
    if plan := done.result.planned:
        to = local_text(plan.moment, done.context.zone)
        return [f"Instance {done.context.instance}: a drill would recover {plan.base.name} up to {to}"]
    tried = _drilled(drilled) if drilled else []
    if report is None:
        return [f"Instance {done.context.instance}: sound", *tried]
    good = "the same" if report.compared else "sound" if report.proven else "nothing to compare"
    verdict = "DIFFERENT" if report.problems else good
    return [
        f"Instance {done.context.instance} at {report.destination.adapter.address}: {verdict}",
        f"  compared   {_how_many(len(report.compared))}, {len(report.alone)} more that are only there",
        *(f"  read       {_read(each)}" for each in report.read),
        *(["  read       nothing"] if not report.read and not report.proven else []),
        *_proven(report),
        *(_log(report.log, done.context) if report.log else []),
        *tried,
        *(f"  DIFFERENT  {text}" for text in report.problems),
    ]


def _read(each: ReadBack) -> str:
    part = "all" if each.whole else "the first"
    return f"{each.snapshot}: {part} {tables.size(each.size)}, {'the same' if each.same else 'DIFFERENT'}"


def _proven(report: VerifyReport) -> list[str]:
    if not report.proven:
        return []
    read = sum(each.read for each in report.proven)
    how = f"by reading {tables.size(read)}" if read else "by the listing of their objects"
    return [f"  proven     {_how_many(len(report.proven))}, {how}"]


def _log_shape(log: CheckedLog) -> dict[str, Any]:
    return {
        "files": log.files,
        "size": log.size,
        "read": log.read,
        "complete_to": plain(log.complete_to) if log.complete_to else None,
        "ends": list(log.ends),
    }


def _log(log: CheckedLog, ctx: Context) -> list[str]:
    files = f"{log.files} file{'s' * (log.files != 1)}, {tables.size(log.size)}"
    how = f"{tables.size(log.read)} read and proven" if log.read else "nothing of it read"
    reach = f", leads up to {local_text(log.complete_to, ctx.zone)}" if log.complete_to else ""
    return [f"  log        {files}, {how}{reach}", *(f"  log ends   {why}" for why in log.ends)]


def _drilled(drilled: DrillReport) -> list[str]:
    recovered, base = drilled.restored.recovered, drilled.restored.plan.base
    reached = recovered.gtid or recovered.position
    seconds = drilled.took.total_seconds()
    looked_at = checked(drilled.checked.tables, len(drilled.checked.unchecked))
    end = "passed" if drilled.left else "and removed"
    said = f"  drill      recovered {base.name} to {reached} in {seconds:.0f} s, {looked_at}, {end}"
    return [said, *([f"  left       {drilled.left}"] if drilled.left else [])]


def _how_many(count: int) -> str:
    return f"{count} backup{'' if count == 1 else 's'}"
