"""New datasets in place of a clone's own: made beside them, then exchanged.

<clones>/<name>/fresh-0..   what shall be <clones>/<name>/0.. and is not yet

The clone's state is "resetting" or "promoting" meanwhile. Whoever comes after a run that was killed begins
again; until the last of the old ones is gone, they or the fresh ones keep their origin pinned.
"""

from collections.abc import Callable
from dataclasses import replace

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.clones.clone_datasets import FRESH, ORIGIN, PART, SNAPSHOT
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone, State
from zbackup.model.errors import Refused
from zbackup.model.snapshot import Dataset, Snapshot


def exchange(ctx: Context, clone: Clone, state: State, make: Callable[[], None]) -> Clone:
    """Have `make` make the fresh datasets, then let them take the old ones' places and mount them.

    Returns the clone as it is described then: the caller starts its server and marks it as ready. Its server
    must be stopped.
    """
    clone = replace(clone, state=state)
    clone_datasets.describe(ctx, clone)
    settle(ctx, clone)
    for leftover in reversed(_fresh(ctx, clone)):
        _destroy(ctx, clone, leftover)
    make()
    for fresh in _fresh(ctx, clone):
        name = _final_name(fresh)
        for old in _part(ctx, clone, name):
            _destroy(ctx, clone, old)
        ctx.zfs.rename(fresh, name)
        ctx.zfs.mount(name)
    return clone


def settle(ctx: Context, clone: Clone) -> None:
    """Let fresh datasets take the places of old ones that a run which was killed had destroyed already.

    They were whole before the first of the old ones went, and what they hold may be nowhere else by now.
    """
    for fresh in _fresh(ctx, clone):
        name = _final_name(fresh)
        if not ctx.zfs.exists(name):
            ctx.zfs.rename(fresh, name)
            ctx.zfs.mount(name)


def _final_name(fresh: Dataset) -> str:
    """What it is to be called. The clone itself may be called fresh-something."""
    container, _, name = fresh.name.rpartition("/")
    return f"{container}/{name.removeprefix(FRESH)}"


def clone_fresh(ctx: Context, clone: Clone, backup: Backup) -> None:
    """Fresh datasets that are clones of a backup's snapshots."""
    targets = {fresh_name(ctx, clone, number): s for number, s in enumerate(backup.snapshots)}
    ctx.zfs.clone_each(targets, {**CLONE_PROPERTIES, PART: clone.id})


def has_beginning(ctx: Context, clone: Clone, parts: int) -> bool:
    """Whether all parts can be as they were when the clone was handed over."""
    return all(
        _beginning(ctx, clone, part) or _beginning(ctx, clone, fresh)
        for part, fresh in _pairs(ctx, clone, parts)
    )


def reset_datasets(ctx: Context, clone: Clone, parts: int) -> Clone:
    """Let clones of the parts' own first snapshots take their places; returns the clone as described then.

    A fresh part takes over the snapshot (`zfs promote`, all within the clone), so that the old one can go,
    and the next reset finds it. Cut short anywhere, it is done again. The clone's server must be stopped.
    """
    clone = replace(clone, state="resetting")
    clone_datasets.describe(ctx, clone)
    for name, fresh in _pairs(ctx, clone, parts):
        if not _beginning(ctx, clone, fresh):
            for leftover in _part(ctx, clone, fresh):
                _destroy(ctx, clone, leftover)
            for snapshot in _beginning(ctx, clone, name):
                ctx.zfs.clone(snapshot, fresh, {**CLONE_PROPERTIES, PART: clone.id})
            ctx.zfs.promote(ctx.zfs.filesystems(fresh)[0])
        for old in _part(ctx, clone, name):
            _destroy(ctx, clone, old)
        ctx.zfs.rename(ctx.zfs.filesystems(fresh)[0], name)
        ctx.zfs.mount(name)
    return clone


def _pairs(ctx: Context, clone: Clone, parts: int) -> list[tuple[str, str]]:
    """Each part, and what shall be in its place, by name."""
    container = f"{ctx.clones}/{clone.name}"
    return [(f"{container}/{number}", fresh_name(ctx, clone, number)) for number in range(parts)]


def _beginning(ctx: Context, clone: Clone, dataset: str) -> list[Snapshot]:
    """The clone's own first snapshot, if this dataset has it."""
    if not ctx.zfs.exists(dataset):
        return []
    return [s for s in ctx.zfs.snapshots(dataset) if s.name == ORIGIN and _marked(clone, s)]


def fresh_name(ctx: Context, clone: Clone, number: int) -> str:
    """What the fresh dataset for the part of this number is called."""
    return f"{ctx.clones}/{clone.name}/{FRESH}{number}"


def _destroy(ctx: Context, clone: Clone, dataset: Dataset) -> None:
    """With its snapshots, which have the clone's mark, or are copies of one that has. Raise Refused else."""
    own = {s.guid for s in ctx.zfs.snapshots_below(f"{ctx.clones}/{clone.name}") if _marked(clone, s)}
    snapshots = ctx.zfs.snapshots(dataset.name)
    if foreign := [s for s in snapshots if s.guid not in own]:
        raise Refused(f"{foreign[0]} is in the clone {clone.name}, and zbackup did not make it")
    for snapshot in snapshots:
        ctx.zfs.destroy_snapshot(snapshot)
    ctx.zfs.destroy_filesystem(dataset)


def _marked(clone: Clone, snapshot: Snapshot) -> bool:
    return dict(snapshot.properties).get(SNAPSHOT) == clone.id


def _fresh(ctx: Context, clone: Clone) -> list[Dataset]:
    """The fresh datasets there are, each proven to be the clone's own. Raise Refused when one is not."""
    datasets = ctx.zfs.filesystems(f"{ctx.clones}/{clone.name}")
    found = [d for d in datasets if d.name.rpartition("/")[2].startswith(FRESH)]
    clone_datasets.require_parts(ctx, clone, found)
    return found


def _part(ctx: Context, clone: Clone, name: str) -> list[Dataset]:
    """The old dataset of that name, if it is still there."""
    if not ctx.zfs.exists(name):
        return []
    found = ctx.zfs.filesystems(name)
    clone_datasets.require_parts(ctx, clone, found)
    if len(found) > 1:
        raise Refused(f"{found[1].name} is in the clone {clone.name}, and zbackup did not make it")
    return found
