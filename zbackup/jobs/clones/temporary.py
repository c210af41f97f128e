"""Clones that a recovery makes for itself, and takes away again, or keeps for a look when it fails."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from zbackup.catalog.local import Catalog
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.fetched_datasets import fetched_guids
from zbackup.jobs.clones.lifecycle import destroy, working_on
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import DatasetBusy, NotFound, Refused, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.recovery import RecoveryFiles
from zbackup.plan.clones.clone_name import copy_name, log_name
from zbackup.proc.kept_mounted import kept_mounted


@contextmanager
def own_name(ctx: Context, names: Sequence[str], what: str) -> Iterator[str]:
    """Lock the first usable one of zbackup's own names, and remove the leftovers of earlier runs.

    A name is skipped while its leftovers are in use, such as by a process with its own mounts. Raise
    DatasetBusy if all names are in use, Taken if another run works on one.
    """
    for name in names:
        with working_on(ctx, name, what):
            try:
                _remove_leftovers(ctx, name)
            except DatasetBusy as busy:
                ctx.progress.note(f"{ctx.clones}/{name} of an earlier run will be removed later: {busy}")
                if name == names[-1]:
                    raise
                continue
            yield name
            return


def _remove_leftovers(ctx: Context, name: str) -> None:
    """Remove all but fetched datasets: the next run continues with those, unless they are in use."""
    for each in (name, log_name(name), copy_name(name)):
        found = clone_datasets.find_clone(ctx, each)
        if not found or found[0].instance != ctx.instance:
            continue
        clone, dataset = found
        if clone.kind == "copy" and fetched_guids(ctx, dataset.name):
            ctx.zfs.require_unused([d.name for d in ctx.zfs.filesystems(dataset.name)])
        elif clone.kind == "copy" or clone.state == "building":
            clone_datasets.destroy(ctx, clone, dataset)


def what_is_left(ctx: Context, name: str) -> str:
    """Destroy a temporary recovery of zbackup. Return what could not be destroyed, and why; "" if it is gone.

    This is no failure of the job, which is done: the daemon tries again.
    """
    try:
        destroy((ctx,), name)
    except NotFound:
        return ""  # the daemon was faster: nobody holds the name any more
    except ZbackupError as failure:
        left = f"{ctx.clones}/{name} will be removed later: {failure}"
        ctx.progress.note(left)
        log.warning("clone.left", clone=name, why=str(failure))
        return left
    return ""


@contextmanager
def removed_on_failure(ctx: Context, clone: Clone, *, keep: bool) -> Iterator[None]:
    """The clone goes when the body fails, unless `keep`."""
    try:
        yield
    except BaseException:
        take_away(ctx, clone, keep=keep)
        raise


@contextmanager
def log_files(
    ctx: Context, catalog: Catalog, made: tuple[Clone, RecoveryFiles], log: Backup, *, keep: bool
) -> Iterator[tuple[RecoveryFiles, list[Clone]]]:
    """The log to replay on a clone that was `made`, as log_clone has it; in its snapshot where that will do.

    Making and removing a clone is two dozen commands. The snapshot stays mounted while the body runs.
    """
    clone, base = made
    with ExitStack() as kept:
        files = _in_snapshot(ctx, catalog, base, log, kept)
        if files is not None:
            yield files, [clone]
            return
    with log_clone(ctx, catalog, clone, log, keep=keep) as source:
        yield source


def _in_snapshot(
    ctx: Context, catalog: Catalog, base: RecoveryFiles, log: Backup, kept: ExitStack
) -> RecoveryFiles | None:
    """The log in its snapshot, which is `kept` there; None where a clone is needed, or easier to come by."""
    try:
        where = log.browse(catalog.all_datasets)
        for _, now in where.moves:
            kept.enter_context(kept_mounted(Path(now)))
    except (Refused, OSError):
        return None
    if not ctx.recovery.only_reads(base, BackupFiles(log.record, where)):
        return None
    # It has no home: nothing is written beside it, and no server sees it.
    return RecoveryFiles(record=log.record, where=where, home=Path(where.moves[0][1]), run=base.run, hide=())


@contextmanager
def log_clone(
    ctx: Context, catalog: Catalog, clone: Clone, log: Backup, *, keep: bool
) -> Iterator[tuple[RecoveryFiles, list[Clone]]]:
    """A clone to replay the log from, and the clones that a server may see. It is gone afterwards, unless
    the body fails and `keep` is asked for.

    Also where nothing is to be replayed: as long as the log is looked at, no prune may take it away.
    """
    name = log_name(clone.name)
    source = replace(clone, id=clone_datasets.new_id(), name=name, kind="log", backup=log.name, port=0)
    with removed_on_failure(ctx, source, keep=keep):
        files = clone_datasets.build(ctx, source, log)
        # Its server sees it alone: when we are killed, the clone goes first, and must be nobody's then.
        yield clone_datasets.in_sight_of(ctx, files, catalog.all_datasets, [source]), [clone, source]
    take_away(ctx, source, keep=False)


def take_away(ctx: Context, clone: Clone, *, keep: bool) -> None:
    """Remove the clone, or `keep` it for a look. What cannot be removed is told of, and hides neither why the
    recovery failed nor that it succeeded."""
    dataset = f"{ctx.clones}/{clone.name}"
    if keep:
        ctx.progress.note(f"kept for a look: {dataset}, {ctx.mountpoint / clone.name}")
        _give_up(ctx, clone)
        return
    try:
        found = clone_datasets.find_clone(ctx, clone.name)
        # Of the same name may be another's, which may be why the recovery failed.
        if found and found[0].id == clone.id:
            clone_datasets.destroy(ctx, *found)
    except ZbackupError as failure:
        ctx.progress.note(
            f"{dataset} is left: {failure}. Remove it: "
            f"{command_line('zbackup', 'clone', 'destroy', clone.name)}"
        )


def _give_up(ctx: Context, clone: Clone) -> None:
    """A dev clone that is kept is nobody's leftover, and must not be started: it may not be masked."""
    found = clone_datasets.find_clone(ctx, clone.name)
    if found and found[0].kind == "dev" and found[0].id == clone.id:
        clone_datasets.describe(ctx, replace(found[0], state="failed"))
