"""zbackup clone: reset, snapshot, promote, extend, protect"""

from typing import Annotated, Literal

import typer

from zbackup.cli import completion, json_shapes
from zbackup.cli.clone_create import lease_of
from zbackup.cli.command_context import on_all
from zbackup.cli.options import Options
from zbackup.cli.output import emit
from zbackup.jobs.dev_clones import lease as clone_lease
from zbackup.jobs.dev_clones import promote as clone_promote
from zbackup.jobs.dev_clones import reset as clone_reset
from zbackup.jobs.dev_clones import snapshot as clone_snapshot
from zbackup.model.moment import local_text, parse_time_to_come
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
