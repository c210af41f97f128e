"""The settings of how an instance's server is stopped and started, for the one command that has to: zbackup
switch."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from zbackup.config import units
from zbackup.config.table import SettingsTable
from zbackup.model import switch

Seconds = Annotated[float, BeforeValidator(units.duration)]
Argv = Annotated[tuple[str, ...], BeforeValidator(units.argv)]

_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.service")


def unit_name(value: object) -> str:
    """The name of a systemd service, such as "mysql.service"."""
    if not isinstance(value, str) or not _UNIT.fullmatch(value) or value.startswith("-"):
        units.refuse('a systemd service such as "mysql.service"')
    return value


class ServiceSettings(SettingsTable):
    """The commands by which `zbackup switch` stops and starts the server: `unit`, or `stop` and `start`."""

    unit: Annotated[str, BeforeValidator(unit_name)] | None = Field(
        default=None, description='its systemd unit, such as "mysql.service"'
    )
    stop: Argv | None = Field(
        default=None,
        description="a program that stops it and returns when it has ended, or a list of it and "
        "its arguments",
    )
    start: Argv | None = Field(
        default=None, description="the same to start it; it must not leave its output open"
    )
    limit: Seconds = Field(
        default=300.0, description="give up when stopping, starting or the first answer takes longer"
    )

    def orders(self) -> switch.ServiceCommands:
        """The two programs, whichever way they were given."""
        return switch.ServiceCommands(
            stop=self.stop or ("systemctl", "stop", "--", self.unit or ""),
            start=self.start or ("systemctl", "start", "--", self.unit or ""),
            limit=self.limit,
            by_systemd=self.unit is not None,
        )
