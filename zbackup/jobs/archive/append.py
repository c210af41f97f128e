"""Carry out what was planned for a log archive, one append after the other."""

import hashlib
from collections.abc import Callable

from zbackup.destinations.base import Archiving
from zbackup.engines.base import LogFollower
from zbackup.model.archive import ArchiveInventory, Chunk
from zbackup.plan.archive import Append, ArchivePlan


def append_all(
    session: Archiving,
    follower: LogFollower,
    plan: ArchivePlan,
    inventory: ArchiveInventory,
    appended: Callable[[ArchiveInventory, Chunk], None],
) -> ArchiveInventory:
    """Append what is planned; `appended` hears of each append, when it is durable, and may raise to stop.

    Return what is there then. Raise what the session and the follower raise: what was appended stays.
    """
    for append in plan.appends:
        inventory, chunk = _append(session, follower, append, inventory)
        appended(inventory, chunk)
    return inventory


def _append(
    session: Archiving, follower: LogFollower, append: Append, inventory: ArchiveInventory
) -> tuple[ArchiveInventory, Chunk]:
    source = append.source
    data, tail = follower.read(source, append.begin, append.end)
    chunk = Chunk(
        begin=append.begin,
        end=append.end,
        sha256=hashlib.sha256(data).hexdigest(),
        tail=tail,
        read=source.read,
        complete_to=append.complete_to,
        closed=append.closed,
    )
    stored = session.append_log(append.file, chunk, data)
    return inventory.with_append(append.file, chunk, stored), chunk
