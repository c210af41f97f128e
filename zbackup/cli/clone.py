"""zbackup clone: dev clones, and the servers that restores made"""

import sys
from datetime import datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import typer

from zbackup.cli import clone_create, completion, json_shapes, prose, tables
from zbackup.cli.clone_create import lease_of
from zbackup.cli.command_context import on_all
from zbackup.cli.command_groups import CloneCommands
from zbackup.cli.options import Options, common_options
from zbackup.cli.output import emit
from zbackup.jobs.clones import lifecycle as jobs
from zbackup.jobs.clones.lifecycle import CloneList, CloneStatus
from zbackup.jobs.dev_clones import lease as clone_lease
from zbackup.jobs.dev_clones import promote as clone_promote
from zbackup.jobs.dev_clones import reset as clone_reset
from zbackup.jobs.dev_clones import snapshot as clone_snapshot
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import Declined, UsageError
from zbackup.model.moment import local_text, parse_time_to_come
from zbackup.plan.clones.connection_url import environment, url
from zbackup.plan.clones.lease import end_of

RESET = """Reset a dev clone to the data it was made of, or to the newest there is.

Everything that was written to it is lost. Its name, port and passwords stay. Cut short, it is finished by
running it again.

\b
zbackup clone reset dev1                   back to what it was made of
zbackup clone reset dev1 --to latest       production's newest backup (or its parent's newest snapshot)
"""

SNAPSHOT = """Take a snapshot of a dev clone, to make children of it.

For example of one that was masked, or prepared for tests: its children need no masking.

\b
zbackup clone snapshot dev-base
zbackup clone create --from-clone dev-base --name dev1
"""

PROMOTE = """Copy a clone's blocks, so that its backup can be pruned.

The clone then occupies as much as production does. Its server is stopped meanwhile. Unlike `zfs promote`,
this moves and changes nothing of production's.

\b
zbackup clone promote dev1
"""

EXTEND = """Extend a dev clone's lease, counted from now.

\b
zbackup clone extend dev1 --lease 8h
zbackup clone extend dev1 --lease never
"""

PROTECT = """Keep a dev clone until a time, whatever its lease says.

Until then it can not be destroyed by `clone destroy` either. A time without a zone is in the configured one.

\b
zbackup clone protect dev1 --until "2024-05-03 18:00"
zbackup clone protect dev1 --until +3d
zbackup clone protect dev1 --until now          end the protection
"""

CloneName = Annotated[
    str, typer.Argument(metavar="NAME", help="The clone's name.", autocompletion=completion.clones)
]
To = Annotated[Literal["origin", "latest"], typer.Option("--to", help="Where it is reset to.")]
Label = Annotated[
    str, typer.Option("--snapshot", metavar="NAME", help="Its name (default: by time).", show_default=False)
]
Lease = Annotated[
    str, typer.Option("--lease", metavar="TIME", help="How long it is kept, such as 8h, or never.")
]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="The end of the protection.")]


def reset(options: Options, name: CloneName, *, to: To = "origin") -> None:
    with on_all(options, "clone reset") as contexts:
        status = clone_reset.reset(contexts, name, latest=to == "latest")
    emit(
        options, "clone reset", json_shapes.clone(status), lambda: f"{name} is as {status.clone.backup} again"
    )


def snapshot(options: Options, name: CloneName, *, snapshot: Label = "") -> None:
    with on_all(options, "clone snapshot") as contexts:
        taken = clone_snapshot.snapshot(contexts, name, snapshot)
    data = {"name": name, "snapshot": taken}
    emit(options, "clone snapshot", data, lambda: f"took {taken} of {name}")


def promote(options: Options, name: CloneName) -> None:
    with on_all(options, "clone promote") as contexts:
        status = clone_promote.promote(contexts, name)
    emit(
        options, "clone promote", json_shapes.clone(status), lambda: f"{name} depends on no snapshot any more"
    )


def extend(options: Options, name: CloneName, *, lease: Lease) -> None:
    with on_all(options, "clone extend") as contexts:
        status = clone_lease.extend(contexts, name, lease_of(lease))
        zone = contexts[0].zone
    end = end_of(status.clone)
    said = f"the lease of {name} ends {local_text(end, zone)}" if end else f"the lease of {name} has no end"
    emit(options, "clone extend", json_shapes.clone(status), lambda: said)


def protect(options: Options, name: CloneName, *, until: Until) -> None:
    with on_all(options, "clone protect") as contexts:
        ctx = contexts[0]
        end = None if until == "now" else parse_time_to_come(until, ctx.zone, ctx.clock.now())
        status = clone_lease.protect(contexts, name, end)
    said = f"{name} is protected until {local_text(end, ctx.zone)}" if end else f"{name} is not protected"
    emit(options, "clone protect", json_shapes.clone(status), lambda: said)


HELP = """Dev clones, and the servers that restores made."""

LIST = """List the dev clones, and the servers that restores made.

\b
zbackup clone list
zbackup clone list --json
"""

SHOW = """Show all there is to know of one clone, and how to connect to it.

\b
zbackup clone show dev1
"""

DSN = """Print a dev clone's address with its login, as drivers take it.

It holds the password: mind where it goes.

\b
zbackup clone dsn dev1
"""

