"""Settings of the log archive: where an instance's log is archived while it is written, and how often."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from zbackup.config import units
from zbackup.config.lines import Problem
from zbackup.config.ship import default_name, parse_address
from zbackup.config.table import SettingsTable
from zbackup.model.archive import ArchiveRules

LEAST_S, MOST_S = 1.0, 3600.0


def interval(value: object) -> float:
    """Seconds, at least one."""
    seconds = units.duration(value)
    if not LEAST_S <= seconds <= MOST_S:
        units.refuse('a duration from "1s" to "1h"')
    return seconds


class Archive(SettingsTable):
    """The log archive: at these destinations the server's log is appended to while it is written."""

    to: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(units.some)] = Field(
        description="names of destinations ([[instance.NAME.ship]]) that the log is archived at"
    )
    every: Annotated[float, BeforeValidator(interval)] = Field(
        default=5.0,
        description="how often what was written since is appended; about this much is lost with the host",
    )

    def rules(self) -> ArchiveRules:
        return ArchiveRules(to=self.to, every=self.every)


def of_archive(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    """Destinations that there are not."""
    archive = table.get("archive")
    if not isinstance(archive, dict):
        return
    rows = table.get("ship")
    known = [name for row in (rows if isinstance(rows, list) else []) if (name := _named(row))]
    names = archive.get("to")
    for name in names if isinstance(names, list) else []:
        if isinstance(name, str) and name not in known:
            there = f"there is {', '.join(known)}" if known else "there is none: add [[instance.NAME.ship]]"
            yield ("archive", "to"), f'there is no destination "{name}"; {there}'


def _named(row: object) -> str:
    if not isinstance(row, dict):
        return ""
    try:
        return row.get("name") or default_name(parse_address(row.get("to")))
    except PydanticCustomError:
        return ""
