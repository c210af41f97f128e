"""Take a backup right behind what cannot be replayed: until there is one, no later moment can be restored."""

from dataclasses import dataclass
from typing import Final

from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context, live_files
from zbackup.jobs.watch.window import live_stops
from zbackup.model.errors import ZbackupError
from zbackup.model.event_log import log
from zbackup.plan.recovery.coverage import log_known
from zbackup.plan.recovery.window import usable_bases

LONGEST_PAUSE: Final = 256
"""Looks: the better part of a day."""


@dataclass(slots=True)
class Renewals:
    """The attempts for one instance: for which transaction, how often, and how many looks to let pass.

    Each backup locks the server for a moment. Where one does not help, the next one waits twice as long.
    """

    stop: str = ""
    tried: int = 0
    pause: int = 0

    def is_due(self, stop: str) -> bool:
        """Whether a backup is to be taken now because of this transaction; it counts as tried then."""
        if stop != self.stop:
            self.stop, self.tried, self.pause = stop, 0, 0
        if self.pause:
            self.pause -= 1
            return False
        self.tried += 1
        self.pause = min(1 << self.tried, LONGEST_PAUSE)
        return True


def renew_base(ctx: Context, renewals: Renewals) -> bool:
    """Take a backup if the log behind the newest one cannot be replayed as a whole; tell whether one was
    taken.

    None is where one was taken since, even if that does not say which log it holds: another would not either.
    One that cannot be taken now is logged, and tried again in a later look, after ever longer pauses.
    """
    catalog = ctx.catalog()
    bases = usable_bases(catalog.backups)
    known = [b for b in bases if log_known(b.record)]
    if not known:
        return False
    newest = max(known, key=lambda b: b.createtxg)
    stops = live_stops(ctx, newest, live_files(catalog.datasets))
    later = [b for b in bases if b.createtxg > newest.createtxg]
    if not stops or any(b.record.taken > stops[-1].transaction.committed for b in later):
        return False
    if not renewals.is_due(stops[0].named):
        return False
    log.warning("replay.stopped", transaction=stops[0].named, why=stops[0].why)
    try:
        snapshot(ctx)
    except ZbackupError as failure:
        log.warning("replay.no_new_base", error=str(failure), pause_looks=renewals.pause)
        return False
    return True
