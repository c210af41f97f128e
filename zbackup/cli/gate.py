"""zbackup gate"""

import os
from typing import Annotated

import typer

from zbackup.cli.options import Options
from zbackup.jobs.gate import gate
from zbackup.model.errors import UsageError
from zbackup.plan.gate import Policy, Power
from zbackup.proc.become import forget_environment

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
    root: Annotated[str, typer.Option("--root", metavar="DATASET", help="Nothing outside of it is reached.")],
    append_only: Annotated[
        bool, typer.Option("--append-only", help="Backups may be added and listed, no more.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Backups may be listed and fetched, no more.")
    ] = False,
) -> None:
    policy = Policy(root=root, powers=_powers(append_only=append_only, read_only=read_only))
    line = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    client = os.environ.get("SSH_CONNECTION", "nobody from").split()[0]
    forget_environment()
    status = gate(line, policy, client)
    if status:
        raise typer.Exit(status)


def _powers(*, append_only: bool, read_only: bool) -> frozenset[Power]:
    if append_only and read_only:
        raise UsageError("--append-only and --read-only exclude each other: give each its own key")
    if append_only:
        return frozenset({"receive"})
    return frozenset({"read"}) if read_only else frozenset({"receive", "read", "destroy"})
