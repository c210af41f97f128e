"""Make a clone independent of the snapshot it was made from, by copying it.

Not by `zfs promote`: that moves the origin and every older snapshot of production's to the clone, and makes
production the clone's clone. Backups would go with a clone that somebody destroys.
"""

from collections.abc import Sequence
from dataclasses import replace

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.clones.clone_datasets import ORIGIN, PART, SNAPSHOT
from zbackup.jobs.clones.lifecycle import CloneStatus, find, find_again, require_ready, status_of, working_on
from zbackup.jobs.clones.provision import serving
from zbackup.jobs.clones.replace_datasets import exchange, fresh_name, settle
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.errors import CommandFailed, PoolFull, Refused
from zbackup.model.event_log import log
from zbackup.model.snapshot import Snapshot
from zbackup.proc.pipeline import Command, Meter, transfer
from zbackup.zfs.facts import ZfsFacts
from zbackup.zfs.streams import failure_of, receive_copy_argv, send_argv

LABEL = "zbackup-promote"
LIMIT_S = 600.0

# A pool that is nearly full harms production.
MOST_OF_ROOM = 0.9


def promote(contexts: Sequence[Context], name: str) -> CloneStatus:
    """Copy all the clone's blocks, so that the snapshot it was made from may be pruned.

    Its server is stopped meanwhile. Cut short, it is done again from the start. Raise NotFound, PoolFull, or
    Refused before anything is changed.
    """
    ctx, _, _ = find(contexts, name)
    with working_on(ctx, name, "zbackup clone promote"):
        clone, dataset = find_again(ctx, name)
        _require_possible(ctx, clone)
        record = clone_datasets.record_of(ctx, clone)
        if clone.state == "promoting":
            settle(ctx, clone)
        parts = [f"{dataset.name}/{n}" for n in range(len(record.members))]
        _require_encrypted_alike(ctx, dataset.name, parts)
        if clone.state == "ready":
            _require_room(ctx, dataset.name, parts)
        clone_datasets.require_unused(ctx, clone, parts)
        ctx.progress.phase("stopping the server")
        clone_datasets.stop_server(ctx, name)
        sources = _snapshots(ctx, clone, parts)
        clone = exchange(ctx, clone, "promoting", lambda: _copy(ctx, clone, sources))
        clone = replace(clone, copied=True)
        if not clone.stopped:
            ctx.progress.phase("starting the server")
            files = clone_datasets.open_again(ctx, clone)
            files = clone_datasets.in_sight_of(ctx, files, ctx.members(), [clone])
            ctx.recovery.serve(files, serving(clone))
        clone = clone_datasets.mark_ready(ctx, clone)
    log.info("clone.promoted", clone=name)
    return status_of(ctx, clone, dataset.name)


def _require_possible(ctx: Context, clone: Clone) -> None:
    if clone.state != "promoting":
        require_ready(clone)
    if clone.copied and clone.state == "ready":
        raise Refused(f"{clone.name} is promoted already: it depends on no snapshot")
    others = [
        s for s in ctx.zfs.snapshots_below(f"{ctx.clones}/{clone.name}") if s.name not in (LABEL, ORIGIN)
    ]
    if others:
        raise Refused(f"{clone.name} has snapshots that would be lost, such as {others[0]}")


def _require_encrypted_alike(ctx: Context, container: str, parts: Sequence[str]) -> None:
    """A copy gets the encryption of where it is put."""
    first, *others = ZfsFacts(ctx.zfs.runner).settings([container, *parts])
    if first.values["encryption"] == "off" and any(o.values["encryption"] != "off" for o in others):
        raise Refused(
            f"{parts[0]} is encrypted and {container} is not, nor would a copy be: set recovery.clones to "
            "a dataset that is"
        )


def _snapshots(ctx: Context, clone: Clone, parts: Sequence[str]) -> list[Snapshot]:
    """What is copied.

    Those of a run that was killed hold the same, if its server cannot have run since.
    """
    if clone.state == "ready":
        for stale in (s for p in parts for s in ctx.zfs.snapshots(p) if s.name == LABEL):
            ctx.zfs.destroy_snapshot(stale)
    known = {s.dataset: s for p in parts for s in ctx.zfs.snapshots(p) if s.name == LABEL}
    if missing := [p for p in parts if p not in known]:
        ctx.zfs.snapshot([f"{p}@{LABEL}" for p in missing], {SNAPSHOT: clone.id}, timeout=LIMIT_S)
        known |= {s.dataset: s for p in missing for s in ctx.zfs.snapshots(p) if s.name == LABEL}
    return [known[p] for p in parts]


def _require_room(ctx: Context, container: str, parts: Sequence[str]) -> None:
    wanted = sum(int(*ctx.zfs.values(part, "referenced")) for part in parts)
    free = int(*ctx.zfs.values(container, "available"))
    if wanted > free * MOST_OF_ROOM:
        raise PoolFull(
            ("zfs", "receive"), -1, f"a copy needs {wanted} bytes, and {free} are available to {container}"
        )


def _copy(ctx: Context, clone: Clone, sources: Sequence[Snapshot]) -> None:
    for number, source in enumerate(sources):
        target = fresh_name(ctx, clone, number)
        ctx.progress.phase("copying", f"part {number + 1} of {len(sources)}")
        send = send_argv(str(source), None, raw=False)
        receive = receive_copy_argv(target, {**CLONE_PROPERTIES, PART: clone.id})
        transfer(_end(send), _end(receive), Meter(moved=lambda done: ctx.progress.advance(done, 0)))
        ctx.zfs.destroy_snapshot(replace(source, dataset=target))


def _end(argv: tuple[str, ...]) -> Command:
    def failure(status: int, said: str) -> CommandFailed:
        return failure_of(argv, status, said)

    return Command(argv=argv, failure=failure)
