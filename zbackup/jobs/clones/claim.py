"""A clone's name and port become its own: no two clones ever have the same, whoever makes them at once."""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

from zbackup.catalog.local import FoundClones, read_clones
from zbackup.jobs.context import Context
from zbackup.model.clone import INTENT, PROPERTY, Clone, from_property
from zbackup.model.errors import (
    CommandFailed,
    DatasetExists,
    DatasetNotFound,
    PoolSuspended,
    Taken,
)
from zbackup.model.snapshot import Dataset
from zbackup.proc.lock import exclusive
from zbackup.proc.secure_files import claim_for_root

ROOT = "zbackup:clones"
CLONE_PROPERTIES = {"canmount": "noauto", "readonly": "off", "exec": "off", "setuid": "off", "devices": "off"}
"""Properties that clones are made with. Nothing in them is to be run: they hold what their server's user put
there, or who shipped them, and a server that is told to load a plugin from there must not."""
LOOPBACK = "127.0.0.1"


def everywhere(ctx: Context) -> list[tuple[Clone, Dataset]]:
    """The clones of all instances, but those on another pool that lost its disks."""
    return readable(list_everywhere(ctx))


def readable(listings: Sequence[FoundClones]) -> list[tuple[Clone, Dataset]]:
    """The clones that can be read, of all listings."""
    return [pair for there in listings for pair in there.found]


def names_taken(ctx: Context) -> set[str]:
    """The names of all clones, of those that cannot be read, too."""
    listings = list_everywhere(ctx)
    return {clone.name for clone, _ in readable(listings)}.union(
        *(each.unreadable_names for each in listings)
    )


def list_everywhere(ctx: Context) -> list[FoundClones]:
    """The same with those that cannot be read, of each dataset by themselves."""
    found = [read_clones(ctx.zfs, ctx.clones)]
    for root in dict.fromkeys(ctx.cloning.roots):
        if root != ctx.clones:
            with contextlib.suppress(PoolSuspended):
                found.append(read_clones(ctx.zfs, root))
    return found


def require_readable(listings: Sequence[FoundClones], *names: str) -> None:
    """Raise Refused when a clone of any instance that cannot be read has one of these names."""
    for there in listings:
        for name in names:
            there.require_readable(name)


def announce(
    ctx: Context, clone: Clone, *, any_port: bool = False, properties: Mapping[str, str] | None = None
) -> Clone:
    """Make the clone's own dataset, with its description: from then on its name and port are its own.

    `any_port`: it gets one of the configured ones, and is returned with it. Raise Taken, and make nothing,
    when the name or port is another's.
    """
    if os.geteuid() == 0:
        # Whoever could put another directory in its place would choose what is found in the clones.
        claim_for_root(ctx.mountpoint)
    with contextlib.ExitStack() as locks:
        if clone.port or any_port or clone.kind == "dev":
            locks.enter_context(exclusive(ctx.claims_lock, "zbackup clone", waiting=ctx.progress.note))
            listings = list_everywhere(ctx)
            require_readable(listings, clone.name)
            others = readable(listings)
            _require_own_name(clone, others)
            if clone.port:
                require_free_port(clone.port, others)
            elif any_port:
                clone = replace(clone, port=_free_port(ctx, {other.port for other, _ in others}))
        _make(ctx, clone, properties or {})
    return clone


def ensure_root(ctx: Context) -> None:
    """Make the dataset that clones go below, if it is not there."""
    if ctx.zfs.exists(ctx.clones):
        return
    mountpoint = {"mountpoint": str(ctx.mountpoint), "canmount": "off"}
    with contextlib.suppress(DatasetExists):  # another recovery was faster
        ctx.zfs.create(ctx.clones, {**mountpoint, ROOT: "1"})


def _make(ctx: Context, clone: Clone, properties: Mapping[str, str]) -> None:
    intent = {INTENT + clone.name: clone.to_property()}
    container = f"{ctx.clones}/{clone.name}"
    own = {**CLONE_PROPERTIES, "mountpoint": str(ctx.mountpoint / clone.name), PROPERTY: clone.to_property()}
    try:
        _intend(ctx, intent)
        ctx.zfs.create(container, {**own, **properties})
    except CommandFailed as failure:
        # A zfs that refused made none. One that was killed, or did not answer, may have: it is known by this.
        if failure.returncode > 0:
            _forget(ctx, clone.name)
        if isinstance(failure, DatasetExists):
            raise _exists(ctx, clone) from failure
        raise
    ctx.zfs.clear_property(ctx.clones, INTENT + clone.name)
    ctx.zfs.mount(container)


def _exists(ctx: Context, clone: Clone) -> Taken:
    """The error that there is such a dataset: another run's, made since it was looked, or none of ours, such
    as a volume, which is not among the file systems that are looked at. Raise Refused where nobody can
    tell."""
    there = read_clones(ctx.zfs, ctx.clones)
    there.require_readable(clone.name)
    _require_own_name(clone, list(there.found))
    return foreign(f"{ctx.clones}/{clone.name}")


def foreign(dataset: str) -> Taken:
    """The error that a dataset of the wanted name is nobody's clone."""
    return Taken(f"{dataset} exists and is no clone of zbackup's: choose another --name")


