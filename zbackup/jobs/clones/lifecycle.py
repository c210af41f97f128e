"""Clones that exist: list, stop, start, destroy."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from zbackup.catalog.local import read_clones
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import require_nobody_listens
from zbackup.jobs.clones.provision import password_file, serving
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.cloning import Login
from zbackup.model.command_line import command_line
from zbackup.model.errors import DatasetNotFound, NotFound, Refused
from zbackup.model.snapshot import Dataset
from zbackup.plan.clones.clone_name import copy_name, recovery_of
from zbackup.plan.clones.lease import judge
from zbackup.proc import secure_files
from zbackup.proc.lock import exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneStatus:
    """A clone as it is now. `used` is what it occupies beyond its origin, in bytes; `password` the file that
    holds its accounts' password, None when they are production's."""

    clone: Clone
    dataset: str
    running: bool
    socket: str
    connect: str
    used: int
    password: Path | None = None


@dataclass(frozen=True, slots=True)
class CloneList:
    """Clones, and (dataset, problem) of what nobody can tell whose clone it is."""

    clones: tuple[CloneStatus, ...]
    unreadable: tuple[tuple[str, str], ...] = ()


def list_clones(contexts: Sequence[Context]) -> CloneList:
    """All clones of these instances, oldest first. One that is destroyed meanwhile is not there."""
    found: dict[str, CloneStatus] = {}
    unreadable: dict[str, str] = {}
    for ctx in contexts:
        there = read_clones(ctx.zfs, ctx.clones)
        unreadable |= there.unreadable
        for clone, dataset in there.found:
            if clone.instance == ctx.instance:
                with suppress(DatasetNotFound):
                    found[dataset.name] = status_of(ctx, clone, dataset.name)
    return CloneList(tuple(found.values()), tuple(unreadable.items()))


def stop(contexts: Sequence[Context], name: str) -> CloneStatus:
    """Stop the clone's server; stopped already is success. Raise NotFound."""
    ctx, _, _ = find(contexts, name)
    with working_on(ctx, name, "zbackup clone stop"):
        clone, dataset = find_again(ctx, name)
        clone = _note_stopped(ctx, clone, stopped=True)
        clone_datasets.stop_server(ctx, name)
    return status_of(ctx, clone, dataset.name)


def start(contexts: Sequence[Context], name: str) -> CloneStatus:
    """Start the clone's server again, as it was handed over; running already is success.

    Raise NotFound, or Refused for a clone that was never finished.
    """
    ctx, _, _ = find(contexts, name)
    with working_on(ctx, name, "zbackup clone start"):
        clone, dataset = find_again(ctx, name)
        require_ready(clone)
        if clone_datasets.server_process(ctx, name) is None:
            require_nobody_listens(clone.port)
            files = clone_datasets.open_again(ctx, clone)
            files = clone_datasets.in_sight_of(ctx, files, ctx.members(), [clone])
            ctx.recovery.serve(files, serving(clone))
        clone = _note_stopped(ctx, clone, stopped=False)
    return status_of(ctx, clone, dataset.name)


def require_ready(clone: Clone) -> None:
    """Raise Refused, with what to do, for a clone whose server must not be started."""
    if clone.kind == "copy":
        raise Refused(f"{clone.name} is no server, but what was fetched to make one from")
    match clone.state:
        case "resetting":
            raise Refused(
                f"the clone {clone.name} is half reset: finish it ("
                f"{command_line('zbackup', 'clone', 'reset', clone.name)})"
            )
        case "promoting":
            raise Refused(
                f"the clone {clone.name} is half copied: "
                f"{command_line('zbackup', 'clone', 'promote', clone.name)}"
            )
        case "destroying":
            raise Refused(
                f"the clone {clone.name} is half destroyed: "
                f"{command_line('zbackup', 'clone', 'destroy', clone.name)}"
            )
        case "building" | "failed":
            raise Refused(
                f"the clone {clone.name} was never finished: destroy it ("
                f"{command_line('zbackup', 'clone', 'destroy', clone.name)})"
            )
        case "switching" | "undoing" | "switched":
            raise Refused(f"the clone {clone.name} {_SWITCHED[clone.state]}")
        case "ready":
            return


_SWITCHED = {
    "switching": "is half switched to: finish that, or go back (zbackup switch --help)",
    "undoing": "is half switched back: finish that (zbackup switch --undo)",
    "switched": "is in production's place: zbackup switch --undo brings it back",
}


def _note_stopped(ctx: Context, clone: Clone, *, stopped: bool) -> Clone:
    """Write down that somebody stopped the clone, or started it: a stopped one is not started again with the
    host."""
    if clone.kind != "dev" or clone.stopped == stopped:
        return clone
    noted = replace(clone, stopped=stopped)
    clone_datasets.describe(ctx, noted)
    return noted


