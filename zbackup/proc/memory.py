"""The memory of this machine that is free."""

from contextlib import suppress
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
ARCSTATS = Path("/proc/spl/kstat/zfs/arcstats")


def available() -> int | None:
    """Bytes that programs can have, None where nobody says.

    ZFS gives back what is in its cache, which Linux does not count as such.
    """
    try:
        lines = (line.split() for line in MEMINFO.read_text().splitlines())
        free = next(int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    with suppress(OSError, ValueError, IndexError):
        rows = (line.split() for line in ARCSTATS.read_text().splitlines())
        arc = {words[0]: int(words[2]) for words in rows if len(words) == 3 and words[2].isdigit()}
        free += max(0, arc.get("size", 0) - arc.get("c_min", 0))
    return free
