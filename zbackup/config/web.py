"""Settings of what the web page is told."""

from typing import Annotated

from pydantic import BeforeValidator, Field, StrictBool

from zbackup.config import units
from zbackup.config.table import Table


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        units.refuse('a list of users, such as ["zbackup-web"]')
    return tuple(value)


class Web(Table):
    """The answers of `zbackup helper --read` to `zbackup web`, which has no rights of its own, and what
    `zbackup helper --clones` does for it."""

    readers: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        default=("zbackup-web",),
        description="users who may read backups, moments and statements that changed tables, by its socket; "
        "root may",
    )
    clones: StrictBool = Field(
        default=False,
        description="whether they may have dev clones made, reset, extended and destroyed, and restores "
        "started, by the socket of zbackup-cloner.socket; production is never touched from there",
    )
