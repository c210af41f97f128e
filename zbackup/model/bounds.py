"""Values that somebody else may have written: read within bounds, or refused with ValueError.

Properties of copies and the pages of a bucket are anybody's word. What passes here can be calculated with
later: no number is too long for int(), no moment so far out that arithmetic on it leaves the calendar.
"""

import json
import math
import re
from datetime import UTC, datetime
from typing import Final

from zbackup.model.printable import is_plain

EARLIEST: Final = datetime(1980, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)

MOST_TEXT: Final = 1 << 20
"""Characters of any value: the GTID set of a server with a very long history has a tenth of it."""
MOST_MOMENT: Final = 64
MOST_DIGITS: Final = 20
"""Digits of one number: what 64 bits take."""
_SHOWN: Final = 40

_NUMBER = re.compile(rf"[0-9]{{1,{MOST_DIGITS}}}")
_ZFS_NAME = re.compile(r"[A-Za-z0-9_.: -]+(?:/[A-Za-z0-9_.: -]+)*")
MOST_ZFS_NAME: Final = 255
_LONG_NUMBER = re.compile(rf"[0-9]{{{MOST_DIGITS + 1}}}")


def shown(value: str) -> str:
    """Cut a value to what a message may hold."""
    return ascii(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")


def strings(line: str, fields: frozenset[str]) -> dict[str, str]:
    """The values of one JSON object that has exactly these fields, all of them strings."""
    try:
        found = json.loads(line)
    except RecursionError as deep:
        raise ValueError("nested too deeply") from deep
    if not isinstance(found, dict) or set(found) != fields:
        raise ValueError("not an object of these fields")
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError("not all of it is text")
    return found


def moment(value: str) -> datetime:
    """A time with its zone, in ISO 8601, of a year in which there are backups."""
    if len(value) > MOST_MOMENT:
        raise ValueError(f"{shown(value)} is no time")
    found = datetime.fromisoformat(value)
    # Without its zone a time could not be compared with any other.
    if found.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    if not EARLIEST <= found < LATEST:
        raise ValueError(f"{value} is not between {EARLIEST.year} and {LATEST.year}")
    return found


def end(value: str) -> datetime:
    """A time with its zone that somebody on this host asked for; one that is farther than that is meant as
    "for ever", and is the last that can be calculated with."""
    if len(value) > MOST_MOMENT:
        raise ValueError(f"{shown(value)} is no time")
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return min(max(found, EARLIEST), LATEST)


def count(value: str, most: int = 2**64 - 1) -> int:
    """A number that is not negative."""
    if not _NUMBER.fullmatch(value) or int(value) > most:
        raise ValueError(f"{shown(value)} is no number up to {most}")
    return int(value)


def seconds(value: str, most: float) -> float:
    """A finite length of time that is not negative."""
    found = float(value) if len(value) <= MOST_MOMENT else math.nan
    if not 0 <= found <= most:
        raise ValueError(f"{shown(value)} is no number of seconds up to {most:g}")
    return found


def text(value: str, most: int = MOST_TEXT) -> str:
    """At most this many characters."""
    if len(value) > most:
        raise ValueError(f"it has {len(value)} characters, and {most} are the most")
    return value


def no_nul(value: str, most: int = MOST_TEXT) -> str:
    """The same with no NUL, which no path and no word of a command line can hold."""
    if "\0" in text(value, most):
        raise ValueError(f"{shown(value)} holds a NUL")
    return value


def plain(value: str, most: int) -> str:
    """At most this many characters on one line, without control characters: a name."""
    if not is_plain(text(value, most)):
        raise ValueError(f"{shown(value)} holds control characters")
    return value


def zfs_name(value: str) -> str:
    """What ZFS may call a dataset, or a snapshot without its dataset."""
    if not _ZFS_NAME.fullmatch(text(value, MOST_ZFS_NAME)) or ".." in value.split("/"):
        raise ValueError(f"{shown(value)} is no name of a dataset")
    return value


def numbered(value: str, most: int = MOST_TEXT) -> str:
    """The same, of which every number can be read: a position in a log, or a set of GTIDs."""
    if found := _LONG_NUMBER.search(plain(value, most)):
        raise ValueError(f"it holds a number of more than {MOST_DIGITS} digits: {shown(found[0])}")
    return value


def from_json(value: str) -> object:
    """What a JSON text says."""
    try:
        return json.loads(text(value))
    except RecursionError as deep:
        raise ValueError("it is no JSON of ours (nested too deeply)") from deep
    except ValueError as damaged:
        raise ValueError(f"it is no JSON ({damaged})") from damaged
