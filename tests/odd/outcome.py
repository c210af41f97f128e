"""The outcome of a story, and what it is judged by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(kw_only=True)
class Outcome:
    """How it went. `problems` break the law; `notes` are what was said of what does not restore."""

    row: Mapping[str, str]
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A moment to restore: as it is given, what the data were then, or the journal to judge by.

    `lost`: its log is nowhere, and the restore is refused.
    """

    name: str
    to: str
    at: datetime | None = None
    sums: Mapping[str, Any] | None = None
    worlds: Mapping[str, Any] | None = None
    lost: bool = False


def differing(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What is not as it was, in lines."""
    lines = []
    for key in sorted(wanted.keys() | found.keys()):
        one, other = wanted.get(key), found.get(key)
        if one == other:
            continue
        if isinstance(one, list) and isinstance(other, list):
            lines += [f"{key} lacks {row}" for row in one if row not in other]
            lines += [f"{key} has {row}" for row in other if row not in one]
            if not lines:
                lines = [f"{key}: another order"]
        else:
            lines.append(f"{key} was {one}, is {other}")
    return lines
