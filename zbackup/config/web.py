"""Settings of what the web page is told."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictBool

from zbackup.config import units
from zbackup.config.table import SettingsTable

Seconds = Annotated[float, BeforeValidator(units.duration)]


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        units.refuse('a list of users, such as ["zbackup-web"]')
    return tuple(value)


def _datasets(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(name, str) and units.dataset_name_is_valid(name) for name in value
    ):
        units.refuse('a list of datasets, such as ["tank/backups"]')
    return tuple(value)


def _files(value: object) -> tuple[Path, ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(name, str) and name.startswith("/") and name.isprintable() for name in value
    ):
        units.refuse('a list of files, such as ["/var/lib/zbackup/fleet/bucket.json"]')
    return tuple(map(Path, value))


class Web(SettingsTable):
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
    fleet: Annotated[tuple[str, ...], BeforeValidator(_datasets)] = Field(
        default=(),
        description="datasets of this host below which others' backups are received, which `zbackup fleet` "
        "and the page show; with them there need be no instance",
    )
    fleet_reports: Annotated[tuple[Path, ...], BeforeValidator(_files)] = Field(
        default=(),
        description="files that `zbackup fleet ADDRESS --report FILE` writes on a timer of yours, which are "
        "shown beside `fleet`: what lies in a bucket or on another host; only root's and the daemon's are "
        "believed",
    )
    fleet_max_age: Seconds | None = Field(
        default=None,
        description="how much of an instance may be exposed there before it is critical; default: no limit",
    )

    @property
    def shows_fleet(self) -> bool:
        """Whether there is a fleet to be shown."""
        return bool(self.fleet or self.fleet_reports)
