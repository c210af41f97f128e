"""The name of an archiver: one at random for each host that has the instance, which tells two apart.

Two hosts can have the server of one identity: a machine that was cloned, one that was restored elsewhere
while the first still runs, or MariaDB servers that nobody gave another server_id. Each goes its own way; in
one epoch of an archive there is one.
"""

import secrets
from typing import Final

from zbackup.destinations.base import Archiving
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.archive import WRITER
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused, Taken
from zbackup.model.record import PREFIX
from zbackup.proc.lock import exclusive

ARCHIVER: Final = f"{PREFIX}archiver"
"""On an instance's first dataset, set there: no stream brings it to another host."""
_MOST_SKIPPED: Final = 100
_WAIT_S: Final = 30


def writer_of(ctx: Context) -> str:
    """Return the name by which this host archives the instance's log, and write it down where it has none."""
    dataset = ctx.datasets[0]
    with exclusive(ctx.shared / f"{ctx.instance}.archiver.lock", "zbackup archive", wait=_WAIT_S):
        found = ctx.zfs.own_settings(dataset).get(ARCHIVER, "")
        if not WRITER.fullmatch(found):
            found = secrets.token_hex(16)
            ctx.zfs.set_properties(dataset, {ARCHIVER: found})
    return found


def free_epoch(session: Archiving, server: str, newest: int, writer: str) -> int:
    """Take the first epoch behind the newest that nobody else has. Raise Refused when there is none."""
    for epoch in range(newest + 1, newest + 1 + _MOST_SKIPPED):
        if session.claim_log(server, epoch, writer) == writer:
            return epoch
    raise Refused(f"the {_MOST_SKIPPED} epochs behind {newest} of {server} are others' already")


def taken(ctx: Context, destination: ShipDestination, epoch: int) -> Taken:
    """The error where another archives the epoch."""
    return Taken(
        f"the log archive of {ctx.instance} at {destination.adapter.address} is another host's (epoch "
        f"{epoch}), which may still write to it: when that host is gone, or should not archive there, "
        f"{command_line('zbackup', 'archive', ctx.instance, '--take-over')} begins a new epoch for this one"
    )
