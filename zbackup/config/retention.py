"""Retention as people write it: "every 5 minutes for 2 hours", "daily for 30 days", "yearly forever"."""

import difflib
import re
from collections.abc import Callable
from itertools import product
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictInt

from zbackup.config.table import SettingsTable
from zbackup.config.units import refuse
from zbackup.model.retention import EMPTY, Span, Tier, Unit

_UNITS: dict[str, Unit] = {
    "minute": "minute",
    "hour": "hour",
    "day": "day",
    "week": "week",
    "month": "month",
    "year": "year",
}
_ADVERBS = {
    "hourly": Span(1, "hour"),
    "daily": Span(1, "day"),
    "weekly": Span(1, "week"),
    "monthly": Span(1, "month"),
    "quarterly": Span(3, "month"),
    "yearly": Span(1, "year"),
}
_LETTERS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks", "y": "years"}
_UNIT = "(minute|hour|day|week|month|year)s?"
_TIER = re.compile(
    rf"(?:(?P<adverb>{'|'.join(_ADVERBS)})|every (?:(?P<step>[0-9]+) )?(?P<unit>{_UNIT}))"
    rf" (?:forever|for (?P<count>[0-9]+) (?P<span>{_UNIT}))"
)
_SPAN = re.compile(rf"([0-9]+) {_UNIT}")
_MINUTES = {"minute": 1, "hour": 60, "day": 1440, "week": 10080, "month": 44640, "year": 527040}
_MOST = 9999
_WORDS = ("every", "for", "forever", *_ADVERBS, *(word for u in _UNITS for word in (u, u + "s")))
_TIERS = 'a rule such as "every 5 minutes for 2 hours", "daily for 30 days" or "yearly forever"'
_SPANS = 'a span of time such as "7 days" or "36 hours"'


def tier(value: object) -> Tier:
    """A rule of what to keep and for how long."""
    if isinstance(value, Tier):
        return value
    found = _tier(value) if isinstance(value, str) else None
    if found is None:
        refuse(_TIERS, _meant(value, _tier))
    return found


def span(value: object) -> Span:
    """A span of time by the calendar."""
    if isinstance(value, Span):
        return value
    found = _span(value) if isinstance(value, str) else None
    if found is None:
        refuse(_SPANS, _meant(value, _span))
    return found


def tiers(value: object) -> object:
    """A list of rules; what is in it is looked at elsewhere."""
    if not isinstance(value, list | tuple):
        refuse('a list such as ["hourly for 2 days", "daily for 30 days"]')
    return value


def _tier(text: str) -> Tier | None:
    match = _TIER.fullmatch(text)
    if match is None:
        return None
    step = _ADVERBS[match["adverb"]] if match["adverb"] else _counted(match["step"] or "1", match["unit"])
    length = _counted(match["count"], match["span"]) if match["count"] else None
    if step is None or (match["count"] and length is None):
        return None
    if length is not None and _minutes(length) < _minutes(step):
        refuse(f"a rule that lasts at least as long as its step ({step})")
    return Tier(step=step, span=length)


def _span(text: str) -> Span | None:
    match = _SPAN.fullmatch(text)
    return _counted(match[1], match[2]) if match else None


def _counted(count: str, unit: str) -> Span | None:
    number = int(count)
    return Span(number, _UNITS[unit.removesuffix("s")]) if 1 <= number <= _MOST else None


def _minutes(span: Span) -> int:
    return span.count * _MINUTES[span.unit]


def _meant(value: object, read: Callable[[str], object]) -> str:
    """What somebody may have meant who wrote `value`: words spelt right, small ones put in."""
    if not isinstance(value, str):
        return ""
    words = _spelt(value)
    for prefix, gap in product(((), ("every",)), (None, *range(1, len(words)))):
        tried = [*prefix, *words[:gap], *(("for", *words[gap:]) if gap is not None else ())]
        text = " ".join(tried)
        if read(text) is not None:
            return text
    forever = " ".join((*words, "forever"))
    return forever if read(forever) is not None else ""


def _spelt(text: str) -> list[str]:
    """The words of a text, each as the known word it is most like; "5m" is two."""
    found: list[str] = []
    for number, word in re.findall(r"([0-9]+)|([a-z]+)", text.lower()):
        if number:
            found.append(number)
        elif found and found[-1].isdigit() and word in _LETTERS:
            found.append(_LETTERS[word])
        else:
            found += difflib.get_close_matches(word, _WORDS, n=1, cutoff=0.6) or [word]
    return found


Tiers = Annotated[tuple[Annotated[Tier, BeforeValidator(tier)], ...], BeforeValidator(tiers)]
Period = Annotated[Span, BeforeValidator(span)]


class RetentionSettings(SettingsTable):
    """The retention policy of `zbackup prune`. Without `keep` and `last` it keeps all."""

    keep: Tiers = Field(
        default=(),
        description="rules such as `hourly for 2 days`: the first backup of each period, for that long",
    )
    last: StrictInt = Field(
        default=EMPTY.last, ge=0, le=10000, description="number of newest backups to keep, whatever the rules"
    )
    minimum: StrictInt = Field(
        default=EMPTY.minimum,
        ge=1,
        le=10000,
        description="number of backups to keep even when no rule keeps them",
    )
    window: Period = Field(
        default=EMPTY.window,
        description="any moment of this last time stays restorable: nothing that takes is destroyed",
    )
