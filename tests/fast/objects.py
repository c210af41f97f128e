"""The contents of pools: file systems, snapshots, bookmarks, and streams of them."""

from dataclasses import dataclass, field
from typing import Any


class ZfsError(Exception):
    """What zfs says on stderr, and its exit status."""

    def __init__(self, said: str, status: int = 1, printed: str = "") -> None:
        """`printed` is what it had put out before."""
        super().__init__(said)
        self.said, self.status, self.printed = said, status, printed


@dataclass(slots=True, eq=False)
class Snapshot:
    """Of the file system `of`; `files` is what it held."""

    of: "FileSystem"
    name: str
    guid: int
    txg: int
    creation: int
    properties: dict[str, str]
    files: dict[str, Any]
    holds: dict[str, int] = field(default_factory=dict)
    looked_into: int = 0

    def __str__(self) -> str:
        return f"{self.of.name}@{self.name}"


@dataclass(slots=True, eq=False)
class Bookmark:
    """What a stream can start from although its snapshot is gone."""

    guid: int
    txg: int
    creation: int


@dataclass(slots=True, eq=False)
class Stream:
    """What `zfs send` writes: one snapshot, from nothing or from the one with the guid `base`."""

    name: str
    guid: int
    base: int
    creation: int
    files: dict[str, Any]
    source: str


@dataclass(slots=True, eq=False)
class FileSystem:
    """`mounted` is where, None for nowhere; `users` have files open in it; `partial` arrived in part.

    A `volume` is none, and takes a name as one does.
    """

    name: str
    guid: int
    txg: int
    creation: int
    properties: dict[str, str]
    origin: Snapshot | None = None
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    bookmarks: dict[str, Bookmark] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    mounted: str | None = None
    users: set[str] = field(default_factory=set)
    partial: Stream | None = None
    volume: bool = False

    @property
    def newest(self) -> Snapshot | None:
        return next(reversed(self.snapshots.values()), None)
