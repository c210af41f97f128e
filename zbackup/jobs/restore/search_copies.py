"""Search the log in the backups at a destination: of each only the datasets are fetched that hold the log."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from zbackup.catalog.local import Catalog
from zbackup.destinations.base import Session
from zbackup.destinations.copies import Copies
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.temporary import own_name, take_away
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.restore.archived_log import DAMAGED, log_members, with_archived_log
from zbackup.jobs.restore.at_destination import at_destination, clone_at_destination
from zbackup.jobs.restore.fetch import fetch
from zbackup.jobs.restore.make_plan import note_unreadable
from zbackup.jobs.restore.search_log import EntryOrRead, in_one_backup, sooner
from zbackup.jobs.ship.archived import ArchivedCopies, archived_copies, require_readable_log
from zbackup.jobs.ship.remote_holds import remote_holds
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable
from zbackup.model.log_entry import LogFilter, LogRead
from zbackup.plan.clones.clone_name import copy_name, search_names
from zbackup.plan.recovery.before_transaction import covering, with_known_log
from zbackup.plan.recovery.lost_log import lost_behind


def search_copies(ctx: Context, destination: ShipDestination, wanted: LogFilter) -> Iterator[EntryOrRead]:
    """See search_log, of what the backups at a destination hold.

    Where they are on this host, clones of them are read; else they are fetched. Both are gone afterwards.
    Raise NotRecoverable where no backup there holds a log.
    """
    with destination.adapter.connect() as session:
        there = archived_copies(session, session.copies().to_restore())
        note_unreadable(ctx, there.copies.unreadable)
        lacking = _lacking(destination, there, wanted)
        held = _holding(there.with_holders)
        backups = _needed(held, wanted)
        if not (backups or lacking):
            raise NotRecoverable(f"no backup at {destination.adapter.address} holds a log")
        if wanted.backwards:
            yield from lacking
        ends: dict[str, str] = {}
        for backup in sooner(backups, wanted):
            known = "" if wanted.backwards else ends.get(backup.record.log_id, "")
            before = lost_behind(backup, held, wanted.until)
            follows, ended = (before.record.log_to, before.record.complete_to) if before else ("", None)
            asked = replace(wanted, after=known, follows=follows, ended=ended)
            with _brought(ctx, destination, session, there, backup) as (at, catalog, name):
                damaged = _damaged(catalog.backups[-1])
                if wanted.backwards:
                    yield from damaged
                for each in in_one_backup(at, catalog, catalog.backups[-1], asked, name):
                    if isinstance(each, LogRead):
                        ends[backup.record.log_id] = each.end or known
                    yield each
                if not wanted.backwards:
                    yield from damaged
        if not wanted.backwards:
            yield from lacking


def _lacking(destination: ShipDestination, there: ArchivedCopies, wanted: LogFilter) -> list[LogRead]:
    """The archived log that could not be looked at: it may hold the newest of what is wanted."""
    backups = there.copies.backups
    if not there.unknown or (wanted.until and any(b.reaches(wanted.until) for b in backups)):
        return []
    said = f"the log archive at {destination.adapter.address} was not read: {there.unknown}"
    return [LogRead(name=destination.adapter.address, size=0, end="", problem=said)]


def _damaged(brought: Backup) -> list[LogRead]:
    """The archived log that cannot be read: the same may be in it."""
    why = brought.record.server.get(DAMAGED, "")
    said = f"archived log was not read: {why}"
    return [LogRead(name=brought.record.called, size=0, end="", problem=said, damaged=True)] if why else []


def _holding(copies: Copies) -> list[Backup]:
    """The fewest backups of each log that hold all that any does."""
    holders = with_known_log(copies.backups)
    found: list[Backup] = []
    for log_id in dict.fromkeys(b.record.log_id for b in holders):
        found += covering([b for b in holders if b.record.log_id == log_id])
    return found


def _needed(held: Sequence[Backup], wanted: LogFilter) -> list[Backup]:
    """Leave out those that are from before what is wanted."""
    return [b for b in held if not wanted.since or _until(b) >= wanted.since]


def _until(backup: Backup) -> datetime:
    """Up to when there may be something in its log. With archived log that is later than it was taken."""
    return max(backup.record.taken, backup.record.complete_to or backup.record.taken)


@contextmanager
def _brought(
    ctx: Context, destination: ShipDestination, session: Session, there: ArchivedCopies, backup: Backup
) -> Iterator[tuple[Context, Catalog, str]]:
    """The datasets of the backup that hold the log, on this host, with what was archived behind it; the
    context in which they can be cloned, and the name for that."""
    subject, carrier = _of_log(there.real(backup)), there.carrier(backup)
    require_readable_log(session, carrier)
    here = bool(destination.adapter.here)
    at = at_destination(ctx, destination) if here else ctx
    with own_name(at, search_names(ctx.instance), "zbackup log") as name:
        others = _copy_id(at, name)
        try:
            with remote_holds(at, destination, session, name, there.copies, (subject,)):
                if here:
                    catalog = clone_at_destination(at, name, subject, subject)
                else:
                    catalog = fetch(at, session, name, subject, subject, destination.limit)
                others = ""
                if carrier:
                    catalog = with_archived_log(at, session, name, catalog, carrier, destination.limit)
                yield at, catalog, name
        finally:
            found = clone_datasets.find_clone(at, copy_name(name))
            if found and found[0].id != others:
                take_away(at, found[0], keep=False)


def _copy_id(ctx: Context, name: str) -> str:
    """The id of what is there under the name before anything is made; "" if nothing is."""
    found = clone_datasets.find_clone(ctx, copy_name(name))
    return found[0].id if found else ""


def _of_log(backup: Backup) -> Backup:
    """The backup with those of its datasets alone that the log is on; with all where they are not known."""
    kept = log_members(backup.record)
    members: Sequence[tuple[str, str]] = [backup.record.members[n] for n in kept]
    record = replace(backup.record, members=tuple(members))
    return Backup(record=record, snapshots=tuple(backup.snapshots[n] for n in kept))
