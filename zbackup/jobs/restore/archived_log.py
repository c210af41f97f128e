"""Make a holder of the log out of a backup and what was archived of the log behind it.

<clones>/<name>.copy/N     what was fetched, and read-only (see jobs.restore.fetch)
<clones>/<name>.copy/M     clones of those members that the log is on, with the archived files in it
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from zbackup.catalog.local import Catalog
from zbackup.destinations.base import Archiving, Session
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.context import Context
from zbackup.jobs.ship.archived import bytes_in_backup, parted
from zbackup.model.added_log import AddedFile, ContainsPositions, NotContinued
from zbackup.model.archive import LogFileId
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.clone import Clone
from zbackup.model.errors import NotFound, NotRecoverable, Refused, VerificationFailed
from zbackup.model.event_log import log
from zbackup.model.log import LogSpan
from zbackup.model.moment import local_text
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation, owner_of
from zbackup.model.snapshot import Dataset, Snapshot
from zbackup.plan.clones.clone_name import copy_name
from zbackup.plan.recovery.archived import (
    Carrier,
    Chain,
    chain_complete,
    chains_from,
    with_archive,
)
from zbackup.proc.pipeline import Meter

ADDED = "zbackup:archived_log"
"""On a dataset of a copy: the copy's id, for what archived log was put into."""

LOG_PATHS = ("log_bin_basename", "log_bin_index")
ADDED_AT = (*LOG_PATHS, "dbpath")
"""The facts of a record that say where archived log is put."""
DAMAGED = "archive_damaged"
"""The name in a record's `server` of the reason why a holder's archived log is not all that there is."""
SNAPSHOT_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class ArchiveWish:
    """The moment up to which archived log is wanted, if that is all of it, and the epoch that was chosen; and
    the record of the backup that it is to continue."""

    at: datetime
    base: Record
    all: bool = False
    epoch: int | None = None


@dataclass(slots=True)
class _Damage:
    """The position at which archived log proved to be damaged: which of the tried chain's files, and how much
    of that is good."""

    chain: Chain | None = None
    why: VerificationFailed | None = None
    number: int = 0
    good: int = 0


def with_archived_log(
    ctx: Context,
    session: Session,
    name: str,
    catalog: Catalog,
    carrier: Carrier,
    limit: int = 0,
    wish: ArchiveWish | None = None,
) -> Catalog:
    """The catalogue of what was fetched for the recovery `name`, and one more holder of the log, its last.

    The carrier's backup is the newest of the catalogue. `limit` is in bytes a second, 0 for none. Raise
    NotRecoverable when nothing that is archived continues it: then nothing of this is there. Raise Refused
    where archived log leads two ways to what is wished, and nobody said which.

    What is damaged counts no more, and what lies behind it. Raise VerificationFailed where all is wished, and
    NotFound where what was chosen is removed meanwhile: who may not hold backups there keeps no prune away.
    """
    if not isinstance(session, Archiving):
        raise AssertionError("archived log was planned with, of a destination that knows none")
    found = clone_datasets.find_clone(ctx, copy_name(name))
    if found is None:
        raise NotFound(f"what was fetched for {name} is gone")
    clone, container = found
    backup = catalog.backups[-1]
    drop_added(ctx, container)
    clone_datasets.describe(ctx, replace(clone, state="building"))
    lacking: dict[str, str] = {}
    try:
        carrier = _as_it_is_now(session, carrier, wish.epoch if wish else None)
        carrier = carrier.since(wish.base if wish else backup.record)
        while True:
            parts = _cloned(ctx, clone, container, backup)
            files, damage = _files(ctx, backup, catalog, parts), _Damage()
            try:
                chain, complete, span = _added(ctx, session, files, carrier, Meter(limit=limit), damage)
                break
            except VerificationFailed as failure:
                _require_still_there(session, damage)
                known = carrier.chains
                carrier = _before(ctx, carrier, damage, failure, wish)
                if carrier.chains[0] not in known or not isinstance(failure, NotContinued):
                    lacking = {DAMAGED: str(failure)}
                drop_added(ctx, container)
        if wish and wish.epoch is None:
            _require_one_way(ctx, session, carrier, chain, wish.at, files)
    except (NotFound, NotRecoverable, Refused):
        drop_added(ctx, container)
        clone_datasets.mark_ready(ctx, clone)
        raise
    record = with_archive(backup.record, span, complete)
    extended = _extended(ctx, clone, backup, parts, replace(record, server=record.server | lacking))
    clone_datasets.mark_ready(ctx, clone)
    log.info("restore.log_added", backup=backup.name, upto=span.last, files=len(chain.files))
    datasets = {d.name: d for d in (*catalog.datasets, *_datasets(ctx, parts))}
    return replace(catalog, datasets=tuple(datasets.values()), backups=(*catalog.backups, extended))


