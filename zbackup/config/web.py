"""Settings of what the web page is told."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from zbackup.config import units
from zbackup.config.table import Table


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        units.refuse('a list of users, such as ["zbackup-web"]')
    return tuple(value)


class Web(Table):
    """The answers of `zbackup helper --read` to `zbackup web`, which has no rights of its own."""

    readers: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(
        default=("zbackup-web",),
        description="users who may read backups, moments and statements that changed tables, by its socket; "
        "root may",
    )
