"""A clone: a database server of its own on writable copies of a backup's datasets."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, StrictBool, TypeAdapter

from zbackup.model import bounds
from zbackup.model.cluster import CONFIG, SHARD, is_host
from zbackup.model.json_fields import End, Moment, Number, from_rows, one_text, to_rows
from zbackup.model.switch import Switch

PROPERTY = "zbackup:clone"
INTENT = "zbackup:making."
"""With a clone's name behind it: the description, on the dataset all clones lie below, while it is made."""

State = Literal[
    "building", "ready", "resetting", "promoting", "failed", "destroying", "switching", "switched", "undoing"
]

Kind = Literal["restore", "log", "dev", "copy"]


def _role(value: str) -> str:
    if value not in ("", CONFIG, SHARD):
        raise ValueError(f"{bounds.shown(value)} is no role")
    return value


def _host(value: str) -> str:
    if value and not is_host(value):
        raise ValueError(f"{bounds.shown(value)} is no host")
    return value


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

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    id: str
    name: str
    instance: str
    engine: str
    kind: Kind
    state: State
    created: Moment
    backup: str
    target: str = ""
    reached: str = ""
    port: Number = 0
    read_only: StrictBool = False
    replica_set: str = ""
    cluster: str = ""
    role: Annotated[str, AfterValidator(_role)] = ""
    host: Annotated[str, AfterValidator(_host)] = ""
    login: str = ""
    own_root: StrictBool = False
    memory: Number = 0
    nice: Number = 0
    memory_max: Number = 0
    cpu_quota: Number = 0
    parent: str = ""
    until: End = ""
    protected: End = ""
    warned: StrictBool = False
    stopped: StrictBool = False
    on_boot: StrictBool = False
    masked: StrictBool = False
    replayed: StrictBool = False
    copied: StrictBool = False
    follows: StrictBool = False
    switch: Switch | None = None

    @property
    def address(self) -> str:
        """The address of a cluster's member, as the others know it: SET/HOST:PORT."""
        return f"{self.replica_set}/{self.host or '127.0.0.1'}:{self.port}"

    def to_property(self) -> str:
        """Write it as it stands in the property."""
        return one_text(to_rows(_adapter(), self, without=None if self.switch else {"switch"}))


def from_property(text: str) -> Clone:
    """Read back what to_property wrote. Raise ValueError if it is not that."""
    # Not by validate_json: a path need not be UTF-8, and is in there as Python has it.
    rows = bounds.from_json(text)
    try:
        return from_rows(_adapter(), rows)
    except ValueError as wrong:
        raise ValueError(f"not a clone's description: {wrong}") from wrong


@cache
def _adapter() -> TypeAdapter[Clone]:
    return TypeAdapter(Clone)
