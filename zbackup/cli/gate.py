"""zbackup gate"""

from typing import Annotated

import typer

from zbackup.cli.at_the_gate import admit
from zbackup.cli.options import Options
from zbackup.model.errors import UsageError
from zbackup.plan.ship.gate import POWERS, Policy

HELP = """Let another host store its backups here, and do nothing else: the forced command of an ssh key.

On the host that receives, in ~/.ssh/authorized_keys of the user that receives:

\b
restrict,command="zbackup gate --root tank/backups/db1 --append-only" ssh-ed25519 AAAA... db1

Only what zbackup itself runs passes, only below the root, and what is committed there can neither be
destroyed nor changed with such a key. Everything else is refused with one line, and written to the machine's
log (authpriv). Needs no configuration. Without --append-only and --read-only the key may do both, and
destroy single snapshots: for a host that is trusted to prune its own backups.
"""


def command(
    options: Options,
    root: Annotated[
        str,
        typer.Option(
            "--root", metavar="DATASET", help="The key reaches this dataset and those below it alone."
        ),
    ],
    append_only: Annotated[
        bool, typer.Option("--append-only", help="Backups may be added and listed, no more.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Backups may be listed and fetched, no more.")
    ] = False,
) -> None:
    if append_only and read_only:
        raise UsageError("--append-only and --read-only cannot be combined: use one key for each")
    power = "--append-only" if append_only else "--read-only" if read_only else None
    if status := admit(Policy(root=root, powers=POWERS[power])):
        raise typer.Exit(status)
