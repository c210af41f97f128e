"""The clock readings that were taken with snapshots, by which the times in a log are bounded. Pure."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from zbackup.model.anchors import Anchor
from zbackup.model.backup import Backup
from zbackup.model.commit_times import Position, micros
from zbackup.model.log import position_of
from zbackup.model.record import Record
from zbackup.plan.recovery.coverage import log_known

END_OF_LOG: Final[Position] = (1 << 62, 0)

# ZFS knows whole seconds of a snapshot's making.
CREATED_WITHIN: Final = timedelta(seconds=1)


def anchors_of(backups: Sequence[Backup], base: Backup) -> tuple[Anchor, ...]:
    """One for each backup that holds the base's log, which is a binlog.

    The clock was read just before the snapshot: what is behind its log's end was not committed then. What is
    inside was committed before the snapshot was there.
    """
    if not log_known(base.record) or base.record.engine == "mongodb":
        return ()
    return tuple(
        Anchor(
            position=_position(backup.record.log_to),
            earliest=micros(backup.record.taken),
            latest=micros(max(backup.record.taken, backup.snapshots[0].created + CREATED_WITHIN)),
            clock=backup.record.clock,
            replica=backup.record.role == "replica",
            said=_said(backup.record),
        )
        for backup in backups
        if backup.complete
        and backup.finished
        and log_known(backup.record)
        and backup.record.log_id == base.record.log_id
    )


def _said(record: Record) -> int | None:
    """A replica's data are complete to the latest time in its log, and to when it was taken without any."""
    told = record.role == "replica" and record.complete_to not in (None, record.taken)
    return micros(record.complete_to) if told and record.complete_to else None


def _position(text: str) -> Position:
    """A file's base name may have numbers in it, too."""
    sequence, offset = position_of(text)[-2:]
    return sequence, offset
