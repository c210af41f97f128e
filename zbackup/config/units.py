"""Durations, sizes, names and paths as people write them in the configuration."""

import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import NoReturn
from zoneinfo import ZoneInfo

from pydantic_core import PydanticCustomError

from zbackup.model.moment import nearest_zone, zone_named

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?")
_SIZE_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_PERCENT = re.compile(r"([1-9][0-9]{0,4})%")
_DATASET_COMPONENT = re.compile(r"[A-Za-z0-9_.: -]+")
_INSTANCE = re.compile(r"[a-z0-9][a-z0-9_-]*")

# The longest dataset name ZFS takes, and one snapshot or clone name of ours has to fit behind it.
_LONGEST_DATASET = 255
_LONGEST_INSTANCE = 40


def refuse(expected: str, near: str = "") -> NoReturn:
    """Reject a value: `expected` completes "expected ...", `near` is what may have been meant."""
    raise PydanticCustomError("expected", "{expected}", {"expected": expected, "near": near})


def duration(value: object) -> float:
    """Seconds, from "30s", "1h30m" or "500ms"."""
    parts = _DURATION_PART.findall(value) if isinstance(value, str) else []
    if not parts or "".join(n + unit for n, unit in parts) != value:
        refuse('a duration such as "30s", "5m" or "1h30m"')
    return sum(float(n) * _SECONDS[unit] for n, unit in parts)


def whole_duration(value: object) -> float:
    """Seconds, at least one: what database servers count their own limits in."""
    seconds = duration(value)
    if not 1 <= seconds <= timedelta(days=1).total_seconds():
        refuse('a duration from "1s" to "24h"')
    return seconds


def size(value: object) -> int:
    """Bytes, from "256MiB", "1GiB" or "64K": always powers of 1024."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        refuse('a size such as "256MiB" or "1GiB"')
    return int(float(match[1]) * 1024 ** _SIZE_POWER[match[2]])


def memory(value: object) -> int:
    """A size a database server can start with."""
    bytes_ = size(value)
    if bytes_ < 16 * 1024**2:
        refuse('at least "16MiB"')
    return bytes_


def percent(value: object) -> int:
    """Parse "150%"; 0 is no limit."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        refuse('a share of the CPUs such as "50%" or "200%"')
    return int(match[1])


def absolute_path(value: object) -> Path:
    if not isinstance(value, str | Path) or not Path(value).is_absolute() or "\0" in str(value):
        refuse("an absolute path")
    return Path(value)


def dataset(value: object) -> str:
    """A ZFS dataset name. The rules are those of zfs(8), "Dataset Names"."""
    if not isinstance(value, str) or not dataset_name_is_valid(value):
        near = value.strip("/") if isinstance(value, str) and value.startswith("/") else ""
        refuse('the name of a ZFS dataset such as "tank/mysql"', near if dataset_name_is_valid(near) else "")
    return value


def dataset_name_is_valid(name: str) -> bool:
    parts = name.split("/")
    return (
        len(name) <= _LONGEST_DATASET
        and name[:1].isascii()
        and name[:1].isalpha()
        and all(_DATASET_COMPONENT.fullmatch(p) and p not in (".", "..") and p == p.strip() for p in parts)
    )


def some(value: object) -> object:
    """A list with something in it; what is in it is looked at elsewhere."""
    if not isinstance(value, list | tuple) or not value:
        refuse('a list such as ["tank/mysql"]')
    return value


def instance_name_is_valid(name: str) -> bool:
    """Short, lower case, and harmless in dataset names, file names and units."""
    return len(name) <= _LONGEST_INSTANCE and _INSTANCE.fullmatch(name) is not None


def zone(value: object) -> ZoneInfo:
    if isinstance(value, ZoneInfo):
        return value
    found = zone_named(value) if isinstance(value, str) else None
    if found is None:
        refuse('a time zone such as "Europe/Berlin" or "UTC"', nearest_zone(str(value)))
    return found


def _words(line: str) -> list[str]:
    """The words of what may be a shell's command line; [] if it is none."""
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _absolute(program: str) -> str:
    return program if program.startswith("/") else f"/usr/bin/{program}"


def argv(value: object) -> tuple[str, ...]:
    """A program, alone or with arguments. Never split: a path may hold spaces."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) and w for w in words):
        refuse('a program such as "/usr/sbin/mysqld", or a list of it and its arguments')
    if len(words) == 1 and not Path(words[0]).exists() and len(parts := _words(words[0])) > 1:
        shown = ", ".join(f'"{part}"' for part in (_absolute(parts[0]), *parts[1:]))
        refuse(f"the program and each of its arguments by itself: [{shown}]")
    if not Path(words[0]).is_absolute():
        refuse("the program's absolute path")
    return tuple(str(w) for w in words)
