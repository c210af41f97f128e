"""Settings of dev clones: the ports they get, and what each instance's clones are like."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictInt

from zbackup.config import units
from zbackup.config.secret import SecretRef, secret_ref
from zbackup.config.table import SettingsTable
from zbackup.model.cloning import DEFAULTS, OnBoot

_PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
LOWEST_PORT = 1024

Seconds = Annotated[float, BeforeValidator(units.duration)]
Memory = Annotated[int, BeforeValidator(units.memory)]
Size = Annotated[int, BeforeValidator(units.size)]
Secret = Annotated[SecretRef, BeforeValidator(secret_ref)]
Argv = Annotated[tuple[str, ...], BeforeValidator(units.argv)]


def port_range(value: object) -> tuple[int, int]:
    """First and last port of a range such as "23100-23199"."""
    if isinstance(value, tuple):
        return value
    match = _PORTS.fullmatch(value) if isinstance(value, str) else None
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not LOWEST_PORT <= first <= last <= 65535:
        units.refuse('a range of ports such as "23100-23199"')
    return first, last


class MaskSettings(SettingsTable):
    """One step of masking: either `sql` or `run`."""

    sql: Annotated[str, BeforeValidator(lambda v: str(units.absolute_path(v)))] | None = Field(
        default=None, description="a file of SQL statements (not for mongodb)"
    )
    run: Argv | None = Field(default=None, description="a program, or a list of it and its arguments")


class Replica(SettingsTable):
    """The way to production of a clone made with `--as-replica-of` (mysql and mariadb)."""

    host: Annotated[str, Field(min_length=1)] = Field(
        default="127.0.0.1", description="where production listens"
    )
    port: Annotated[StrictInt, Field(ge=1, le=65535)] = Field(default=3306, description="its port")
    user: Annotated[str, Field(min_length=1)] = Field(
        description="an account of yours that has REPLICATION SLAVE"
    )
    password: Secret = Field(description="where its password is")


class ClonePool(SettingsTable):
    """The settings that all instances' dev clones share."""

    ports: Annotated[tuple[int, int], BeforeValidator(port_range)] = Field(
        default=DEFAULTS.ports, description="port range on 127.0.0.1 for clones, one each"
    )


class CloneSettings(SettingsTable):
    """The settings of an instance's dev clones (`zbackup clone create`)."""

    memory: Memory = Field(default=DEFAULTS.memory, description="buffer pool of a clone's server")
    lease: Seconds | None = Field(
        default=DEFAULTS.lease,
        description="the daemon destroys a clone so long after it was made; default: never",
    )
    quota: Size = Field(
        default=DEFAULTS.quota, description="how much a clone may grow (ZFS quota); 0: as the pool allows"
    )
    reservation: Size = Field(
        default=DEFAULTS.reservation, description="room that is kept for a clone (ZFS reservation)"
    )
    nice: Annotated[StrictInt, Field(ge=0, le=19)] = Field(
        default=DEFAULTS.limits.nice,
        description="how far a clone's server steps back behind others, see nice(1)",
    )
    memory_max: Memory = Field(
        default=DEFAULTS.limits.memory,
        description="how much memory a clone's server may have in all, by systemd; 0: no limit",
    )
    cpu_quota: Annotated[int, BeforeValidator(units.percent)] = Field(
        default=DEFAULTS.limits.cpu,
        description='how much of the CPUs, by systemd: "150%" is one and a half; 0: no limit',
    )
    start: OnBoot = Field(
        default=DEFAULTS.start, description="whether the daemon starts clones again when the host was started"
    )
    own_root: bool = Field(
        default=DEFAULTS.own_root,
        description="whether developers get an account that may do everything on their clone; "
        "default: all that a developer needs",
    )
    mask: tuple[MaskSettings, ...] = Field(
        default=(),
        description='what is done to a clone before others can reach it: a list of { sql = "FILE" } '
        'and { run = ["PROGRAM", "ARGUMENT"] }',
        examples=['[{ sql = "/etc/zbackup/mask.sql" }]'],
    )
    replica: Replica | None = Field(
        default=None, description="how clones that are to be replicas reach production"
    )
    mask_limit: Seconds = Field(
        default=DEFAULTS.mask_limit, description="such a program is ended when it takes longer"
    )
    warn: Seconds = Field(
        default=DEFAULTS.warn, description="`on_warning` is run so long before a lease's end"
    )
    on_warning: Argv | None = Field(default=None, description="program to run before a lease ends")
