"""Tell where log is lost between what backups hold of it: the server purged it, and none that is left has it.
Pure.
"""

from collections.abc import Iterable
from datetime import datetime

from zbackup.model.backup import Backup
from zbackup.model.log import position_of
from zbackup.plan.recovery.coverage import Position


def lost_behind(newer: Backup, others: Iterable[Backup], until: datetime | None = None) -> Backup | None:
    """The backup behind whose log some is lost in front of this one's; None if there is none.

    That is the one of the same log that leads farthest, else the newest of the same server: its numbers, or
    times, go on when a log is taken for another one because of what is lost. Both have to be known to hold a
    log. None, too, where all that is wanted `until` then is in front of that.
    """
    before = in_front(newer, others)
    if before is None or (until and before.reaches(until)):
        return None
    lost = position_of(newer.record.log_from) > position_of(before.record.log_to)
    return before if lost else None


def newest(backups: Iterable[Backup], until: datetime | None = None) -> Backup | None:
    """The newest one, behind which log may be lost; None, too, where all that is wanted `until` then is in
    it."""
    found = max(backups, key=_age, default=None)
    return None if found and until and found.reaches(until) else found


def in_front(newer: Backup, others: Iterable[Backup]) -> Backup | None:
    """The backup in whose log that of the newer one should go on."""
    older = [b for b in others if b.createtxg < newer.createtxg]
    same_log = [b for b in older if b.record.log_id == newer.record.log_id]
    same_server = [b for b in older if b.record.server_uuid == newer.record.server_uuid]
    return max(same_log, key=_end, default=None) or max(same_server, key=_age, default=None)


def _end(backup: Backup) -> Position:
    return position_of(backup.record.log_to)


def _age(backup: Backup) -> tuple[int, Position]:
    return backup.createtxg, _end(backup)
