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
    """A moment to restore: as it is given, what the data were then, or the journal to judge by."""

    name: str
    to: str
    at: datetime | None = None
    sums: Mapping[str, Any] | None = None