def destroy(contexts: Sequence[Context], name: str) -> Clone:
    """Destroy exactly this clone, with what was fetched for it, also when only that is left of it.

    Raise NotFound, or Refused when it is protected, has children, or something foreign is in it.
    """
    try:
        ctx, _, _ = find(contexts, name)
    except NotFound:
        if name == recovery_of(name) and _is_there(contexts, copy_name(name)):
            return destroy(contexts, copy_name(name))
        raise
    with working_on(ctx, recovery_of(name), "zbackup clone destroy"):
        clone, dataset = find_again(ctx, name)
        if judge(clone, ctx.clock.now(), timedelta(0)) == "protected":
            raise Refused(
                f"{name} is protected until {clone.protected}: "
                f"{command_line('zbackup', 'clone', 'protect', name, '--until', 'now')}"
            )
        _require_no_switch(ctx, clone)
        fetched = clone_datasets.find_clone(ctx, copy_name(name))
        if fetched:
            clone_datasets.require_unused(ctx, clone, [d.name for d in ctx.zfs.filesystems(fetched[1].name)])
        clone_datasets.destroy(ctx, clone, dataset)
        if fetched:
            clone_datasets.destroy(ctx, *fetched)
    return clone


def _is_there(contexts: Sequence[Context], name: str) -> bool:
    found = (clone_datasets.find_clone(ctx, name) for ctx in contexts)
    return any(each[0].instance == ctx.instance for ctx, each in zip(contexts, found, strict=True) if each)


def _require_no_switch(ctx: Context, clone: Clone) -> None:
    """Raise Refused for a clone that a switch needs: what it set aside is found by the clone's description
    alone."""
    if clone.state in ("switching", "undoing"):
        raise Refused(f"the clone {clone.name} {_SWITCHED[clone.state]}")
    if clone.state == "switched" and clone.switch:
        aside = [clone.switch.aside(root) for root in clone.switch.roots]
        if there := [name for name in aside if ctx.zfs.exists(name)]:
            raise Refused(
                f"{there[0]} was set aside by the switch to {clone.name}, and is needed to undo it; its "
                f"backups are found by this clone. Destroy it yourself when nobody needs it any more"
            )


def working_on(ctx: Context, name: str, what: str, *, wait: float = 5) -> AbstractContextManager[None]:
    """Nobody else works on this clone meanwhile. Raise Taken when somebody does for `wait` seconds."""
    return exclusive(lock_file(ctx, name), what, wait=wait)


def lock_file(ctx: Context, name: str) -> Path:
    """The lock of who works on this clone."""
    return ctx.shared / f"clone-{name}.lock"


def show(contexts: Sequence[Context], name: str) -> CloneStatus:
    """One clone. Raise NotFound."""
    ctx, clone, dataset = find(contexts, name)
    return status_of(ctx, clone, dataset.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class WayIn:
    """The way in which programs reach a clone. `login` None: as one of production's accounts."""

    engine: str
    port: int
    login: Login | None


def way_in(contexts: Sequence[Context], name: str) -> WayIn:
    """Raise NotFound, or Refused for a clone that was never finished or has no port."""
    ctx, clone, _ = find(contexts, name)
    require_ready(clone)
    if not clone.port:
        raise Refused(
            f"the clone {name} has no port; its socket: {command_line('zbackup', 'clone', 'show', name)}"
        )
    file = password_file(ctx, name)
    try:
        login = Login(clone.login, secure_files.read_text(file).strip()) if clone.login else None
    except OSError as unreadable:
        raise Refused(f"{file} cannot be read: {unreadable.strerror}") from unreadable
    return WayIn(engine=clone.engine, port=clone.port, login=login)


def find(contexts: Sequence[Context], name: str) -> tuple[Context, Clone, Dataset]:
    """The clone, its dataset, and what to work on it with. Raise NotFound, naming those there are, or Refused
    when it cannot be read."""
    names, listed = [], []
    for ctx in contexts:
        there = read_clones(ctx.zfs, ctx.clones)
        listed.append(there)
        for clone, dataset in there.found:
            if clone.name == name and clone.instance == ctx.instance:
                return ctx, clone, dataset
            names.append(clone.name)
    for there in listed:
        there.require_readable(name)
    known = ", ".join(sorted(set(names))) or "none"
    raise NotFound(f"there is no clone {name}; there are: {known}")


def find_again(ctx: Context, name: str) -> tuple[Clone, Dataset]:
    """The clone as it is now that nobody else works on it. Raise NotFound when it is gone."""
    found = clone_datasets.find_clone(ctx, name)
    if found is None:
        raise NotFound(f"the clone {name} is gone: somebody else destroyed it")
    return found


def status_of(ctx: Context, clone: Clone, dataset: str) -> CloneStatus:
    """How it is now; `dataset` is the name of its own."""
    socket, line = ctx.recovery.connection(ctx.run_dir / clone.name, clone.port, clone.login)
    return CloneStatus(
        clone=clone,
        dataset=dataset,
        running=clone_datasets.server_process(ctx, clone.name) is not None,
        socket=socket,
        connect=line,
        used=ctx.zfs.used(dataset),
        password=password_file(ctx, clone.name) if clone.login else None,
    )
