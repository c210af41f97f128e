"""Carry out what was planned for a log archive, one append after the other."""

import hashlib
from collections.abc import Callable

from zbackup.destinations.base import Archiving
from zbackup.engines.base import LogFollower
from zbackup.model.archive import TAIL, ArchiveInventory, Chunk, tail_hash
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
    # What the file ends with is read with what is appended, so that both are of one file.
    before = max(0, min(append.begin, append.end - TAIL))
    read = follower.read(source, before, append.end)
    data = read[append.begin - before :]
    chunk = Chunk(
        begin=append.begin,
        end=append.end,
        sha256=hashlib.sha256(data).hexdigest(),
        tail=tail_hash(read),
        read=source.read,
        complete_to=append.complete_to,
        closed=append.closed,
    )
    stored = session.append_log(append.file, chunk, data)
    return inventory.with_append(append.file, chunk, stored), chunk
