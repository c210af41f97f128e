"""The log archive of a destination in memory: transactions of one file, whose offsets count them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.fast.server import UUID, WIDTH
from tests.fast.world import World
from zbackup.destinations.zfs_destination import ZfsSession
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId, server_key
from zbackup.proc.pipeline import Meter

FILE = LogFileId(
    server=server_key(UUID), epoch=0, number=1, follows=None, head="0" * 32, name="binlog.000001"
)


def keep_archives(patch: pytest.MonkeyPatch, world: World) -> None:
    """The sessions of ZFS destinations show what World.archive() has put there."""
    methods: dict[str, Callable[..., Any]] = {
        "archived": lambda _: _archived(world),
        "proven_to": lambda _, archived: archived.complete_to,
        "read_log": lambda _, file, begin, end, meter: _read(world, file, begin, end, meter),
    }
    for name, method in methods.items():
        patch.setattr(ZfsSession, name, method)


def _archived(world: World) -> ArchiveInventory:
    numbers = world.state.archive
    if not numbers:
        return ArchiveInventory(place="there")
    complete = world.server.times[numbers[-1]] + timedelta(microseconds=1)
    size = len(numbers)
    chunk = Chunk(begin=0, end=size, sha256="0" * 64, tail="0" * 32, read=complete, complete_to=complete)
    return ArchiveInventory(place="there", files=(ArchivedFile(file=FILE, last=chunk, complete_to=complete),))


def _read(world: World, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
    assert file == FILE
    numbers = world.door(("archive", "read"), lambda: world.state.archive[begin:end], mutates=False)
    yield from (number.to_bytes(WIDTH, "big") for number in numbers)
