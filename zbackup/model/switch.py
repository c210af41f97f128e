"""Words for a switch: a recovered clone takes production's place, and production's datasets step aside."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from zbackup.model import bounds

Outcome = Literal["switched", "undone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The commands that stop and start an instance's server, as argv; `limit` is in seconds, for each of
    them.

    `by_systemd`: an order outlives whoever waits for it, and to start what runs changes nothing.
    """

    stop: tuple[str, ...]
    start: tuple[str, ...]
    limit: float
    by_systemd: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """A dataset of production's that steps aside. `name` is what it is called there, `mountpoint` where it is
    mounted ("" if it is not), and `own` the settings of its own that it cannot keep while it is aside."""

    name: str
    guid: int
    mountpoint: str
    own: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """Part `number` of the clone, which is to be called `name` and mounted at `mountpoint`.

    `origin` is the guid of the snapshot it is a clone of, and `owner` that of the dataset which had it.
    """

    number: int
    name: str
    guid: int
    mountpoint: str
    origin: int
    owner: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The intent, written down before anything is done. `roots` are the datasets that are renamed, those
    below them come along; `suffix` is what their names get behind them."""

    at: datetime
    suffix: str
    roots: tuple[str, ...]
    leaving: tuple[Leaving, ...]
    coming: tuple[Coming, ...]

    def aside(self, name: str) -> str:
        """Tell what a dataset of production's is called while it is aside."""
        root = next(r for r in self.roots if name == r or name.startswith(r + "/"))
        return root + self.suffix + name.removeprefix(root)

    def place_aside(self, mountpoint: str) -> str:
        """Tell where it is mounted then: never below what takes its place."""
        known = [each.mountpoint for each in self.leaving if each.mountpoint]
        tops = [m for m in known if mountpoint == m or mountpoint.startswith(m.rstrip("/") + "/")]
        top = min(tops, key=len, default=mountpoint)
        return top + self.suffix + mountpoint.removeprefix(top)


def from_values(values: Mapping[str, Any]) -> Switch:
    """Read back what dataclasses.asdict made, by way of JSON. Raise KeyError, TypeError or ValueError."""
    return Switch(
        at=bounds.moment(values["at"]),
        suffix=str(values["suffix"]),
        roots=tuple(values["roots"]),
        leaving=tuple(
            Leaving(**(row | {"own": tuple((str(k), str(v)) for k, v in row["own"])}))
            for row in values["leaving"]
        ),
        coming=tuple(Coming(**row) for row in values["coming"]),
    )
