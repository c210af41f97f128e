"""The last step of taking a backup: find out from the snapshot itself how far its data reaches.

It reads the snapshot, so it can be done again by whoever comes next when the one who took it was killed.
"""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.errors import (
    CommandFailed,
    DatasetNotFound,
    NotFound,
    NotRecoverable,
    Refused,
    VerificationFailed,
)
from zbackup.model.event_log import log
from zbackup.model.record import LOG_RESTARTS, TIMES_OUT_OF_ORDER, Record, from_properties, to_properties
from zbackup.model.retention import CONDEMNED
from zbackup.model.snapshot import Dataset

# In Record.server: how many tables there were that no crash recovery makes whole; not there for none.
NON_TRANSACTIONAL = "non_transactional"


def times_out_of_order(backups: Sequence[Backup]) -> tuple[str, ...]:
    """What was found so when backups were taken, each once, in a line for people."""
    lines = (line for b in backups for line in b.record.server.get(TIMES_OUT_OF_ORDER, "").splitlines())
    return tuple(dict.fromkeys(lines))


def finish(
    ctx: Context, backup: Backup, datasets: tuple[Dataset, ...], others: Sequence[Backup] = ()
) -> Backup:
    """Write down how far the backup reaches and which log it holds, and read it back.

    The log is that of the newest backup among `others` that is older, if that can be proven, else a new one.

    Raise VerificationFailed when the snapshot is not what was recorded; it must then be discarded.
    """
    record = backup.record
    where = backup.browse(datasets)
    before = _continued(ctx, backup, datasets, others)
    reach = ctx.log_reader.reach(record, where, backup.snapshots[0].created, before)
    finished = record.with_end(as_of=reach.as_of, complete_to=reach.complete_to)
    if reach.out_of_order:
        log.warning("snapshot.times_out_of_order", snapshot=backup.name, first=reach.out_of_order[0])
        remarks = {TIMES_OUT_OF_ORDER: "\n".join(reach.out_of_order)}
        finished = replace(finished, server=finished.server | remarks)
    if before:
        stops = ctx.log_reader.unreplayable(backup.files(datasets), before.log_to, base=before)
        finished = finished.with_unreplayable(stops)
        silent = ctx.log_reader.silence(before, backup.files(datasets))
        finished = finished.with_silences((*before.silences, *([silent] if silent else [])))
    if before is None and (lost := _lost_in_front(backup, others)):
        finished = replace(finished, server=finished.server | {LOG_RESTARTS: lost.log_break})
    finished = replace(finished, since=_since(backup, others) or reach.as_of)
    if span := ctx.log_reader.log_span(record, where, before):
        finished = finished.with_log(before.log_id if before else str(uuid.uuid4()), span)
    write_record(ctx, backup, finished)
    return Backup(record=finished, snapshots=backup.snapshots)


def _since(backup: Backup, others: Sequence[Backup]) -> datetime | None:
    """Handed on from backup to backup. Of those that do not say, their own data is what is known."""
    before = [b for b in others if b.finished and b.createtxg < backup.createtxg]
    known = [since for b in before if (since := b.record.since or b.record.as_of)]
    return min(known, default=None)


def _lost_in_front(backup: Backup, others: Sequence[Backup]) -> Backup | None:
    """The newest backup that lost a part and that no whole one follows but this."""
    older = [b for b in others if b.createtxg < backup.createtxg and (b.lost_parts or b.complete)]
    newest = max(older, key=lambda b: b.createtxg, default=None)
    return newest if newest and newest.lost_parts else None


def _continued(
    ctx: Context, backup: Backup, datasets: tuple[Dataset, ...], others: Sequence[Backup]
) -> Record | None:
    """The record of the newest older backup whose log is proven to go on here: a log has one identity."""
    for before in _ends_of_logs(backup, others):
        try:
            if ctx.log_reader.is_same_log(before.files(datasets), backup.files(datasets)):
                return before.record
        except (Refused, OSError) as unreadable:
            # Nothing is proven then, but the backup at hand is whole: it begins a log of its own.
            ctx.progress.note(f"{before.name} cannot be compared with {backup.name}: {unreadable}")
    return None


