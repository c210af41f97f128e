"""Room on disk, in bytes, and what datasets are set to."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool as `zpool list` shows it: `health` is ONLINE when all is well, `fragmentation` in percent.

    `readonly`: it was imported so that nothing on it changes.
    """

    name: str
    size: int
    free: int
    fragmentation: int
    health: str
    readonly: bool = False

    @property
    def free_share(self) -> float:
        """0 to 1."""
        return self.free / self.size if self.size else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSettings:
    """Native properties of one dataset, by name, numbers as they are with `zfs get -p`.

    `above` are those of each dataset above it, the nearest first: their quotas bound it, too.
    """

    name: str
    values: Mapping[str, str] = field(hash=False)
    above: tuple["DatasetSettings", ...] = ()

    def number(self, name: str) -> int:
        """A property that is a number; 0 for `-` and what is not there."""
        text = self.values.get(name, "0")
        return int(text) if text.isdigit() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The space that an instance occupies: its live data, what only its snapshots hold, and its clones."""

    data: int
    snapshots: int
    clones: int
    available: int
    pool: Pool
