"""The time zone that SYSTEM stands for: what a server says of it, and which TZ gives it to another server.

A log says only SYSTEM where NOW() was written into a DATETIME, or ALTER TABLE made one of a TIMESTAMP.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.moment import zone_named

LOCALTIME: Final = "localtime"
"""In Record.server: the zone of the host, by name."""

OFFSETS: Final = "system_zone"
"""In Record.server: what the server itself said of its zone, as `told` writes it. Old records have none."""

ZONES: Final = Path("/usr/share/zoneinfo")

_YEARS_AGO: Final = (20, 10, 5, 2, 1)
"""Not this year: a server goes on by the rules it began with, and new ones may concern months to come."""
_FIRST_YEAR, _LAST_YEAR = 1971, 2037
"""Years that CONVERT_TZ converts on each server (manuals, "CONVERT_TZ")."""

_TOLD: Final = re.compile(r"([0-9]{4}(?:,[0-9]{4}){0,9})((?: [0-9]{4}-[0-9]{2}-[0-9]{2}=-?[0-9]{1,5})+)")
_OFFSET: Final = re.compile(r"(?<!\S)-?[0-9]{1,5}(?!\S)")
_NAME: Final = re.compile("[A-Za-z]{3,6}")
"""Names that TZ may give a zone without brackets (POSIX, "Environment Variables")."""


def years_at(now: datetime) -> tuple[int, ...]:
    """Of which years a server is asked: rules change, and statements convert old times, too."""
    return tuple(year for ago in _YEARS_AGO if (year := now.year - ago) <= _LAST_YEAR)


def ask(connection: Connection, years: Sequence[int]) -> str:
    """Ask a server for its zone, see OFFSETS; "" where it does not say. SYSTEM needs no tables of zones."""
    texts = [f"{at:%Y-%m-%d %H:%M:%S}" for at in _instants(years)]
    each = (f"TIMESTAMPDIFF(SECOND, '{text}', CONVERT_TZ('{text}', '+00:00', 'SYSTEM'))" for text in texts)
    said = connection.one(f"SELECT CONCAT_WS(' ', {', '.join(each)}) AS offsets")["offsets"]
    offsets = [int(offset) for offset in _OFFSET.findall(str(said or ""))]
    return told(years, offsets) if len(offsets) == len(_instants(years)) else ""


def told(years: Sequence[int], offsets: Sequence[int]) -> str:
    """Write down the offsets from UTC, in seconds, at all instants of these years: each change of them."""
    changes = zip(_instants(years), (None, *offsets), offsets, strict=False)
    return " ".join(
        [",".join(map(str, years)), *(f"{at:%Y-%m-%d}={to}" for at, was, to in changes if was != to)]
    )


def of_zone(zone: ZoneInfo, years: Sequence[int]) -> str:
    """What a server in a zone of this host says."""
    here = (at.astimezone(zone).utcoffset() for at in _instants(years))
    return told(years, [int(offset.total_seconds()) for offset in here if offset is not None])


def years_of(recorded: Mapping[str, str]) -> tuple[int, ...]:
    """Of which years the server was asked; () for none, or where what was recorded makes no sense."""
    read = _TOLD.fullmatch(recorded.get(OFFSETS, ""))
    years = tuple(map(int, read[1].split(","))) if read else ()
    return years if all(_FIRST_YEAR <= year <= _LAST_YEAR for year in years) else ()


def zone_for(recorded: Mapping[str, str], zones: Path = ZONES) -> str:
    """What the environment of a server on a clone is to say of the time zone (TZ); "" for nothing.

    That is what was in the server's own environment, or else the zone of its host, unless the server says
    otherwise of itself: then the zone that is called as it calls its own, or a fixed one. A zone that is not
    known here would be UTC.
    """
    if years := years_of(recorded):
        known = _known(recorded, zones)
        same = (name for name, zone in known if of_zone(zone, years) == recorded[OFFSETS])
        if found := next(same, "") or _fixed(recorded):
            return found
    named = dict(_known({LOCALTIME: recorded.get(LOCALTIME, "")}, zones))
    return recorded.get("TZ", "") or next(iter(named), "")


def why_other(recorded: Mapping[str, str], said: str) -> str:
    """Why a server that says this of its zone writes other local times than the one that was recorded;
    "" where it does not, or nobody knows."""
    if recorded.get("time_zone", "SYSTEM") != "SYSTEM" or not years_of(recorded) or said == recorded[OFFSETS]:
        return ""
    name = recorded.get("TZ", "") or recorded.get(LOCALTIME, "")
    what = f"{name or 'of a name that is not recorded'}, {_between(recorded)}"
    remedy = "install the tzdata that it has there" if name else "say which with recovery.server"
    return (
        f"the original's own time zone ({what}) is another one on this host: local times that its log has as "
        f"statements only (NOW() into a DATETIME, ALTER TABLE of a TIMESTAMP to one) may be others; {remedy}"
    )


def _instants(years: Sequence[int]) -> list[datetime]:
    return [datetime(y, m, d, 12, tzinfo=UTC) for y in years for m in range(1, 13) for d in (1, 16)]


def _known(recorded: Mapping[str, str], zones: Path) -> Iterator[tuple[str, ZoneInfo]]:
    """The zones, as TZ names them, that may be the server's and that this host knows, the surest first."""
    for key in ("TZ", LOCALTIME, "system_time_zone"):
        zone = zone_named(recorded.get(key, "").removeprefix(":"))
        if zone and (zones / zone.key).is_file():
            yield recorded[key], zone


def _offsets(recorded: Mapping[str, str]) -> list[int]:
    return [int(change.partition("=")[2]) for change in recorded[OFFSETS].split()[1:]]


def _fixed(recorded: Mapping[str, str]) -> str:
    """The zone that has always had the one offset that was recorded; "" where there were several."""
    offset, *others = _offsets(recorded)
    if others or abs(offset) >= 86_400:
        return ""
    name = recorded.get("system_time_zone", "")
    # There it counts from local time to UTC. With minutes and seconds it is no name of a file.
    name = name if _NAME.fullmatch(name) else f"<{_shown(offset).replace(':', '')}>"
    hours, rest = divmod(abs(offset), 3600)
    return f"{name}{'+' if offset < 0 else '-'}{hours}:{rest // 60:02}:{rest % 60:02}"


def _between(recorded: Mapping[str, str]) -> str:
    return " to ".join(f"UTC{_shown(offset)}" for offset in sorted(set(_offsets(recorded))))


def _shown(offset: int) -> str:
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
