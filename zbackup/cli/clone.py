"""zbackup clone: the servers that restores made"""

import sys
from collections.abc import Sequence
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from zbackup.cli import complete, shapes, tables
from zbackup.cli.options import Options, common_options
from zbackup.cli.output import emit
from zbackup.cli.working import on_all
from zbackup.jobs import clone as jobs
from zbackup.jobs.clone import CloneStatus
from zbackup.model.errors import UsageError
from zbackup.model.moment import local_text

HELP = """The servers that restores made: list, stop, start, destroy."""

LIST = """List the clones, and how to reach them.

\b
zbackup clone list
zbackup clone list --json
"""

STOP = """Stop a clone's server; its data stays.

\b
zbackup clone stop shop-20240501t080200z
"""

START = """Start a clone's server again.

It listens where it did before, also after a reboot.

\b
zbackup clone start shop-20240501t080200z
"""

DESTROY = """Destroy a clone: its server and its data.

Exactly that clone; the snapshots stay. Asks first, unless --yes is given.

\b
zbackup clone destroy shop-20240501t080200z
zbackup clone destroy shop-20240501t080200z --yes   without being asked
"""

CloneName = Annotated[
    str, typer.Argument(metavar="NAME", help="The clone's name.", autocompletion=complete.clones)
]

HEADER = ("Name", "Instance", "As of", "Server", "Port", "Used", "Snapshot", "Connect with")


def build() -> typer.Typer:
    """The clone commands."""
    app = typer.Typer(rich_markup_mode=None)
    app.callback(help=HELP)(common_options(between))
    for name, function, text in (
        ("list", list_, LIST),
        ("stop", stop, STOP),
        ("start", start, START),
        ("destroy", destroy, DESTROY),
    ):
        app.command(name, help=text)(common_options(function))
    return app


def between(_: Options) -> None:
    """`zbackup clone --json list`: options between the two words count too."""


def list_(options: Options) -> None:
    with on_all(options, "clone list") as contexts:
        found = jobs.list_clones(contexts)
        zone = contexts[0].zone
    emit(options, "clone list", [shapes.clone(c) for c in found], lambda: render(found, zone))


def stop(options: Options, name: CloneName) -> None:
    with on_all(options, "clone stop") as contexts:
        status = jobs.stop(contexts, name)
    emit(options, "clone stop", shapes.clone(status), lambda: f"{name} is stopped")


def start(options: Options, name: CloneName) -> None:
    with on_all(options, "clone start") as contexts:
        status = jobs.start(contexts, name)
    emit(options, "clone start", shapes.clone(status), lambda: f"{name} runs\n  {status.connect}")


def destroy(
    options: Options,
    name: CloneName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    if not yes:
        _ask(name)
    with on_all(options, "clone destroy") as contexts:
        gone = jobs.destroy(contexts, name)
    data = {"name": gone.name, "instance": gone.instance, "destroyed": True}
    emit(options, "clone destroy", data, lambda: f"{name} is destroyed")


def _ask(name: str) -> None:
    """Raise UsageError where nobody can answer, and Abort when the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("destroying a clone has to be confirmed: add --yes")
    typer.confirm(f"Destroy the clone {name} and its data?", abort=True, err=True)


def render(found: Sequence[CloneStatus], zone: ZoneInfo) -> str:
    """The clones for people."""
    if not found:
        return "There are no clones."
    return tables.table(HEADER, [_row(c, zone) for c in found], right=(4, 5))


def _row(status: CloneStatus, zone: ZoneInfo) -> list[str]:
    clone = status.clone
    server = "unfinished" if clone.state == "building" else "running" if status.running else "stopped"
    return [
        clone.name,
        clone.instance,
        local_text(target, zone) if (target := shapes.target_of(clone)) else "-",
        server + (", read only" if clone.read_only else ""),
        str(clone.port or "-"),
        tables.size(status.used),
        clone.backup,
        status.connect if status.running else "-",
    ]
