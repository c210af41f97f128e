"""The log archive of a destination in memory: transactions of one file, whose offsets count them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.fast.server import UUID, WIDTH
from tests.fast.world import World
from zbackup.destinations.zfs_destination import ZfsSession
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId, server_key, tail_hash
from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Meter

FILE = LogFileId(
    server=server_key(UUID), epoch=0, number=1, follows=None, head="0" * 32, name="binlog.000001"
)

SECOND = replace(FILE, number=2, follows=0, name="binlog.000002")


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
        return ArchiveInventory(address="there")
    complete = world.server.times[numbers[-1]] + timedelta(microseconds=1)
    size = len(numbers)
    chunk = Chunk(begin=0, end=size, sha256="0" * 64, tail="0" * 32, read=complete, complete_to=complete)
    return ArchiveInventory(
        address="there", files=(ArchivedFile(file=FILE, last=chunk, complete_to=complete),)
    )


def _read(world: World, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
    assert file == FILE
    numbers = world.door(("archive", "read"), lambda: world.state.archive[begin:end], mutates=False)
    yield from (number.to_bytes(WIDTH, "big") for number in numbers)


def in_two_files(patch: pytest.MonkeyPatch, world: World) -> None:
    """The last transaction is in a file of its own, which is damaged."""
    whole = _archived(world).files[0]
    count = whole.size - 1
    complete = world.server.times[world.state.archive[-2]] + timedelta(microseconds=1)
    first = Chunk(
        begin=0, end=count, sha256="0" * 64, tail="0" * 32, read=complete, complete_to=complete, closed=True
    )
    last = replace(whole.last, end=1)
    files = (
        ArchivedFile(file=FILE, last=first, complete_to=complete),
        ArchivedFile(file=SECOND, last=last, complete_to=whole.complete_to),
    )

    def read(_: object, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        if file == SECOND:
            raise VerificationFailed("binlog.000002 is damaged")
        return _read(world, file, begin, end, meter)

    patch.setattr(ZfsSession, "archived", lambda _: ArchiveInventory(address="there", files=files))
    patch.setattr(ZfsSession, "read_log", read)


def with_a_short_epoch(patch: pytest.MonkeyPatch, world: World) -> None:
    """A newer epoch has the same transactions, but the last, and says that it has more."""
    (whole,) = _archived(world).files
    numbers = world.state.archive
    content = b"".join(number.to_bytes(WIDTH, "big") for number in numbers)
    whole = replace(whole, last=replace(whole.last, tail=tail_hash(content)))
    later = whole.last.read + timedelta(hours=1)
    last = replace(whole.last, end=whole.size - 1, complete_to=later, read=later)
    short = ArchivedFile(file=replace(FILE, epoch=7), last=last, complete_to=later)

    def read(_: object, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        return _read(world, FILE, begin, end, meter)

    patch.setattr(ZfsSession, "archived", lambda _: ArchiveInventory(address="there", files=(whole, short)))
    patch.setattr(ZfsSession, "read_log", read)


def with_an_unreadable_epoch(patch: pytest.MonkeyPatch, world: World) -> None:
    """A newer epoch says that it has the same transactions, and nothing of it can be read."""
    with_a_short_epoch(patch, world)

    def read(_: object, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        if file.epoch == 7:
            raise VerificationFailed("its first chunk is damaged")
        return _read(world, FILE, begin, end, meter)

    patch.setattr(ZfsSession, "read_log", read)


def gone_while_read(patch: pytest.MonkeyPatch, world: World) -> None:
    """A prune takes away the file when it is read first."""

    def read(_: object, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        world.state.archive = ()
        raise VerificationFailed(f"{file} is not in the archive")

    patch.setattr(ZfsSession, "read_log", read)


def held_while_read(patch: pytest.MonkeyPatch, world: World) -> list[set[str]]:
    """Notes, at each read, which snapshots are held by whom reads: the list grows."""
    found: list[set[str]] = []

    def read(_: object, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        held = (s for s in world.pools.all_snapshots() if any("restore" in tag for tag in s.holds))
        found.append({str(s) for s in held})
        return _read(world, file, begin, end, meter)

    patch.setattr(ZfsSession, "read_log", read)
    return found
