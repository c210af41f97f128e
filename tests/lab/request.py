"""The request of a person or a test to the lab, and what came of it."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
Keep = Literal["never", "after failure", "always"]
TIMED_OUT = 124
"""Exit status of a command that was stopped at its time limit, as timeout(1) has it."""
DIED = 125
"""Exit status when the machine ended without one."""


class BadRequest(ValueError):
    """The words on the command line cannot be understood; the message says what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk of the machine: a file that outlives it when `path` is given, else a new one."""

    path: Path | None = None
    size: int | None = None
    """Bytes of a file that does not exist yet; it takes room only for what is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One command to run as root with real ZFS."""

    command: tuple[str, ...]
    directory: Path
    environment: dict[str, str] = field(repr=False)
    memory: int = 4 << 30
    """Bytes of a guest's memory, taken from the host only as they are touched."""
    disks: tuple[Disk, ...] = ()
    shares: tuple[Path, ...] = ()
    """Directories of the host that a guest may write to, at the same path."""
    visible: tuple[Path, ...] = ()
    """Directories to read besides the command's own, which matters below /tmp, /run and /dev/shm: there a
    guest starts with nothing else."""
    timeout: float | None = None
    """Seconds from the start of the machine."""
    keep: Keep = "never"
    """When to leave the disks and the kernel log where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the command ended."""

    status: int
    trouble: str | None = None
    """Why there is no exit status of the command itself; with the place of the kernel log."""
    kept: tuple[Path, ...] = ()
    """Files that were left as the request wished: the disks, in order, then the run's directory."""


def parse_size(text: str) -> int:
    """`4G` -> bytes; raises BadRequest."""
    match = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise BadRequest(f"expected a size such as 512M or 4G, got {text!r}")
    return int(match[1]) * UNITS[match[2].upper()]


def parse_disk(text: str) -> Disk:
    """`4G` is a new disk, `PATH` an existing one, `PATH:4G` one that is made when missing."""
    if "/" not in text:
        return Disk(size=parse_size(text))
    path, colon, size = text.rpartition(":")
    if colon and "/" not in size:
        return Disk(path=Path(path).absolute(), size=parse_size(size))
    return Disk(path=Path(text).absolute())


def parse_duration(text: str) -> float:
    """`90`, `90s`, `15m` or `1h` -> seconds; raises BadRequest."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise BadRequest(f"expected a duration such as 90s or 15m, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
