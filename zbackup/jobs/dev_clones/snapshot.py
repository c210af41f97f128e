"""Snapshots of dev clones, and the children that are made of them: mask once, clone often."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.clone_datasets import ORIGIN, SNAPSHOT
from zbackup.jobs.clones.lifecycle import find, find_again, require_ready, working_on
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.errors import CommandFailed, NotFound, Refused, Taken
from zbackup.model.event_log import log
from zbackup.model.record import Record
from zbackup.model.snapshot import Snapshot
from zbackup.plan.clones.clone_name import require_good

LIMIT_S = 600.0


def snapshot(contexts: Sequence[Context], name: str, label: str = "") -> str:
    """Take an atomic snapshot of a dev clone, running or not; returns what it is called.

    Raise NotFound, Refused for a clone that is not ready, Taken when it has one of that name.
    """
    ctx, _, _ = find(contexts, name)
    with working_on(ctx, name, "zbackup clone snapshot"):
        clone, _ = find_again(ctx, name)
        return _take(ctx, clone, label)


def source(ctx: Context, parent: str, label: str) -> tuple[Clone, Backup]:
    """What a child of the clone `parent` is made of: its snapshot `label`, else its newest; one is taken
    when there is none. To be called with nobody else working on the parent."""
    clone, _ = find_again(ctx, parent)
    record = clone_datasets.record_of(ctx, clone)
    known = snapshots(ctx, clone, record)
    if not known and not label:
        taken = _take(ctx, clone, "")
        return clone, snapshots(ctx, clone, record)[taken]
    return clone, chosen_snapshot(clone, known, label)


def chosen_snapshot(clone: Clone, known: Mapping[str, Backup], label: str) -> Backup:
    """The one called `label`, or the newest of those that are `known`. Raise NotFound."""
    if label and label not in known:
        there = ", ".join(known) or "none"
        raise NotFound(f"the clone {clone.name} has no snapshot {label}; there is {there}")
    return known[label] if label else list(known.values())[-1]


def snapshots(ctx: Context, clone: Clone, record: Record) -> dict[str, Backup]:
    """The clone's own whole snapshots by name, oldest first. Their record is that of production's backup.

    Not that of its beginning: children of it would keep the clone from being reset.
    """
    parts = [f"{ctx.clones}/{clone.name}/{n}" for n in range(len(record.members))]
    found: dict[str, dict[str, Snapshot]] = defaultdict(dict)
    for each in ctx.zfs.snapshots_below(f"{ctx.clones}/{clone.name}"):
        if each.name != ORIGIN and dict(each.properties).get(SNAPSHOT) == clone.id:
            found[each.name][each.dataset] = each
    return {
        name: Backup(record=record, snapshots=tuple(on[part] for part in parts))
        for name, on in found.items()
        if set(parts) <= set(on)
    }


def keep_beginning(ctx: Context, clone: Clone) -> None:
    """Take the snapshot that `clone reset` goes back to. A clone of a backup needs none: that is there for as
    long as the clone is."""
    try:
        parts = range(len(clone_datasets.record_of(ctx, clone).members))
        names = [f"{ctx.clones}/{clone.name}/{n}@{ORIGIN}" for n in parts]
        ctx.zfs.snapshot(names, {SNAPSHOT: clone.id}, timeout=LIMIT_S)
    except CommandFailed as failure:
        ctx.progress.note(f"{clone.name} will not be resettable to its moment: {failure}")


def _take(ctx: Context, clone: Clone, label: str) -> str:
    require_ready(clone)
    if clone.kind != "dev":
        raise Refused(f"{clone.name} is no dev clone: zbackup snapshots those only")
    if label:
        require_good(label)
    if label == ORIGIN:
        raise Refused(f"{ORIGIN} is what a clone is reset to: choose another name")
    name = label or f"zbackup-clone-{ctx.clock.now():%Y%m%dT%H%M%SZ}"
    record = clone_datasets.record_of(ctx, clone)
    if name in snapshots(ctx, clone, record):
        raise Taken(f"the clone {clone.name} has a snapshot {name} already")
    names = [f"{ctx.clones}/{clone.name}/{n}@{name}" for n in range(len(record.members))]
    ctx.zfs.snapshot(names, {SNAPSHOT: clone.id}, timeout=LIMIT_S)
    log.info("clone.snapshotted", clone=clone.name, snapshot=name)
    return name
