"""Tell what shipping leaves at the source: holds on what is being sent, and bookmarks to go on from."""

from collections.abc import Sequence

from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.backup import Backup
from zbackup.model.shipping import Inventory, Origin, SourceDataset, bookmark_name, bookmarked
from zbackup.model.snapshot import Snapshot
from zbackup.plan.ship.ship import target_of
from zbackup.zfs.streams import ZfsStreams


def pin(
    ctx: Context,
    destination: ShipDestination,
    sources: Sequence[SourceDataset],
    inventory: Inventory,
    snapshots: Sequence[Snapshot],
) -> None:
    """Hold what is to be sent, and bookmark it, and what is there already if its bookmark is gone.

    Done before a byte is sent: from then on the snapshot may be pruned at any time after it has arrived.
    """
    for snapshot in snapshots:
        ctx.zfs.hold(destination.tag, snapshot)
    streams = ZfsStreams(ctx.zfs.runner)
    for dataset in sources:
        target = target_of(dataset, inventory)
        guids = {s.guid for s in snapshots} | set(target.bases if target else ())
        marked = {o.guid for o in _bookmarks(dataset, destination)}
        for guid in sorted(guids - marked):
            found = dataset.origin(guid)
            if found and "@" in found.name:
                streams.bookmark(found.name, f"{dataset.name}#{bookmark_name(destination.name, guid)}")


def release(
    ctx: Context,
    destination: ShipDestination,
    backups: Sequence[Backup],
    sources: Sequence[SourceDataset],
    inventory: Inventory,
) -> None:
    """Everything wanted has arrived: release the holds, and destroy the bookmarks that newer ones replace.

    A bookmark goes only when the target dataset's newest copy is known to the source by another.
    """
    streams = ZfsStreams(ctx.zfs.runner)
    for dataset in sources:
        target = target_of(dataset, inventory)
        bases = [guid for guid in (target.bases if target else ()) if dataset.origin(guid)]
        for origin in _bookmarks(dataset, destination) if bases else ():
            if origin.guid not in bases:
                streams.destroy_bookmark(origin.name)
    held = [s for b in backups for s in b.snapshots if s.holds]
    tags = ctx.zfs.holds(held)
    for snapshot in held:
        if destination.tag in tags.get(snapshot.guid, ()):
            ctx.zfs.release(destination.tag, snapshot)


def _bookmarks(dataset: SourceDataset, destination: ShipDestination) -> list[Origin]:
    """This destination's on the dataset."""
    named = [(o, bookmarked(o.name.partition("#")[2])) for o in dataset.origins]
    return [origin for origin, found in named if found and found[0] == destination.name]
