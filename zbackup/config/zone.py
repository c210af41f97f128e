"""The machine's own time zone, by name where the machine knows one."""

import os
from pathlib import Path
from zoneinfo import ZoneInfo

from zbackup.model.moment import zone_named

LOCALTIME = Path("/etc/localtime")


def local_zone() -> ZoneInfo:
    """$TZ if it names a zone, else what /etc/localtime is (a link to), else UTC."""
    if found := zone_named(os.environ.get("TZ", "").removeprefix(":")):
        return found
    return host_zone()


def host_zone(path: Path = LOCALTIME) -> ZoneInfo:
    """The zone of this host for programs that nobody has told another.

    localtime(5): a link into the zone database, whose tail is the zone's name; some systems copy."""
    parts = path.resolve().parts
    for start in range(1, len(parts)):
        if found := zone_named("/".join(parts[start:])):
            return found
    try:
        with path.open("rb") as file:
            return ZoneInfo.from_file(file, key="local time")
    except (OSError, ValueError):
        return ZoneInfo("UTC")
