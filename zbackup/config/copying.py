"""Settings of zbackup copy: the account that writes to production, and how gently."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictInt

from zbackup.config import units
from zbackup.config.secret import SecretRef, secret_ref
from zbackup.config.table import SettingsTable

_ADDRESS = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(?::(\d{1,5}))?")

Seconds = Annotated[float, BeforeValidator(units.duration)]
Size = Annotated[int, BeforeValidator(units.size)]
Secret = Annotated[SecretRef, BeforeValidator(secret_ref)]


def addresses(value: object) -> tuple[tuple[str, int], ...]:
    """Hosts with their ports, 0 for the usual one."""
    if isinstance(value, tuple) and not any(isinstance(each, str) for each in value):
        return value
    found = []
    for each in value if isinstance(value, list | tuple) else [value]:
        match = _ADDRESS.fullmatch(each) if isinstance(each, str) else None
        if match is None or int(match[2] or 0) > 65535:
            units.refuse('a list of addresses such as ["10.0.0.2", "db3:3307"]')
        found.append((match[1].strip("[]"), int(match[2] or 0)))
    return tuple(found)


class CopyBack(SettingsTable):
    """The account in production that `zbackup copy` writes with, and how gently it does."""

    user: Annotated[str, Field(min_length=1)] = Field(
        description="an account of yours that may write where tables are copied to"
    )
    password: Secret | None = Field(
        default=None, description="where its password is; leave it out when the socket identifies the account"
    )
    rate: Size | None = Field(default=None, description="bytes a second at most; default: no limit")
    max_running: Annotated[StrictInt, Field(ge=1, le=100_000)] = Field(
        default=25, description="wait while more statements than this run in production (not for mongodb)"
    )
    max_lag: Seconds = Field(
        default=10.0,
        description="wait while a replica is farther behind than this; mongodb: while a member is",
    )
    replicas: Annotated[tuple[tuple[str, int], ...], BeforeValidator(addresses)] = Field(
        default=(),
        description="replicas whose lag counts, where the same account may ask for it (not for mongodb, "
        "which knows its members)",
    )
