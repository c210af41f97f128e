"""Make a holder of the log out of a backup and what was archived of the log behind it.

<clones>/<name>.copy/N     what was fetched, and read-only (see jobs.restore.fetch)
<clones>/<name>.copy/M     clones of those members that the log is on, with the archived files in it
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

import structlog

from zbackup.catalog.local import Catalog
from zbackup.destinations.base import Archiving, Session
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.context import Context
from zbackup.model.added_log import AddedFile
from zbackup.model.archive import LogFileId
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.clone import Clone
from zbackup.model.errors import NotFound, NotRecoverable
from zbackup.model.log import LogSpan
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation, owner_of
from zbackup.model.snapshot import Dataset, Snapshot
from zbackup.plan.clones.clone_name import copy_name
from zbackup.plan.recovery.archived import Carrier, Chain, chain_complete, chains_from, with_archive
from zbackup.proc.pipeline import Meter

log = structlog.get_logger()

ADDED = "zbackup:archived_log"
"""On a dataset of a copy: the copy's id, for what archived log was put into."""

LOG_PATHS = ("log_bin_basename", "log_bin_index")
SNAPSHOT_LIMIT_S = 60.0


def with_archived_log(
    ctx: Context, session: Session, name: str, catalog: Catalog, carrier: Carrier, limit: int = 0
) -> Catalog:
    """The catalogue of what was fetched for the recovery `name`, and one more holder of the log, its last.

    The carrier's backup is the newest of the catalogue. `limit` is in bytes a second, 0 for none. Raise
    NotRecoverable when nothing that is archived continues it: then nothing of this is there.
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
    parts = _cloned(ctx, clone, container, backup)
    try:
        carrier = _as_it_is_now(session, carrier)
        files = _files(ctx, backup, catalog, parts)
        chain, complete, span = _added(ctx, session, files, carrier, Meter(limit=limit))
    except NotRecoverable:
        drop_added(ctx, container)
        clone_datasets.mark_ready(ctx, clone)
        raise
    holder = _holder(ctx, clone, backup, parts, with_archive(backup.record, span.last, complete))
    clone_datasets.mark_ready(ctx, clone)
    log.info("restore.log_added", backup=backup.name, upto=span.last, files=len(chain.files))
    datasets = {d.name: d for d in (*catalog.datasets, *_datasets(ctx, parts))}
    return replace(catalog, datasets=tuple(datasets.values()), backups=(*catalog.backups, holder))


def _as_it_is_now(session: Archiving, carrier: Carrier) -> Carrier:
    """The same with what was archived while the backup was fetched; that may have been folded meanwhile."""
    chains = chains_from(carrier.backup.record, session.archived().files)
    return replace(carrier, chains=chains) if chains else carrier


def archived_bytes(carrier: Carrier) -> int:
    """Bytes of log that would be fetched."""
    _, _, offset = carrier.backup.record.log_to.rpartition(":")
    return max(0, sum(each.size for each in carrier.chains[0].files) - int(offset))


def _added(
    ctx: Context, session: Archiving, files: BackupFiles, carrier: Carrier, meter: Meter
) -> tuple[Chain, datetime | None, LogSpan]:
    """Put in the first of the chains that proves to continue the backup, which is proven to be complete up to
    that moment. Raise what the first one says."""
    why: NotRecoverable | None = None
    for chain in carrier.chains:
        ctx.progress.phase("fetching the archived log", f"up to {chain.end}")
        try:
            complete = chain_complete(chain.files, session.proven_to)
            return chain, complete, ctx.recovery.add_log(files, _to_add(session, chain, meter), ctx.progress)
        except NotRecoverable as failure:
            why = why or failure
    raise why or NotRecoverable("nothing that is archived continues the backup")


def _to_add(session: Archiving, chain: Chain, meter: Meter) -> list[AddedFile]:
    def reader(file: LogFileId) -> Callable[[int, int], Iterator[bytes]]:
        return lambda begin, end: session.read_log(file, begin, end, meter)

    return [AddedFile(name=f.file.name, size=f.size, read=reader(f.file)) for f in chain.files]


def log_members(record: Record) -> list[int]:
    """The numbers of the members that the log is on; all where that is not known."""
    mounts = [mountpoint for _, mountpoint in record.members]
    paths = [path for each in LOG_PATHS if (path := record.server.get(each, ""))]
    owners = {owner_of(path, mounts) for path in paths}
    return [n for n, mount in enumerate(mounts) if mount in owners] or list(range(len(mounts)))


def drop_added(ctx: Context, container: Dataset) -> None:
    """Destroy what an earlier run put archived log into: it is made anew each time."""
    marks = ctx.zfs.user_properties(container.name)
    for dataset in ctx.zfs.filesystems(container.name):
        if ADDED in marks.get(dataset.name, {}):
            for snapshot in ctx.zfs.snapshots(dataset.name):
                ctx.zfs.destroy_snapshot(snapshot)
            ctx.zfs.destroy_filesystem(dataset)


def _cloned(ctx: Context, clone: Clone, container: Dataset, backup: Backup) -> dict[int, str]:
    """Member -> dataset, for those that the log is on: writable clones."""
    names = (d.name.rpartition("/")[2] for d in ctx.zfs.filesystems(container.name))
    free = max((int(each) for each in names if each.isdecimal()), default=-1) + 1
    wanted = log_members(backup.record)
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
    record, where = backup.files(catalog.places)
    mounted = {d.name: d.mountpoint for d in _datasets(ctx, parts) if d.mountpoint}
    moves = (
        (original, mounted[parts[n]] if n in parts else now) for n, (original, now) in enumerate(where.moves)
    )
    return BackupFiles(record, Relocation(tuple(moves)))


def _holder(ctx: Context, clone: Clone, backup: Backup, parts: Mapping[int, str], record: Record) -> Backup:
    """The same backup, with the snapshots of what the log was added to."""
    names = [f"{part}@{backup.name}" for part in parts.values()]
    ctx.zfs.snapshot(names, {clone_datasets.SNAPSHOT: clone.id}, timeout=SNAPSHOT_LIMIT_S)
    made: dict[str, Snapshot] = {p: s for p in parts.values() for s in ctx.zfs.snapshots(p)}
    snapshots = (made[parts[n]] if n in parts else old for n, old in enumerate(backup.snapshots))
    return Backup(record=record, snapshots=tuple(snapshots))
