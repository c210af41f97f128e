"""The settings of the lock under which a snapshot is taken: [instance.NAME.lock]. Times are in seconds."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from zbackup.config import units
from zbackup.config.table import SettingsTable

Seconds = Annotated[float, BeforeValidator(units.duration)]
WholeSeconds = Annotated[float, BeforeValidator(units.whole_duration)]


def short_lock(value: object) -> object:
    """`lock = "ftwrl"` says the same as `lock = { kind = "ftwrl" }`."""
    return {"kind": value} if isinstance(value, str) else value


class Lock(SettingsTable):
    """The lock that holds the server still while a snapshot is taken. `lock = "KIND"` alone works too."""

    kind: Literal["auto", "ftwrl", "backup-stage", "backup-lock", "fsync", "none"] = Field(
        default="auto",
        description="which lock to take; auto takes the gentlest that is exact, and says which",
    )
    wait: WholeSeconds = Field(default=30.0, description="give up when the lock is not granted in this time")
    give_way: WholeSeconds = Field(
        default=2.0,
        description="when ftwrl is not granted in this time, let others go first for as long, and ask again, "
        "each time for twice as long (within `wait`)",
    )
    hold: WholeSeconds = Field(
        default=10.0,
        description="ceiling on holding it, enforced by a watchdog and (except for mongodb) by the "
        "server itself",
    )
    long_query: Seconds = Field(
        default=5.0,
        description="a statement that has run this long would make the lock, and then everybody, wait",
    )
    on_long_query: Literal["wait", "abort", "kill"] = Field(
        default="wait",
        description="what to do about one: wait (within `wait`), abort the snapshot, or kill it",
    )
    kill: Literal["select", "all"] = Field(
        default="select", description="what `kill` may end: only statements that read, or all"
    )
    applier_stop: WholeSeconds = Field(
        default=30.0, description="on a replica: give up when replication does not pause in this time"
    )
