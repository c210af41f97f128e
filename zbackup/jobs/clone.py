"""Clones that exist: list, stop, start, destroy."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from zbackup.catalog.local import clones
from zbackup.jobs import clone_files
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.errors import NotFound, Refused
from zbackup.model.recovery import Serving
from zbackup.model.snapshot import Dataset
from zbackup.proc.lock import exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneStatus:
    """A clone as it is now. `used` is what it occupies beyond its origin, in bytes."""

    clone: Clone
    dataset: str
    running: bool
    socket: str
    connect: str
    used: int


def list_clones(contexts: Sequence[Context]) -> list[CloneStatus]:
    """All clones of these instances, oldest first."""
    found: dict[str, CloneStatus] = {}
    for ctx in contexts:
        for clone, dataset in clones(ctx.zfs, ctx.clones):
            if clone.instance == ctx.instance:
                found[dataset.name] = _status(ctx, clone, dataset)
    return list(found.values())


def stop(contexts: Sequence[Context], name: str) -> CloneStatus:
    """Stop the clone's server; stopped already is success. Raise NotFound."""
    ctx, clone, dataset = _find(contexts, name)
    with working_on(ctx, name, "zbackup clone stop"):
        clone_files.stop_server(ctx, name)
    return _status(ctx, clone, dataset)


def start(contexts: Sequence[Context], name: str) -> CloneStatus:
    """Start the clone's server again, as it was handed over; running already is success.

    Raise NotFound, or Refused for a clone that was never finished.
    """
    ctx, clone, dataset = _find(contexts, name)
    with working_on(ctx, name, "zbackup clone start"):
        if clone.state != "ready":
            raise Refused(f"the clone {name} was never finished: destroy it (zbackup clone destroy {name})")
        if clone_files.server_process(ctx, name) is None:
            files = clone_files.open_again(ctx, clone)
            hide = clone_files.hidden_from(ctx, ctx.catalog().datasets, [clone])
            serving = Serving(port=clone.port, read_only=clone.read_only, replica_set=clone.replica_set)
            ctx.recovery.serve(replace(files, hide=hide), serving)
    return _status(ctx, clone, dataset)


def destroy(contexts: Sequence[Context], name: str) -> Clone:
    """Destroy exactly this clone. Raise NotFound, or Refused when something foreign is in it."""
    ctx, clone, dataset = _find(contexts, name)
    with working_on(ctx, name, "zbackup clone destroy"):
        clone_files.destroy(ctx, clone, dataset)
    return clone


def working_on(ctx: Context, name: str, what: str, *, wait: float = 5) -> AbstractContextManager[None]:
    """Nobody else works on this clone meanwhile. Raise Taken when somebody does for `wait` seconds."""
    return exclusive(ctx.run_dir / f"clone-{name}.lock", what, wait=wait)


def _find(contexts: Sequence[Context], name: str) -> tuple[Context, Clone, Dataset]:
    names = []
    for ctx in contexts:
        for clone, dataset in clones(ctx.zfs, ctx.clones):
            if clone.name == name and clone.instance == ctx.instance:
                return ctx, clone, dataset
            names.append(clone.name)
    known = ", ".join(sorted(set(names))) or "none"
    raise NotFound(f"there is no clone {name}; there are: {known}")


def _status(ctx: Context, clone: Clone, dataset: Dataset) -> CloneStatus:
    socket, line = ctx.recovery.connection(ctx.run_dir / clone.name, clone.port)
    return CloneStatus(
        clone=clone,
        dataset=dataset.name,
        running=clone_files.server_process(ctx, clone.name) is not None,
        socket=socket,
        connect=line,
        used=ctx.zfs.used(dataset.name),
    )
