"""Take a backup right behind what cannot be replayed: until there is one, no later moment can be restored."""

import structlog

from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context, live_files
from zbackup.jobs.watch.window import live_stops
from zbackup.model.errors import ZbackupError
from zbackup.plan.recovery.coverage import log_known
from zbackup.plan.recovery.window import usable_bases

log = structlog.get_logger()


def renew_base(ctx: Context) -> bool:
    """Whether a backup was taken, because the log behind the newest one cannot be replayed as a whole.

    One that cannot be taken now is logged: the next look tries again.
    """
    catalog = ctx.catalog()
    bases = [b for b in usable_bases(catalog.backups) if log_known(b.record)]
    if not bases:
        return False
    newest = max(bases, key=lambda b: b.createtxg)
    stops = live_stops(ctx, newest, live_files(catalog.datasets))
    if not stops:
        return False
    log.warning("replay.stopped", transaction=stops[0].named, why=stops[0].why)
    try:
        snapshot(ctx)
    except ZbackupError as failure:
        log.warning("replay.no_new_base", error=str(failure))
        return False
    return True
