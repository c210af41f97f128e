"""A clone: a database server of its own on writable copies of a backup's datasets."""

import json
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal, get_args

from zbackup.model import bounds
from zbackup.model.cluster import CONFIG, SHARD, is_host
from zbackup.model.switch import Switch, from_values

PROPERTY = "zbackup:clone"
INTENT = "zbackup:making."
"""With a clone's name behind it: the description, on the dataset all clones lie below, while it is made."""

MOST_NUMBER = 2**63
_NUMBERS = ("port", "memory", "nice", "memory_max", "cpu_quota")
_FLAGS = ("read_only", "own_root", "warned", "stopped", "on_boot", "masked", "replayed", "copied", "follows")
_ENDS = ("until", "protected")
_KINDS: dict[str, type] = dict.fromkeys(_NUMBERS, int) | dict.fromkeys(_FLAGS, bool)

State = Literal[
    "building", "ready", "resetting", "promoting", "failed", "destroying", "switching", "switched", "undoing"
]

Kind = Literal["restore", "log", "dev", "copy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """The description that is written on a clone's dataset. That property is the registry; there is no other.

    `id` marks the datasets that belong to it. `kind` "log" is the short-lived copy a log is read from, and
    "copy" what was fetched from a destination to recover from.
    `target` is the moment it was recovered to and `reached` its last transaction, both for people.
    `port` is 0 without TCP, `replica_set` "" for a server that is in none. State "building" means that it
    was never handed over, "failed" that it was kept for a look all the same. `cluster` is the restore of a
    sharded cluster that it was made by, NAME.ID, and `role` what it is in that; "" outside of one. `host` is
    what its port is on in addition to 127.0.0.1, "" for nothing.

    Of dev clones: `login` is the user whose password is in the clone's password file, "" when production's
    accounts were kept; `own_root`: it, and who was one in production, is an administrator. `memory`, `nice`,
    `memory_max` and `cpu_quota` are its server's. `parent` is the clone it was made from. `until` is the end
    of its lease and `protected` of its protection ("" for none, ISO 8601), `warned` whether its end was
    announced. `stopped`: somebody stopped it; `on_boot`: it is started when the host was. `masked`: the
    instance's masking was done. `replayed`: it is of a moment, not of a snapshot. `copied`: it depends on no
    snapshot any more. `follows`: it is a replica of production.

    Of a clone that takes or took production's place (zbackup switch): `switch` is how; what is left of it
    here is this description. State "switching" or "undoing" means that it is under way, or was cut short.
    """

    id: str
    name: str
    instance: str
    engine: str
    kind: Kind
    state: State
    created: datetime
    backup: str
    target: str = ""
    reached: str = ""
    port: int = 0
    read_only: bool = False
    replica_set: str = ""
    cluster: str = ""
    role: str = ""
    host: str = ""
    login: str = ""
    own_root: bool = False
    memory: int = 0
    nice: int = 0
    memory_max: int = 0
    cpu_quota: int = 0
    parent: str = ""
    until: str = ""
    protected: str = ""
    warned: bool = False
    stopped: bool = False
    on_boot: bool = False
    masked: bool = False
    replayed: bool = False
    copied: bool = False
    follows: bool = False
    switch: Switch | None = None

    @property
    def address(self) -> str:
        """The address of a cluster's member, as the others know it: SET/HOST:PORT."""
        return f"{self.replica_set}/{self.host or '127.0.0.1'}:{self.port}"

    def to_property(self) -> str:
        values = asdict(self) | {"created": self.created.isoformat()}
        if self.switch:
            values["switch"] |= {"at": self.switch.at.isoformat()}
        else:
            del values["switch"]
        return json.dumps(values, separators=(",", ":"), sort_keys=True)


def from_property(text: str) -> Clone:
    """Read back what to_property wrote. Raise ValueError if it is not that."""
    values = bounds.from_json(text)
    if not isinstance(values, dict):
        raise ValueError(f"not a clone's description: {bounds.shown(text)}")
    try:
        switch = from_values(values["switch"]) if "switch" in values else None
        created = bounds.moment(values["created"])
        clone = Clone(**(values | {"created": created, "switch": switch}))
    except (KeyError, TypeError, AttributeError) as wrong:
        raise ValueError(f"not a clone's description: {wrong}") from wrong
    _require_sound(clone)
    ends: dict[str, Any] = {
        name: bounds.end(at).isoformat() for name in _ENDS if (at := getattr(clone, name))
    }
    return replace(clone, **ends)


def _require_sound(clone: Clone) -> None:
    """Raise ValueError unless every value is of its kind and within bounds."""
    if clone.state not in get_args(State) or clone.kind not in get_args(Kind):
        raise ValueError(f"not a clone's description: state {clone.state!r}, kind {clone.kind!r}")
    if clone.role not in ("", CONFIG, SHARD):
        raise ValueError(f"not a clone's description: role {bounds.shown(str(clone.role))}")
    if clone.host and not is_host(str(clone.host)):
        raise ValueError(f"not a clone's description: host {bounds.shown(str(clone.host))}")
    for each in fields(clone):
        value, kind = getattr(clone, each.name), _KINDS.get(each.name, str)
        if each.name not in ("created", "switch") and type(value) is not kind:
            raise ValueError(f"not a clone's description: {each.name} is no {kind.__name__}")
        if kind is int and not 0 <= value < MOST_NUMBER:
            raise ValueError(f"not a clone's description: {each.name} is {bounds.shown(str(value))}")
