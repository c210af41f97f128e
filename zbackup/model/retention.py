"""Words for how long backups are kept."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

Unit = Literal["minute", "hour", "day", "week", "month", "year"]

_ADVERBS = {"hour": "hourly", "day": "daily", "week": "weekly", "month": "monthly", "year": "yearly"}

KEEP_AT_DESTINATION = timedelta(days=366)
"""For how long after it was taken a sender's own keep date counts at a destination: who may add backups there
is not to fill it for good."""

FOREVER = datetime.max.replace(tzinfo=UTC)
"""The end of what is kept without one."""

CONDEMNED = "zbackup:condemned"
"""Property on a backup that a prune has begun to destroy: what is left of it then may go too."""


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time by the calendar: two days are two days also when clocks are changed."""

    count: int
    unit: Unit

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'s' if self.count != 1 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Keep one backup for each calendar period of `step`, for as long as `span` (None: for ever)."""

    step: Span
    span: Span | None

    @property
    def name(self) -> str:
        """`hourly`, `daily` or `every 5 minutes`."""
        if self.step.count == 1 and self.step.unit in _ADVERBS:
            return _ADVERBS[self.step.unit]
        return f"every {self.step}" if self.step.count > 1 else f"every {self.step.unit}"

    def __str__(self) -> str:
        return f"{self.name} for {self.span}" if self.span else f"{self.name} forever"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The retention policy: keep by `tiers`, and the newest `last` too; and what no tier may take away.

    At least `minimum` backups remain, and every moment of the last `window` stays within reach if it is.
    `keep_at_most` bounds for how long after it was taken a backup's own keep date counts; None: as it says.
    """

    tiers: tuple[Tier, ...] = ()
    last: int = 0
    minimum: int = 2
    window: Span = Span(7, "day")
    keep_at_most: timedelta | None = None

    @property
    def empty(self) -> bool:
        """Nothing says what to keep. Then everything is kept."""
        return not self.tiers and not self.last


EMPTY = Retention()
"""Nothing is ever destroyed."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a backup stays.

    `rule` is what backups are counted by (`hourly`, `the newest`), `about` what it says of this one (its
    period, a date). `until` is the moment up to which the rule keeps it, whatever else is taken; None: that
    is not known.
    """

    rule: str
    about: str = ""
    tier: Tier | None = field(default=None, compare=False)
    until: datetime | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.rule} {self.about}" if self.about else self.rule