def _as_it_is_now(session: Archiving, carrier: Carrier, epoch: int | None) -> Carrier:
    """The same with what was archived while the backup was fetched; that may have been folded meanwhile."""
    files = [f for f in session.archived().files if epoch is None or f.file.epoch <= epoch]
    chains = chains_from(carrier.backup.record, files)
    return replace(carrier, chains=chains) if chains else carrier


def archived_bytes(carrier: Carrier) -> int:
    """Bytes of log that would be fetched."""
    return max(0, sum(each.size for each in carrier.chains[0].files) - bytes_in_backup(carrier))


def _added(
    ctx: Context,
    session: Archiving,
    files: BackupFiles,
    carrier: Carrier,
    meter: Meter,
    damage: _Damage,
) -> tuple[Chain, datetime | None, LogSpan]:
    """Put in the first of the chains that proves to continue the backup, which is proven to be complete up to
    that moment. Raise what the first one says."""
    why: NotRecoverable | None = None
    for chain in carrier.chains:
        ctx.progress.phase("fetching the archived log", f"up to {chain.end}")
        damage.chain = chain
        try:
            complete = _proven(session, chain)
            span = ctx.recovery.add_log(files, _to_add(session, chain, meter, damage), ctx.progress)
            return chain, complete, span
        except NotContinued as failure:
            damage.why, damage.number, damage.good = failure, failure.index, 0
            raise
        except NotRecoverable as failure:
            why = why or failure
    raise why or NotRecoverable("nothing that is archived continues the backup")


def _proven(session: Archiving, chain: Chain) -> datetime | None:
    """The time up to which the chain is proven; None of a file that is cut, of which nobody says it."""
    return chain_complete(chain.files, lambda f: session.proven_to(f) if f.complete_to else None)


def _to_add(session: Archiving, chain: Chain, meter: Meter, damage: _Damage) -> list[AddedFile]:
    def reader(number: int, file: LogFileId) -> Callable[[int, int], Iterator[bytes]]:
        def read(begin: int, end: int) -> Iterator[bytes]:
            good = begin
            try:
                for chunk in session.read_log(file, begin, end, meter):
                    yield chunk
                    good += len(chunk)
            except VerificationFailed as failure:
                damage.why, damage.number, damage.good = failure, number, good
                raise

        return read

    return [
        AddedFile(
            name=f.file.name,
            size=f.size,
            read=reader(number, f.file),
            end="" if chain.cut_off and number == len(chain.files) - 1 else str(f.end_position or ""),
        )
        for number, f in enumerate(chain.files)
    ]


def _require_still_there(session: Archiving, damage: _Damage) -> None:
    """Raise NotFound for a file that is not listed any more."""
    if damage.chain is None:
        return
    archived = session.archived()
    wanted, listed = damage.chain.files[damage.number].file, {each.file for each in archived.files}
    if wanted not in listed:
        raise NotFound(
            f"{wanted} was removed from the log archive at {archived.address} meanwhile, by a prune there or "
            "by hand: the same command chooses again"
        )


def _before(
    ctx: Context, carrier: Carrier, damage: _Damage, failure: VerificationFailed, wish: ArchiveWish | None
) -> Carrier:
    """The same with the archived log up to where it is damaged. Raise the failure where that will not do."""
    if damage.chain is None or damage.why is not failure:
        raise failure
    begin = bytes_in_backup(carrier)
    others = tuple(c for c in carrier.chains if c is not damage.chain)
    few = damage.number == 0 and damage.good <= begin
    cut = None if few else damage.chain.cut(damage.number, damage.good)
    if cut is None:
        if not others:
            raise failure
        # What does not go on from the backup is of another log, and nothing is lacking.
        if not isinstance(failure, NotContinued):
            epoch = damage.chain.files[0].file.epoch
            ctx.progress.note(f"archived log of epoch {epoch} does not count: {failure}")
        return replace(carrier, chains=others)
    known = [each for each in (cut.complete_to, carrier.backup.record.complete_to) if each]
    upto = f" up to {local_text(max(known), ctx.zone)}" if known else ""
    if wish and wish.all:
        failure.args = (f"{failure}; what is archived in front of that leads{upto} (--to that)",)
        raise failure
    ctx.progress.note(f"archived log counts{upto} only: {failure}")
    return replace(carrier, chains=(cut, *others))


def _require_one_way(
    ctx: Context, session: Archiving, carrier: Carrier, chain: Chain, at: datetime, files: BackupFiles
) -> None:
    """Raise Refused where the moment lies behind a position at which archived log goes two ways."""
    if isinstance(ctx.recovery, ContainsPositions):
        _require_one_history(ctx, ctx.recovery, carrier, chain, at, files)
        return
    for found, common in parted(session, carrier, chain):
        if not (common and at <= common):
            before = f", or restore to {local_text(common, ctx.zone)} or before" if common else ""
            raise Refused(
                f"the log was archived two ways from {found.name} on: in epoch {found.epoch} up to "
                f"{chain.end}, in epoch {found.other} up to {found.end}: the server's "
                "log was cut off or replaced there, or somebody else wrote one of them; say which counts "
                f"with --epoch {found.epoch} or --epoch {found.other}{before}"
            )


