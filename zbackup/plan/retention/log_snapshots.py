"""Which log-only snapshots, taken by restores to read the log from, nobody needs any more. Pure."""

from collections.abc import Collection, Sequence

from zbackup.model.backup import Backup
from zbackup.plan.recovery.coverage import continues, first_break, log_known
from zbackup.plan.recovery.window import moment_bases


def replaced(backups: Sequence[Backup], pinned: Collection[str] = ()) -> list[Backup]:
    """Those that every restore can do without, oldest first. `pinned` are kept for other reasons.

    Behind a log-only snapshot there is a backup that continues the last base in front of it: what came after
    that base is reached from the two, and what came before it is in that base's own log.
    """
    whole = sorted((b for b in backups if b.complete and b.finished), key=lambda b: b.createtxg)
    bases = moment_bases(whole)
    return [
        b
        for b in whole
        if b.record.purpose == "log"
        and b.record.backup not in pinned
        # It says that a server was stopped for a switch, which explains a gap.
        and not b.record.stopped_for
        and all(s.dataset in dict(b.record.members) for s in b.snapshots)
        and _is_replaced(b, bases, whole)
    ]


def _is_replaced(log: Backup, bases: Sequence[Backup], whole: Sequence[Backup]) -> bool:
    before = [b for b in bases if b.createtxg < log.createtxg and log_known(b.record)]
    if not before or not _of_one_log(log, before[-1]):
        return False
    base, end = before[-1], log.record.complete_to
    return end is not None and any(
        newer.createtxg > log.createtxg
        and continues(newer, base)
        and newer.reaches(end)
        and first_break(base, newer, whole) is None
        for newer in whole
    )


def _of_one_log(log: Backup, base: Backup) -> bool:
    """MongoDB's log-only snapshots do not say which log they hold, but of which server they are."""
    one, other = log.record, base.record
    if log_known(one):
        return one.log_id == other.log_id
    return one.server_uuid == other.server_uuid
