"""Decide which archived log no backup at a destination needs any more. Pure.

Archived log is kept as long as a backup that it goes on from, and never longer. What goes on from no backup
yet is kept while one may still arrive that it goes on from: backups arrive in the order in which they were
taken.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from zbackup.model.archive import ArchivedFile, server_key
from zbackup.model.backup import Backup
from zbackup.plan.recovery.archived import begins_for
from zbackup.plan.recovery.coverage import log_known


def superseded(
    files: Sequence[ArchivedFile], kept: Sequence[Backup], now: datetime, grace: timedelta
) -> tuple[ArchivedFile, ...]:
    """The archived files that none of the `kept` backups needs, the oldest first.

    Only those that were written last more than `grace` before one of the kept backups of the same server was
    taken, and of no server the newest: it may still grow.
    """
    wanted = needed(files, kept)
    newest = {f.file.server: f for f in sorted(files, key=lambda f: f.file)}
    going = (
        f
        for f in files
        if f not in wanted
        and newest[f.file.server] is not f
        and any(_is_behind(backup, f, now, grace) for backup in kept)
    )
    return tuple(sorted(going, key=lambda f: (f.last.read, f.file)))


def needed(files: Sequence[ArchivedFile], kept: Iterable[Backup]) -> set[ArchivedFile]:
    """All files that may lead on from a backup, in each epoch that it may be of: nobody compared bytes."""
    found: set[ArchivedFile] = set()
    waiting = [f for b in kept if log_known(b.record) for f in begins_for(b.record, files)]
    following: dict[tuple[str, int, int | None], list[ArchivedFile]] = {}
    for each in files:
        file = each.file
        following.setdefault((file.server, file.number - 1, file.follows), []).append(each)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += following.get((each.file.server, each.file.number, each.file.epoch), ())
    return found


def _is_behind(backup: Backup, archived: ArchivedFile, now: datetime, grace: timedelta) -> bool:
    """Whether the backup was taken so long after the file was written last that every backup which is
    yet to arrive is, too."""
    taken = backup.record.taken
    return (
        backup.complete
        and backup.finished
        and server_key(backup.record.server_uuid) == archived.file.server
        and archived.last.read + grace < taken <= now
    )