def _ends_of_logs(backup: Backup, others: Sequence[Backup]) -> list[Backup]:
    """The newest older backup, and the newest of each other log of the same server; newest first.

    None behind a backup that lost a part: the data was rolled back, and the log may have kept both histories.
    None where the server's log was not whole when the newest of all was taken, or is not now: what was
    committed meanwhile is in no log, so whatever follows is another.

    Only where they lie on the datasets of this one. After a switch a server goes on from a copy of the log of
    the one before, which went on by itself: the newest backup of that is aside then. After the way back it is
    here again, and what is newer, of the time in between, is not.
    """
    here = {s.dataset for s in backup.snapshots}
    before = [b for b in others if b.createtxg < backup.createtxg]
    breaks = [
        b.createtxg
        for b in before
        if (b.record.breaks_log or b.record.log_ended or b.lost_parts)
        and any(s.dataset in here for s in b.snapshots)
    ]
    if backup.record.breaks_log:
        return []
    older = [b for b in before if b.complete and b.record.log_id and b.createtxg > max(breaks, default=0)]
    newest = {b.record.log_id: b for b in sorted(older, key=lambda b: b.createtxg)}
    ends = sorted(newest.values(), key=lambda b: b.createtxg, reverse=True)
    return [
        end
        for end in ends
        if any(s.dataset in here for s in end.snapshots)
        and (end is ends[0] or end.record.server_uuid == backup.record.server_uuid)
    ]


def finish_all(
    ctx: Context, datasets: tuple[Dataset, ...], backups: tuple[Backup, ...]
) -> tuple[Backup, ...]:
    """The same backups, with those finished that an earlier run left behind; what proves bad is discarded."""
    result: list[Backup] = []
    for backup in backups:
        if backup.finished or not backup.complete:
            result.append(backup)
            continue
        try:
            require_confirmed(backup.record)
            result.append(finish(ctx, backup, datasets, result))
        except VerificationFailed as bad:
            ctx.progress.note(f"{backup.name} was left behind by a killed run and is discarded: {bad}")
            discard(ctx, backup)
        except (NotRecoverable, Refused, OSError) as unreadable:
            # It must not keep others from being taken.
            ctx.progress.note(f"{backup.name} cannot be finished: {unreadable}")
            result.append(backup)
    return tuple(result)


def require_confirmed(record: Record) -> None:
    """Raise VerificationFailed when tables may be torn in the snapshot, and nothing would show it.

    A `zfs snapshot` that hangs goes on when whoever gave it is killed, but his lock is gone at once. That the
    log did not move since proves nothing for a table without transactions: a statement is written to the
    log when it has ended. How long the lock was held is written down once it was seen to have lasted.
    """
    if record.lock != "none" and record.lock_held_ms is None and record.server.get(NON_TRANSACTIONAL):
        raise VerificationFailed(
            f"it is unknown whether the lock {record.lock} lasted until the snapshot was taken, and tables "
            f"without transactions ({record.server[NON_TRANSACTIONAL]}) may be inconsistent: take another"
        )


def write_record(ctx: Context, backup: Backup, finished: Record) -> None:
    """Write this down as the backup's record; on the first member last, whose is the one that counts.

    Raise VerificationFailed when it is not there then.
    """
    stored_now = dict(backup.snapshots[0].properties)
    changed = {key: value for key, value in to_properties(finished).items() if stored_now.get(key) != value}
    for snapshot in reversed(backup.snapshots):
        ctx.zfs.set_properties(str(snapshot), changed)
    first = backup.snapshots[0]
    stored = ctx.zfs.snapshot_named(str(first))
    try:
        read_back = stored and stored.guid == first.guid and from_properties(dict(stored.properties))
    except ValueError as unreadable:
        raise VerificationFailed(f"{first} cannot be read back: {unreadable}") from unreadable
    if read_back != finished:
        raise VerificationFailed(f"{first} does not hold what was written to it")


def discard(ctx: Context, backup: Backup) -> None:
    """Destroy the snapshots of a backup that must not be trusted: exactly those, one by one.

    With marks as prune makes one: what is left of it, should this be cut short, was not lost by a rollback.
    """
    for snapshot in backup.snapshots if len(backup.snapshots) > 1 else ():
        with suppress(DatasetNotFound, NotFound, CommandFailed):
            ctx.zfs.mark_snapshot(snapshot, CONDEMNED, ctx.clock.now().isoformat())
    for snapshot in reversed(backup.snapshots):
        try:
            ctx.zfs.destroy_snapshot(snapshot)
        except (DatasetNotFound, NotFound):
            continue
        except CommandFailed as failure:
            ctx.progress.note(f"{snapshot} must not be used but could not be destroyed: {failure}")
            continue
        log.warning("snapshot.discarded", snapshot=str(snapshot))
