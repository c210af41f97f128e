"""End what `zbackup snapshot --keep` asked for: from then on the retention policy alone keeps the backup."""

from dataclasses import replace

from zbackup.jobs.backup.complete_record import write_record
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound
from zbackup.model.event_log import log

MOST_NAMED = 10


def find_kept(ctx: Context, named: str) -> list[Backup]:
    """The backup of this name, else those with this label, kept until a date to come; looks only.

    Raise NotFound, with those that are kept, where there is none.
    """
    now = ctx.clock.now()
    kept = [b for b in ctx.catalog().backups if (end := b.record.keep_until) and end > now]
    found = [b for b in kept if b.name == named] or [b for b in kept if b.record.label == named]
    if not found:
        names = [f"{b.name} ({b.record.label})" if b.record.label else b.name for b in kept]
        more = ", ..." if len(names) > MOST_NAMED else ""
        there = f"kept are {', '.join(names[:MOST_NAMED])}{more}" if names else "none is kept"
        raise NotFound(f"no backup of {ctx.instance} named or labelled {named} is kept until a date: {there}")
    return found


def end_keep(ctx: Context, named: str) -> list[Backup]:
    """Take the dates off those backups; labels stay. Returns the backups as they were. Raise as find_kept().

    Copies at destinations stay as they are: what is committed there is changed by nobody.
    """
    with ctx.instance_lock("zbackup release"):
        found = find_kept(ctx, named)
        for backup in found:
            write_record(ctx, backup, replace(backup.record, server=backup.record.without_date))
            log.info("keep.ended", backup=backup.name, label=backup.record.label)
    return found
