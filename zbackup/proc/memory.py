"""The memory of this machine that is free."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
ARCSTATS = Path("/proc/spl/kstat/zfs/arcstats")
OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")

_NEVER = "2"
"""Linux promises no more memory than there is (kernel documentation, vm/overcommit-accounting)."""


def available() -> int | None:
    """Bytes that programs of ours can have, None where nobody says.

    ZFS gives back what is in its cache, which Linux does not count as such. A container or a service may be
    given less than the machine has.
    """
    try:
        info = _numbers(MEMINFO, 1024)
        free = info["MemAvailable:"]
    except (OSError, ValueError, KeyError):
        return None
    with suppress(OSError, ValueError, IndexError):
        rows = (line.split() for line in ARCSTATS.read_text().splitlines())
        arc = {words[0]: int(words[2]) for words in rows if len(words) == 3 and words[2].isdigit()}
        free += max(0, arc.get("size", 0) - arc.get("c_min", 0))
    with suppress(OSError, KeyError):
        if OVERCOMMIT.read_text().strip() == _NEVER:
            free = min(free, info["CommitLimit:"] - info["Committed_AS:"])
    return max(0, min((free, *_left_in_groups())))


def _left_in_groups() -> Iterator[int]:
    """Bytes left in each control group of ours that has a limit (kernel documentation, cgroup-v2)."""
    try:
        lines = GROUP.read_text().splitlines()
    except OSError:
        return
    ours = Path(next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), ""))
    for group in (GROUPS / ours, *(GROUPS / above for above in ours.parents)):
        # The root has no limit, and says "max" where there is none.
        with suppress(OSError, ValueError):
            most, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
            # Of files that nobody reads just now it gives back what is in memory.
            yield most - used + _numbers(group / "memory.stat").get("inactive_file", 0)


def _numbers(file: Path, unit: int = 1) -> dict[str, int]:
    """The lines of a name and a number."""
    rows = (line.split() for line in file.read_text().splitlines())
    return {words[0]: int(words[1]) * unit for words in rows if len(words) > 1}
