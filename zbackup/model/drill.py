"""Verdicts of drills, as they are written down: that a backup was restored, or why it could not be.

A verdict is testimony. It is written on this host alone, where the drill was made, and nothing is destroyed
or kept because of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainSerializer, TypeAdapter

from zbackup.model import bounds
from zbackup.model.json_fields import Count, Moment, one_text, to_rows
from zbackup.model.long_value import CHUNK
from zbackup.model.printable import printable
from zbackup.model.record import PREFIX

VERDICT = f"{PREFIX}drill"
"""On the first snapshot of a backup of this host: the verdict of the last drill of it."""

DRILLS = f"{PREFIX}drill:"
"""On the dataset that clones are made below, with the instance's name behind it, and :DESTINATION for drills
there: the last verdicts."""

MOST_KEPT = 12
MOST_WHY = 300
MOST_NAME = 256
MOST_SECONDS = 10.0**9


def one_line(text: str) -> str:
    """A reason that fits a property and a line."""
    line = printable(" ".join(text.split()))
    return (line if len(line) <= MOST_WHY else f"{line[: MOST_WHY - 3]}...") or "no reason was given"


def _why(text: str) -> str:
    return one_line(text) if text else ""


Name = Annotated[str, AfterValidator(partial(bounds.plain, most=MOST_NAME))]
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS), PlainSerializer(partial(round, ndigits=3))]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillVerdict:
    """The verdict of a drill of one backup, which ended `at`.

    `backup` is the identity of the one that was started from and `name` what it is called. `to` is the moment
    that it was brought to. `transactions` is how many were replayed for that (None: the engine does not tell)
    and `tables` how many were checked; `unchecked` how many the server would not check, None for none.
    `why` is why it failed, "" when it did not.
    """

    backup: Name
    name: Name
    at: Moment
    to: Moment | None = None
    transactions: Count | None = None
    tables: Count | None = None
    unchecked: Count | None = None
    seconds: Seconds = 0.0
    why: Annotated[str, AfterValidator(_why)] = ""

    @property
    def passed(self) -> bool:
        return not self.why


@cache
def _verdict() -> TypeAdapter[DrillVerdict]:
    return TypeAdapter(DrillVerdict)


def remember(verdicts: Sequence[DrillVerdict], verdict: DrillVerdict) -> tuple[DrillVerdict, ...]:
    """With one more, the last few; and the last that passed, however many failed since."""
    found = (*verdicts, verdict)
    kept = found[-MOST_KEPT:]
    passed = [v for v in found if v.passed][-1:]
    return kept if not passed or passed[0] in kept else (*passed, *kept[1:])


def last_passed(verdicts: Sequence[DrillVerdict]) -> DrillVerdict | None:
    """The last that passed; None if none did."""
    return next((v for v in reversed(verdicts) if v.passed), None)


def by_backup(verdicts: Sequence[DrillVerdict]) -> dict[str, DrillVerdict]:
    """Map each backup's identity to the last verdict on it."""
    return {v.backup: v for v in verdicts}


def to_text(verdict: DrillVerdict) -> str:
    """Write a verdict as it stands on a snapshot."""
    return one_text(_row(verdict))


def to_list(verdicts: Sequence[DrillVerdict]) -> str:
    """Write verdicts together: as many as a property takes, the oldest are left out."""
    rows = [_row(v) for v in verdicts]
    while len(text := one_text(rows)) > CHUNK:
        passed = last_passed(verdicts)
        # The last that passed stays as long as anything else can go.
        victim = 1 if len(rows) > 1 and passed and rows[0] == _row(passed) else 0
        del rows[victim]
    return text


def from_text(text: str) -> DrillVerdict | None:
    """What is written on a snapshot; None for what cannot be understood."""
    try:
        return _verdict().validate_python(bounds.from_json(text))
    except ValueError:
        return None


def from_list(text: str) -> tuple[DrillVerdict, ...]:
    """What is written together; what cannot be understood is left out."""
    try:
        rows = bounds.from_json(text)
    except ValueError:
        return ()
    found = []
    for row in rows if isinstance(rows, list) else ():
        try:
            found.append(_verdict().validate_python(row))
        except ValueError:
            continue
    return tuple(found)


def _row(verdict: DrillVerdict) -> dict[str, Any]:
    return {name: value for name, value in to_rows(_verdict(), verdict).items() if value not in (None, "")}
