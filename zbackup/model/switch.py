"""Words for a switch: a recovered clone takes production's place, and production's datasets step aside."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from zbackup.model.json_fields import Count, Moment

Outcome = Literal["switched", "undone"]

_WRITTEN = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCommands:
    """The commands that stop and start an instance's server, as argv; `limit` is in seconds, for each of
    them.

    `by_systemd`: an order outlives whoever waits for it, and to start what runs changes nothing.
    """

    stop: tuple[str, ...]
    start: tuple[str, ...]
    limit: float
    by_systemd: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedAside:
    """A dataset of production's that steps aside. `name` is what it is called there, `mountpoint` where it is
    mounted ("" if it is not), and `own` the settings of its own that it cannot keep while it is aside."""

    __pydantic_config__: ClassVar = _WRITTEN

    name: str
    guid: Count
    mountpoint: str
    own: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """Part `number` of the clone, which is to be called `name` and mounted at `mountpoint`.

    `origin` is the guid of the snapshot it is a clone of, and `owner` that of the dataset which had it.
    """

    __pydantic_config__: ClassVar = _WRITTEN

    number: Count
    name: str
    guid: Count
    mountpoint: str
    origin: Count
    owner: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The intent, written down before anything is done. `roots` are the datasets that are renamed, those
    below them come along; `suffix` is what their names get behind them."""

    __pydantic_config__: ClassVar = _WRITTEN

    at: Moment
    suffix: str
    roots: tuple[str, ...]
    leaving: tuple[SteppedAside, ...]
    coming: tuple[Coming, ...]

    def aside(self, name: str) -> str:
        """What a dataset of production's is called while it is aside."""
        root = next(r for r in self.roots if name == r or name.startswith(r + "/"))
        return root + self.suffix + name.removeprefix(root)

    def place_aside(self, mountpoint: str) -> str:
        """Where it is mounted then: never below what takes its place."""
        known = [each.mountpoint for each in self.leaving if each.mountpoint]
        tops = [m for m in known if mountpoint == m or mountpoint.startswith(m.rstrip("/") + "/")]
        top = min(tops, key=len, default=mountpoint)
        return top + self.suffix + mountpoint.removeprefix(top)