def _intend(ctx: Context, intent: Mapping[str, str]) -> None:
    try:
        ctx.zfs.set_properties(ctx.clones, intent)
    except DatasetNotFound:
        ensure_root(ctx)
        ctx.zfs.set_properties(ctx.clones, intent)


def _forget(ctx: Context, name: str) -> None:
    """Never hides why the clone was not made."""
    with contextlib.suppress(CommandFailed):
        ctx.zfs.clear_property(ctx.clones, INTENT + name)


def never_made(ctx: Context) -> list[str]:
    """Names of clones of the instance that were to be made, and of which there is no dataset; looks only.

    A dataset of that name that somebody makes later would be taken for what is left of the clone.
    """
    try:
        own = ctx.zfs.own_settings(ctx.clones)
    except DatasetNotFound:
        return []
    meant = {key.removeprefix(INTENT): text for key, text in own.items() if key.startswith(INTENT)}
    return [name for name, text in meant.items() if _is_of(ctx, text) and not _is_there(ctx, name)]


def forget_if_never_made(ctx: Context, name: str) -> None:
    """To be called with nobody else working on the clone."""
    if not _is_there(ctx, name):
        _forget(ctx, name)


def _is_there(ctx: Context, name: str) -> bool:
    return ctx.zfs.exists(f"{ctx.clones}/{name}")


def _is_of(ctx: Context, text: str) -> bool:
    try:
        return from_property(text).instance == ctx.instance
    except ValueError:
        return False


def _require_own_name(clone: Clone, others: list[tuple[Clone, Dataset]]) -> None:
    for other, dataset in others:
        if other.name == clone.name:
            raise Taken(f"{dataset.name} is a clone {clone.name} already: choose another --name")


def require_free_port(port: int, others: list[tuple[Clone, Dataset]]) -> None:
    """Raise Taken when the port belongs to a clone, running or not, or something listens on it."""
    for clone, _ in others:
        if clone.port == port:
            raise Taken(f"port {port} belongs to the clone {clone.name}: choose another --port")
    require_nobody_listens(port)


def require_nobody_listens(port: int) -> None:
    """Raise Taken when a server could not have this port now; 0 is none, and free."""
    if port and (problem := _in_use(port)):
        raise _cannot_be_used(port, problem)


@contextlib.contextmanager
def reserved_ports(*ports: int, host: str = "") -> Iterator[None]:
    """Keep these ports of ours from outgoing connections, which get any that nobody has bound.

    They are those of 127.0.0.1, and of the address that is `host` unless that is "". A server that sets
    SO_REUSEADDR, as all do, can listen there meanwhile (socket(7)). Ports that are 0 are none. Raise Taken
    when one is in use already.
    """
    with contextlib.ExitStack() as bound:
        for address, port in product(filter(None, (LOOPBACK, host)), filter(None, ports)):
            try:
                _bind(bound.enter_context(socket.socket()), port, address)
            except OSError as refused:
                raise _cannot_be_used(port, _why(refused)) from refused
        yield


def _free_port(ctx: Context, taken: set[int]) -> int:
    free = next(_unused(ctx, taken), None)
    if free is None:
        raise _too_few(ctx, taken, free=0, wanted=1)
    return free


def require_free_ports(ctx: Context, wanted: int, others: list[tuple[Clone, Dataset]]) -> None:
    """Raise Taken unless that many of the configured ports are nobody's at this moment."""
    taken = {clone.port for clone, _ in others}
    free = len(list(islice(_unused(ctx, taken), wanted)))
    if free < wanted:
        raise _too_few(ctx, taken, free=free, wanted=wanted)


def free_ports(ctx: Context, wanted: int) -> list[int]:
    """Find `wanted` configured ports that are nobody's at this moment. Raise Taken when there are fewer."""
    others = everywhere(ctx)
    require_free_ports(ctx, wanted, others)
    return list(islice(_unused(ctx, {clone.port for clone, _ in others}), wanted))


def _unused(ctx: Context, taken: set[int]) -> Iterator[int]:
    first, last = ctx.cloning.ports
    return (port for port in range(first, last + 1) if port not in taken and not _in_use(port))


def _too_few(ctx: Context, taken: set[int], *, free: int, wanted: int) -> Taken:
    first, last = ctx.cloning.ports
    clones_have = len(taken & set(range(first, last + 1)))
    others_have = last - first + 1 - clones_have - free
    return Taken(
        f"{wanted} of the ports {first}-{last} wanted, {free} free: {clones_have} belong to clones (running "
        f"or not), {others_have} are used by other programs. Destroy clones, or widen [clones] ports"
    )


def _in_use(port: int) -> str:
    """Return why nobody can listen on it; "" when somebody can."""
    with socket.socket() as probe:
        try:
            _bind(probe, port)
        except OSError as refused:
            return _why(refused)
    return ""


def _bind(probe: socket.socket, port: int, address: str = LOOPBACK) -> None:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind((address, port))


def _why(refused: OSError) -> str:
    return refused.strerror or "it cannot be bound"


def _cannot_be_used(port: int, problem: str) -> Taken:
    return Taken(f"port {port} cannot be used: {problem} (ss -tanp 'sport = :{port}' shows by whom)")
