"""The fake behind zbackup's doors: the runner of commands, and the pipes between two of them."""

import struct
from collections.abc import Callable, Sequence

from tests.fast.objects import Stream, ZfsError
from tests.fast.pool import Pools
from tests.fast.script import Said
from tests.fast.zfs import FakeZfs
from zbackup.model.errors import CommandFailed
from zbackup.proc.pipeline import Command, Meter
from zbackup.zfs.stream_content import Content

SIZE = 4096
"""Bytes of every stream, as far as anybody counts them."""


def answer(zfs: FakeZfs, argv: Sequence[str]) -> Said:
    """As a shell would see it."""
    try:
        return Said(0, zfs(argv), "")
    except ZfsError as failure:
        return Said(failure.status, failure.printed, f"{failure.said}\n")


def run(zfs: FakeZfs, argv: Sequence[str]) -> str:
    """As proc.run.run, without a program."""
    try:
        return zfs(argv)
    except ZfsError as failure:
        raise CommandFailed(tuple(argv), failure.status, f"{failure.said}\n") from failure


def transfer(zfs: FakeZfs, sender: Command, receiver: Command, meter: Meter, *, cut: bool = False) -> int:
    """As proc.pipeline.transfer; `cut`: the stream ends in its middle."""
    try:
        stream = zfs.send(sender.argv)
    except ZfsError as failure:
        raise sender.failure(failure.status, failure.said) from failure
    if receiver.head is not None:
        receiver.head.require(head(stream)[: receiver.head.size])
    try:
        zfs.receive(receiver.argv, stream, cut=cut)
    except ZfsError as failure:
        raise receiver.failure(failure.status, failure.said) from failure
    meter.moved(SIZE)
    return SIZE


def read_content(zfs: FakeZfs, sender: Command, most: int, meter: Meter) -> Content:
    """As zfs.stream_content.read_content."""
    try:
        stream = zfs.send(sender.argv)
    except ZfsError as failure:
        raise sender.failure(failure.status, failure.said) from failure
    return Content(SIZE, repr(sorted(stream.files.items())), whole=not most)


def head(stream: Stream) -> bytes:
    """The first record of the stream: DRR_BEGIN of one file system's snapshot."""
    layout = "<IIQQQIIQQ"
    return struct.pack(layout, 0, 0, 0x2F5BACBAC, 1, stream.creation, 2, 0, stream.guid, stream.base).ljust(
        312, b"\0"
    )


def play_fake() -> tuple[FakeZfs, Callable[..., tuple[Said, Said]]]:
    """A pool for the script, and its streams."""
    zfs = FakeZfs(Pools())
    zfs.pools.create("lab.fake", {"mountpoint": "/lab"})

    def stream(send: tuple[str, ...], receive: tuple[str, ...], cut: bool) -> tuple[Said, Said]:
        try:
            sent = zfs.send(send)
        except ZfsError as failure:
            said = Said(failure.status, "", f"{failure.said}\n")
            return said, Said(1, "", "cannot receive: failed to read from stream\n")
        try:
            zfs.receive(receive, sent, cut=cut)
        except ZfsError as failure:
            return Said(0, "", ""), Said(failure.status, "", f"{failure.said}\n")
        return Said(0, "", ""), Said(0, "", "")

    return zfs, stream
