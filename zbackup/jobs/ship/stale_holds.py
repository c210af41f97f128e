"""Holds and bookmarks of shipping that nobody will come back for: their destination is gone."""

from dataclasses import dataclass
from typing import Literal

from zbackup.jobs.context import Context
from zbackup.model.event_log import log
from zbackup.model.shipping import bookmarked, holder_of
from zbackup.model.snapshot import Snapshot
from zbackup.zfs.streams import ZfsStreams


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A mark, by its full name (of a hold: the snapshot's), and why nobody needs it."""

    kind: Literal["hold", "bookmark"]
    name: str
    tag: str
    why: str
    snapshot: Snapshot | None = None


def find_stale(ctx: Context) -> list[Stale]:
    """The stale holds on the instance's datasets; looks only. Marks of others are none of its business."""
    known = {t.tag: t.name for t in ctx.destinations}
    catalog = ctx.catalog()
    names = [d.name for d in catalog.datasets]
    return [*_holds(ctx, names, set(known)), *_bookmarks(ctx, names, set(known.values()))]


def release_stale(ctx: Context) -> list[Stale]:
    """Take them away, each by its exact name; returns what was."""
    with ctx.instance_lock("zbackup release"):
        found = find_stale(ctx)
        streams = ZfsStreams(ctx.zfs.runner)
        for each in found:
            if each.snapshot is not None:
                ctx.zfs.release(each.tag, each.snapshot)
            else:
                streams.destroy_bookmark(each.name)
            log.info("mark.released", kind=each.kind, name=each.name, tag=each.tag)
    return found


def _holds(ctx: Context, names: list[str], tags: set[str]) -> list[Stale]:
    snapshots = [s for name in names for s in ctx.zfs.snapshots(name) if s.holds]
    held = ctx.zfs.holds(snapshots)
    return [
        Stale(
            kind="hold", name=str(s), tag=tag, snapshot=s, why=_why(ctx, holder.instance, holder.destination)
        )
        for s in snapshots
        for tag in held.get(s.guid, ())
        if tag not in tags and (holder := holder_of(tag))
    ]


def _bookmarks(ctx: Context, names: list[str], destinations: set[str]) -> list[Stale]:
    found = [
        o.name for d in ZfsStreams(ctx.zfs.runner).sources(ctx.datasets) if d.name in names for o in d.origins
    ]
    return [
        Stale(kind="bookmark", name=name, tag="", why=_why(ctx, ctx.instance, mark[0]))
        for name in found
        if (mark := bookmarked(name.partition("#")[2])) and mark[0] not in destinations
    ]


def _why(ctx: Context, instance: str, destination: str) -> str:
    if instance == ctx.instance and any(t.name == destination for t in ctx.destinations):
        return f"taken by another host, or before this one was renamed, for {destination}"
    return f"{instance} has no destination {destination} any more"
