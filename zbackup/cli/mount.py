"""zbackup mount"""

import os
import pwd
from pathlib import Path
from typing import Annotated

import typer

from zbackup.cli import output
from zbackup.cli.options import Options
from zbackup.model.errors import NotFound, Refused, UsageError
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.log_dataset import LogDataset

HELP = """Mount datasets at their mountpoints, without following other users' symbolic links.

zfs mount follows symbolic links. If the server's user may write to a directory on the path, he can put a link
there and choose where root mounts the dataset. This command refuses such a path, and mounts nothing.

With --log-archive-of it creates the dataset of a log archive, ROOT/INSTANCE/log, if it does not exist, mounts
it below /var/lib/zbackup/log-archive, and makes USER its owner: the receiving user, or the daemon's.

\b
zbackup mount tank/mysql tank/mysql/log
zbackup mount tank/backups/db1/shop/log --log-archive-of zrecv
"""


def command(
    options: Options,
    datasets: Annotated[list[str], typer.Argument(metavar="DATASET...", help="The datasets, parents first.")],
    log_archive_of: Annotated[
        str,
        typer.Option(
            "--log-archive-of",
            metavar="USER",
            help="Set up the dataset as a log archive owned by this user.",
            show_default=False,
        ),
    ] = "",
) -> None:
    if os.geteuid() != 0:
        raise Refused("only root can mount: run zbackup mount as root")
    owner = _owner(log_archive_of) if log_archive_of else None
    if owner and any(name.count("/") < 2 or not name.endswith("/log") for name in datasets):
        raise UsageError("a log archive's dataset has to be named ROOT/INSTANCE/log")
    rows = [{"dataset": name, "mountpoint": str(_mount(name, owner))} for name in datasets]
    output.emit(
        options,
        "mount",
        rows,
        lambda: "\n".join(f"{row['dataset']} is mounted at {row['mountpoint']}" for row in rows),
    )


def _mount(name: str, owner: tuple[int, int] | None) -> Path:
    if owner:
        return LogDataset(home=name.removesuffix("/log"), name=name).prepare_for(owner)
    zfs = Zfs()
    zfs.mount(name)
    if at := zfs.mounted_below(name).get(name):
        return Path(at)
    raise Refused(f"{name} was mounted, and others unmounted it at once: stop what runs there")


def _owner(user: str) -> tuple[int, int]:
    """User and group id; of a number that is nobody's, root's group, which gets no rights. Raise NotFound."""
    try:
        found = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except KeyError:
        if user.isdecimal():
            return int(user), 0
        raise NotFound(f"there is no user {user} on this host") from None
    return found.pw_uid, found.pw_gid