ENV = """Print a dev clone's address and login as environment variables for a shell.

\b
eval "$(zbackup clone env dev1)"; mysql --user="$MYSQL_USER"
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


HEADER = ("Name", "Instance", "As of", "Server", "Port", "Used", "Lease left", "Origin")
EXPENDABLE = (7, 6, 1, 5, 4)
LEGEND = "How to connect: zbackup clone show NAME"


def build() -> typer.Typer:
    """The clone commands."""
    app = typer.Typer(cls=CloneCommands, rich_markup_mode=None)
    app.callback(help=HELP)(common_options(between))
    for name, function, text in (
        ("create", clone_create.command, clone_create.HELP),
        ("list", list_, LIST),
        ("show", show, SHOW),
        ("dsn", dsn, DSN),
        ("env", env, ENV),
        ("reset", reset, RESET),
        ("snapshot", snapshot, SNAPSHOT),
        ("promote", promote, PROMOTE),
        ("extend", extend, EXTEND),
        ("protect", protect, PROTECT),
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
        ctx = contexts[0]
        now, zone = ctx.clock.now(), ctx.zone
    emit(
        options,
        "clone list",
        [json_shapes.clone(c) for c in found.clones],
        lambda: render(found, zone, now),
        beside={"unreadable": json_shapes.unreadable_clones(found.unreadable)},
    )


def show(options: Options, name: CloneName) -> None:
    with on_all(options, "clone show") as contexts:
        status = jobs.show(contexts, name)
        ctx = contexts[0]
        now, zone = ctx.clock.now(), ctx.zone
    emit(options, "clone show", json_shapes.clone(status), lambda: render_one(status, zone, now))


def dsn(options: Options, name: CloneName) -> None:
    with on_all(options, "clone dsn") as contexts:
        way = jobs.way_in(contexts, name)
    address = url(way.engine, way.port, way.login)
    emit(options, "clone dsn", {"name": name, "dsn": address}, lambda: address)


def env(options: Options, name: CloneName) -> None:
    with on_all(options, "clone env") as contexts:
        way = jobs.way_in(contexts, name)
    values = environment(way.engine, way.port, way.login)
    lines = [f"export {key}={command_line(value)}" for key, value in values.items()]
    emit(options, "clone env", {"name": name, "environment": values}, lambda: "\n".join(lines))


def stop(options: Options, name: CloneName) -> None:
    with on_all(options, "clone stop") as contexts:
        status = jobs.stop(contexts, name)
    emit(options, "clone stop", json_shapes.clone(status), lambda: f"{name} is stopped")


def start(options: Options, name: CloneName) -> None:
    with on_all(options, "clone start") as contexts:
        status = jobs.start(contexts, name)
    emit(options, "clone start", json_shapes.clone(status), lambda: f"{name} runs\n  {status.connect}")


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
    """Raise UsageError where nobody can answer, and Declined when the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("destroying a clone has to be confirmed: add --yes")
    if not typer.confirm(f"Destroy the clone {name} and its data?", err=True):
        raise Declined(f"the clone {name} stays: nothing was destroyed")


def render(found: CloneList, zone: ZoneInfo, now: datetime) -> str:
    """The clones for people."""
    unread = json_shapes.unreadable_lines(found.unreadable)
    rows = [_row(c, zone, now) for c in found.clones]
    listed = [tables.table(HEADER, rows, right=(4, 5), expendable=EXPENDABLE)] if rows else []
    listed += [LEGEND] if rows and sys.stdout.isatty() else []
    return prose.fold("\n".join([*listed, *unread])) or "There are no clones."


def render_one(status: CloneStatus, zone: ZoneInfo, now: datetime) -> str:
    """All there is to know of one."""
    clone = status.clone
    target = json_shapes.target_of(clone)
    facts = dict(zip(HEADER, _row(status, zone, now), strict=True)) | {
        "As of": local_text(target, zone) if target else "-",
        "Kind": clone.kind,
        "Made": local_text(clone.created, zone),
        "Parent": clone.parent or "-",
        "Masked": "yes" if clone.masked else "no",
        "Password": str(status.password or "as in production"),
        "Memory": tables.size(clone.memory) if clone.memory else "as recovered servers",
        "Accounts": _accounts(clone),
        "Started with host": "yes" if clone.on_boot else "no",
        "Reached": clone.reached or "-",
        "Dataset": status.dataset,
        "Socket": status.socket,
        "Connect with": status.connect if status.running else "- (zbackup clone start starts it)",
    }
    return tables.aligned([[name, value] for name, value in facts.items()])


def _accounts(clone: Clone) -> str:
    if not clone.login:
        return "production's"
    return "administrators" if clone.own_root else "developers'"


def _row(status: CloneStatus, zone: ZoneInfo, now: datetime) -> list[str]:
    clone = status.clone
    return [
        clone.name,
        clone.instance,
        local_text(target.replace(microsecond=0), zone) if (target := json_shapes.target_of(clone)) else "-",
        _server(status) + (", read only" if clone.read_only else ""),
        str(clone.port or "-"),
        tables.size(status.used),
        _lease(clone, now),
        "its own copy" if clone.copied else clone.parent or clone.backup,
    ]


def _server(status: CloneStatus) -> str:
    match status.clone.state:
        case "ready":
            return "running" if status.running else "stopped"
        case "building":
            return "unfinished"
        case state:
            return state


def _lease(clone: Clone, now: datetime) -> str:
    end = end_of(clone)
    if end is None:
        return "-"
    kept = " (protected)" if clone.protected and datetime.fromisoformat(clone.protected) > now else ""
    return (tables.length((end - now).total_seconds()) if end > now else "over") + kept
