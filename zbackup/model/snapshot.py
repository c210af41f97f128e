"""Words for what ZFS knows about datasets and their snapshots."""

from dataclasses import dataclass
from datetime import datetime

from zbackup.model.command_line import command_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A ZFS file system. `mountpoint` is where it is mounted now, None if it is not.

    `snapdir` is the property: with "disabled" (OpenZFS 2.3) nobody can look into the snapshots. `origin` is
    the snapshot that it is a clone of, "" for none.
    """

    name: str
    guid: int
    mountpoint: str | None
    snapdir: str = "hidden"
    origin: str = ""

    @property
    def pool(self) -> str:
        return self.name.partition("/")[0]

    @property
    def closed(self) -> str:
        """Return why its snapshots cannot be read, with the remedy; "" when they can."""
        if self.snapdir != "disabled":
            return ""
        return (
            f"{self.name} has snapdir=disabled, so its snapshots cannot be read: "
            f"{command_line('zfs', 'set', 'snapdir=hidden', self.name)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One ZFS snapshot of one dataset. Two are the same when their guids are; names may be reused.

    Sizes are bytes. `properties` are the user properties set on the snapshot itself (never inherited).
    """

    dataset: str
    name: str
    guid: int
    createtxg: int
    created: datetime
    used: int = 0
    written: int = 0
    holds: int = 0
    clones: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.created.tzinfo is None:
            raise ValueError(f"{self}: creation time has no time zone")

    def __str__(self) -> str:
        return f"{self.dataset}@{self.name}"
