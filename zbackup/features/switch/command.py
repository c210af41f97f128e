"""zbackup switch"""

import sys
from typing import Annotated, Any

import typer

from zbackup.cli import completion, tables
from zbackup.cli.command_context import on_one
from zbackup.cli.options import Options
from zbackup.cli.output import emit, plain
from zbackup.features.switch.switch import SwitchPlan, SwitchReport, plan, switch
from zbackup.features.switch.switch import undo as go_back
from zbackup.model.command_line import command_line
from zbackup.model.errors import UsageError

HELP = """Let a recovered clone take production's place.

Stops the server, renames its datasets to ...-before-<time>, puts the clone's there, with the same settings
and mountpoints, starts the server, and takes a backup. Nothing is destroyed or copied, so it takes seconds,
and --undo brings back what was. How the server is stopped and started is configured
([instance.NAME.service]).

The instance has to be named once more: with --confirm, or when you are asked. When it fails before the server
was started, all is put back. Cut short, it is finished by the same command, or undone with --undo.

If replicas have transactions that the clone lacks, the switch names them and ends with 9 before it changes
anything: the same GTIDs or sequence numbers would exist twice. Stop them first, or add --replicas-ahead.

\b
zbackup restore shop --to "yesterday 10:02" --name good     look at it, then
zbackup switch shop good --dry-run                          what would be done
zbackup switch shop good --confirm shop
zbackup switch shop --undo --confirm shop                   production is what it was before
"""

Instance = Annotated[
    str,
    typer.Argument(
        metavar="INSTANCE", help="Its name in the configuration.", autocompletion=completion.instances
    ),
]
CloneName = Annotated[
    str,
    typer.Argument(
        metavar="CLONE",
        help="The clone that a restore made; with --undo it may be left out.",
        autocompletion=completion.clones,
        show_default=False,
    ),
]
Confirm = Annotated[
    str,
    typer.Option("--confirm", metavar="INSTANCE", help="The instance's name once more.", show_default=False),
]


def command(
    options: Options,
    instance: Instance,
    clone: CloneName = "",
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Bring back what was production before.")] = False,
    confirm: Confirm = "",
    replicas_ahead: Annotated[
        bool,
        typer.Option(
            "--replicas-ahead", help="Switch even if replicas have transactions that the clone lacks."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, change nothing.")
    ] = False,
) -> None:
    if not (clone or undo):
        raise UsageError("which clone? zbackup clone list shows them")
    if undo and dry_run:
        raise UsageError("--undo and --dry-run exclude each other: the way back is that of the switch")
    if dry_run:
        with on_one(options, "switch", instance) as ctx:
            found = plan(ctx, clone)
        emit(options, "switch", {"dry_run": True, **_plan_shape(found)}, lambda: _plan_text(found))
        return
    _require_confirmed(instance, confirm)
    with on_one(options, "switch", instance) as ctx:
        act = go_back if undo else switch
        report = act(ctx, clone, accept_ahead=replicas_ahead)
    emit(options, "switch", {"dry_run": False, **_shape(report)}, lambda: _text(report))


def _require_confirmed(instance: str, confirm: str) -> None:
    """Raise UsageError unless the instance was named once more."""
    if not confirm:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(f"replacing production has to be confirmed: add --confirm {instance}")
        confirm = typer.prompt(f"This stops {instance}. Type its name to go on", err=True)
    if confirm != instance:
        raise UsageError(f'"{confirm}" is not the instance {instance}: nothing was done')


def _plan_shape(found: SwitchPlan) -> dict[str, Any]:
    return {
        "instance": found.clone.instance,
        "clone": found.clone.name,
        "renames": [{"dataset": old, "to": new} for old, new in found.renames],
        "stop": list(found.service.stop),
        "start": list(found.service.start),
        "replicas_ahead": list(found.ahead),
    }


def _shape(report: SwitchReport) -> dict[str, Any]:
    return {
        "instance": report.clone.instance,
        "clone": report.clone.name,
        "outcome": report.outcome,
        "aside": list(report.aside),
        "backup": report.backup,
        "remarks": plain(report.remarks),
    }


def _plan_text(found: SwitchPlan) -> str:
    rows = [
        ["stop", command_line(*found.service.stop)],
        *(["rename", f"{old} to {new}"] for old, new in found.renames),
        ["start", command_line(*found.service.start)],
        *(["ahead", f"{name}: add --replicas-ahead, rebuild it afterwards"] for name in found.ahead),
    ]
    return tables.aligned(rows)


def _text(report: SwitchReport) -> str:
    name, instance = report.clone.name, report.clone.instance
    if report.outcome == "switched":
        said = [f"{instance} is what {name} was"]
    else:
        said = [f"{instance} is what it was before the switch to {name}"]
    said += [f"  set aside  {dataset}" for dataset in report.aside]
    said += [f"  backup     {report.backup}"] if report.backup else []
    said += [f"  note       {remark}" for remark in report.remarks]
    if report.outcome == "switched":
        back = command_line("zbackup", "switch", instance, "--undo", "--confirm", instance)
        said.append(f"  to undo    {back}")
    return "\n".join(said)
