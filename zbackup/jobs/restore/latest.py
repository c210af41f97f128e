"""Targets that are found among the backups: the latest moment there is, and a backup's own."""

from collections.abc import Sequence

from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.moment import Moment, parse_moment
from zbackup.model.target import BackupAsItIs
from zbackup.plan.recovery.as_it_is import find_backup, latest_as_it_is

LATEST = "latest"
"""What is asked for to have all there is: at a destination what arrived, here what is in the server's log."""


def latest_here(ctx: Context) -> Moment:
    """Now, to which the server's own log leads; where it keeps none, the newest backup's own moment."""
    if alone := latest_as_it_is(ctx.catalog().backups):
        return Moment(alone, LATEST, ctx.zone)
    now = parse_moment("now", ctx.zone, ctx.clock.now())
    return Moment(now.at, LATEST, ctx.zone, is_now=True)


def backup_here(ctx: Context, name: str) -> BackupAsItIs:
    """The backup of that name on this host, as it is. Raise NotFound or NotRecoverable."""
    return as_it_is(name, ctx.catalog().backups)


def as_it_is(name: str, backups: Sequence[Backup], shown: str = "zbackup list") -> BackupAsItIs:
    """The backup of that name, as it is. Raise NotFound or NotRecoverable."""
    record = find_backup(name, backups, shown).record
    return BackupAsItIs(name, record.as_of or record.taken)