def _require_one_history(
    ctx: Context,
    recovery: ContainsPositions,
    carrier: Carrier,
    chain: Chain,
    at: datetime,
    files: BackupFiles,
) -> None:
    """The same of an oplog: who has the entry that another way ends with has all of that way."""
    own = chain.files[-1].file.epoch
    ways = (*chain.forks, *(each.files for each in carrier.chains))
    # Each file that is asked for is read: not those of the way that counts.
    for way in [each for each in ways if each[-1].file.epoch != own]:
        parted = [f for f in way if not recovery.contains(files, f.end)]
        common = [f.complete_to for f in way if f not in parted and f.complete_to]
        common += [each for each in (carrier.backup.record.complete_to,) if each]
        if parted and not (common and at <= max(common)):
            before = f", or restore to {local_text(max(common), ctx.zone)} or before" if common else ""
            raise Refused(
                f"the oplog was archived two ways behind {parted[0].file.begin}: in epoch {own} up to "
                f"{chain.end}, in epoch {way[-1].file.epoch} up to {way[-1].end}: what was archived was "
                "rolled back, or somebody else wrote one of them; say which counts with "
                f"--epoch {own} or --epoch {way[-1].file.epoch}{before}"
            )


def log_members(record: Record, facts: Sequence[str] = LOG_PATHS) -> list[int]:
    """The numbers of the members that the log is on; all where that is not known."""
    mounts = [mountpoint for _, mountpoint in record.members]
    facts = ("plain_log",) if record.server.get("plain_log") else facts
    paths = [path for each in facts if (path := record.server.get(each, ""))]
    owners = {owner_of(path, mounts) for path in paths}
    return [n for n, mount in enumerate(mounts) if mount in owners] or list(range(len(mounts)))


def drop_added(ctx: Context, container: Dataset) -> None:
    """Destroy what an earlier run put archived log into: it is made again each time."""
    marks = ctx.zfs.user_properties(container.name)
    added = [d for d in ctx.zfs.filesystems(container.name) if ADDED in marks.get(d.name, {})]
    ctx.zfs.require_unused([d.name for d in added])
    for dataset in added:
        for snapshot in ctx.zfs.snapshots(dataset.name):
            ctx.zfs.destroy_snapshot(snapshot)
        ctx.zfs.destroy_filesystem(dataset)


def _cloned(ctx: Context, clone: Clone, container: Dataset, backup: Backup) -> dict[int, str]:
    """Member -> dataset, for those that the log is on: writable clones."""
    names = (d.name.rpartition("/")[2] for d in ctx.zfs.filesystems(container.name))
    free = max((int(each) for each in names if each.isdecimal()), default=-1) + 1
    wanted = log_members(backup.record, ADDED_AT)
    parts = {member: f"{container.name}/{free + n}" for n, member in enumerate(wanted)}
    ctx.zfs.clone_each(
        {parts[member]: backup.snapshots[member] for member in wanted},
        {**CLONE_PROPERTIES, clone_datasets.PART: clone.id, ADDED: clone.id},
    )
    for part in parts.values():
        ctx.zfs.mount(part)
    return parts


def _datasets(ctx: Context, parts: Mapping[int, str]) -> list[Dataset]:
    return [d for part in parts.values() for d in ctx.zfs.filesystems(part)]


def _files(ctx: Context, backup: Backup, catalog: Catalog, parts: Mapping[int, str]) -> BackupFiles:
    """The backup's files, with those that the log is on where they can be written to."""
    record, where = backup.files(catalog.all_datasets)
    mounted = {d.name: d.mountpoint for d in _datasets(ctx, parts) if d.mountpoint}
    moves = (
        (original, mounted[parts[n]] if n in parts else now) for n, (original, now) in enumerate(where.moves)
    )
    return BackupFiles(record, Relocation(tuple(moves)))


def _extended(ctx: Context, clone: Clone, backup: Backup, parts: Mapping[int, str], record: Record) -> Backup:
    """The same backup, with the snapshots of what the log was added to."""
    names = [f"{part}@{backup.name}" for part in parts.values()]
    ctx.zfs.snapshot(names, {clone_datasets.SNAPSHOT: clone.id}, timeout=SNAPSHOT_LIMIT_S)
    made: dict[str, Snapshot] = {p: s for p in parts.values() for s in ctx.zfs.snapshots(p)}
    snapshots = (made[parts[n]] if n in parts else old for n, old in enumerate(backup.snapshots))
    return Backup(record=record, snapshots=tuple(snapshots))
