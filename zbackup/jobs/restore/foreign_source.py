"""Restore from a snapshot that others took: what its files hold, by the server's crash recovery alone.

Nothing is written on such a snapshot. What a temporary server has to know to open its files is taken from the
nearest backup of the same datasets, or asked of the running server.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from zbackup.catalog.local import Catalog
from zbackup.jobs.backup.complete_record import NON_TRANSACTIONAL
from zbackup.jobs.backup.snapshot import remarks
from zbackup.jobs.context import Context
from zbackup.jobs.restore.local_source import LocalSource
from zbackup.jobs.restore.log_source import nothing_replayed
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.source import Opened
from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.errors import DatabaseError, NotFound, NotRecoverable, Refused
from zbackup.model.foreign import Foreign, by_name
from zbackup.model.record import Record
from zbackup.model.snapshot import Dataset
from zbackup.model.target import BackupAsItIs, RestoreTarget
from zbackup.plan.health.placement import require_one_snapshot_covers

CRASH_CONSISTENT = (
    "it is crash-consistent, as after a power failure: what was not on disk at that moment is lost, tables "
    "without transactions may be torn, nothing proves what it holds, and no log is replayed"
)

# Of Record.server, what is true of the server at any moment, and needed to open its files.
_LASTING = ("oplog_bytes",)
_OF_ITS_MOMENT = (
    "oplog_",
    "stable_checkpoint",
    "label",
    "keep_until",
    "warnings",
    "stopped_for",
    "log_ended",
)
_OF_ITS_LOG = ("times_out_of_order", "replay_stops")


class ForeignSource(LocalSource):
    """See Source: the one snapshot that is asked for, on this host."""

    def snapshot(self, ctx: Context, named: str) -> BackupAsItIs:
        """The snapshot DATASET@NAME. Raise NotFound or NotRecoverable, saying what to do."""
        found = _find(ctx, ctx.members(), named)
        return BackupAsItIs(named, found.taken, foreign=True)

    def plan(self, ctx: Context, target: RestoreTarget, options: RestoreOptions) -> RestorePlan:
        return _planned(ctx, ctx.catalog(), target, options.name)

    @contextmanager
    def opened(self, ctx: Context, target: RestoreTarget, options: RestoreOptions) -> Iterator[Opened]:
        """See Source. Whoever took the snapshot may destroy it until it is cloned; then the restore fails."""
        ctx.progress.phase("inspecting", "the snapshot, and what its server was like")
        with ExitStack() as lock:
            lock.enter_context(ctx.instance_lock("zbackup restore"))
            catalog = ctx.catalog()
            yield Opened(catalog, _planned(ctx, catalog, target, options.name), lock.close)


FOREIGN = ForeignSource()


def foreign_snapshots(ctx: Context, catalog: Catalog) -> tuple[Foreign, ...]:
    """The snapshots of the instance's datasets that others took, oldest first; looks only."""
    return _foreign(ctx, catalog.datasets)


def _foreign(ctx: Context, datasets: Sequence[Dataset]) -> tuple[Foreign, ...]:
    names = [d.name for d in datasets]
    return by_name([s for root in ctx.datasets for s in ctx.zfs.snapshots_below(root)], names)


def _find(ctx: Context, datasets: Sequence[Dataset], named: str) -> Foreign:
    dataset, _, name = named.partition("@")
    if dataset not in [d.name for d in datasets]:
        raise NotFound(
            f"{dataset} is no dataset of {ctx.instance}: see "
            f"{command_line('zbackup', 'list', ctx.instance, '--foreign')}"
        )
    found = next((f for f in _foreign(ctx, datasets) if f.name == name), None)
    if found is None and ctx.zfs.snapshot_named(named):
        raise Refused(f"{named} is one of zbackup's own: restore it with --to-backup {name}")
    if found is None:
        raise NotFound(
            f"there is no snapshot {named}: see {command_line('zbackup', 'list', ctx.instance, '--foreign')}"
        )
    if found.missing:
        raise NotRecoverable(
            f"{named} is not a snapshot of all that the server has: {found.flaw}. Only one that has all "
            "datasets at once can be opened"
        )
    if not found.at_once:
        raise NotRecoverable(
            f"the snapshots {name} were taken one after the other, and no server can be made of several "
            "moments: choose one that was taken at once (zfs snapshot -r; recursive = zfs in sanoid.conf), "
            f"or copy files out of one of them ({command_line('zfs', 'clone', named)} ...)"
        )
    return found


def _planned(ctx: Context, catalog: Catalog, target: RestoreTarget, name: str) -> RestorePlan:
    if not isinstance(target, BackupAsItIs):
        raise AssertionError("nobody else's snapshot leads to a moment")
    found = _find(ctx, catalog.datasets, target.name)
    like, known = _like(ctx, catalog, found)
    base = Backup(record=_record(like, found), snapshots=found.snapshots)
    ctx.recovery.check_openable(base.record)
    ctx.recovery.check_program(base.record)
    return RestorePlan(
        name=name,
        target=target,
        stop=None,
        base=base,
        log=base,
        reason=f"{target.name} was not taken by zbackup ({found.tool}): {CRASH_CONSISTENT}",
        replay=nothing_replayed(target.at),
        warnings=(f"what its server was like is taken from {known}", *_torn(like)),
        as_it_is=True,
    )


def _torn(like: Record) -> tuple[str, ...]:
    count = like.server.get(NON_TRANSACTIONAL)
    return (f"about {count} tables without transactions may be torn: check them",) if count else ()


def _like(ctx: Context, catalog: Catalog, found: Foreign) -> tuple[Record, str]:
    """The record of the nearest backup of the same datasets, or of the running server; and whose it is."""
    datasets = {s.dataset for s in found.snapshots}
    txg = found.snapshots[0].createtxg
    same = [b for b in catalog.backups if b.complete and {d for d, _ in b.record.members} == datasets]
    if same:
        nearest = min(same, key=lambda b: abs(b.createtxg - txg))
        return nearest.record, nearest.name
    try:
        facts = ctx.engine.inspect()
    except DatabaseError as silent:
        raise NotRecoverable(
            f"nothing tells what the server of {found.name} was like: there is no backup of zbackup's beside "
            f"it, and the server does not answer ({silent})"
        ) from silent
    members = require_one_snapshot_covers(facts.data_paths, catalog.datasets)
    record = Record(
        backup="",
        instance=ctx.instance,
        engine=facts.flavor,
        members=members,
        taken=found.taken,
        lock="none",
        server_uuid=facts.server_uuid,
        server_version=facts.version,
        role=facts.role,
        server=dict(facts.server) | remarks(facts),
    )
    return record, "the running server"


def _record(like: Record, found: Foreign) -> Record:
    """A record of the server as `like` knows it. Of its log and position at that moment nothing is known."""
    kept = {name: value for name, value in like.server.items() if not _is_of_a_moment(name)}
    order = {s.dataset: number for number, s in enumerate(found.snapshots)}
    return replace(
        like,
        backup=f"foreign-{found.snapshots[0].guid}",
        purpose="base",
        members=tuple(sorted(like.members, key=lambda member: order[member[0]])),
        taken=found.taken,
        lock="none",
        position="",
        gtid="",
        as_of=found.taken,
        complete_to=found.taken,
        log_id="",
        log_from="",
        log_to="",
        lock_wait_ms=None,
        lock_held_ms=None,
        clock=None,
        since=None,
        server=kept,
    )


def _is_of_a_moment(name: str) -> bool:
    return name not in _LASTING and name.startswith((*_OF_ITS_MOMENT, *_OF_ITS_LOG))
