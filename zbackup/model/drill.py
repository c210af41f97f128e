"""Verdicts of drills, as they are written down: that a backup was restored, or why it could not be.

A verdict is testimony. It is written on this host alone, where the drill was made, and nothing is destroyed
or kept because of one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zbackup.model import bounds
from zbackup.model.printable import printable
from zbackup.model.record import CHUNK, PREFIX

VERDICT = f"{PREFIX}drill"
"""On the first snapshot of a backup of this host: the verdict of the last drill of it."""

DRILLS = f"{PREFIX}drill:"
"""On the dataset that clones are made below, with the instance's name behind it, and :DESTINATION for drills
there: the last verdicts."""

MOST_KEPT = 12
MOST_WHY = 300
MOST_NAME = 256
MOST_SECONDS = 10.0**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of a drill of one backup, which ended `at`.

    `backup` is the identity of the one that was started from and `name` what it is called. `to` is the moment
    that it was brought to. `transactions` is how many were replayed for that (None: the engine does not tell)
    and `tables` how many were checked. `why` is why it failed, "" when it did not.
    """

    backup: str
    name: str
    at: datetime
    to: datetime | None = None
    transactions: int | None = None
    tables: int | None = None
    seconds: float = 0.0
    why: str = ""

    @property
    def passed(self) -> bool:
        return not self.why


def one_line(text: str) -> str:
    """A reason that fits a property and a line."""
    line = printable(" ".join(text.split()))
    return (line if len(line) <= MOST_WHY else f"{line[: MOST_WHY - 3]}...") or "no reason was given"


def remember(verdicts: Sequence[Verdict], verdict: Verdict) -> tuple[Verdict, ...]:
    """With one more, the last few; and the last that passed, however many failed since."""
    found = (*verdicts, verdict)
    kept = found[-MOST_KEPT:]
    passed = [v for v in found if v.passed][-1:]
    return kept if not passed or passed[0] in kept else (*passed, *kept[1:])


def last_passed(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The last that passed; None if none did."""
    return next((v for v in reversed(verdicts) if v.passed), None)


def by_backup(verdicts: Sequence[Verdict]) -> dict[str, Verdict]:
    """Map each backup's identity to the last verdict on it."""
    return {v.backup: v for v in verdicts}


def to_text(verdict: Verdict) -> str:
    """Write a verdict as it stands on a snapshot."""
    return _json(_row(verdict))


def to_list(verdicts: Sequence[Verdict]) -> str:
    """Write verdicts together: as many as a property takes, the oldest are left out."""
    rows = [_row(v) for v in verdicts]
    while len(text := _json(rows)) > CHUNK:
        passed = last_passed(verdicts)
        # The last that passed stays as long as anything else can go.
        victim = 1 if len(rows) > 1 and passed and rows[0] == _row(passed) else 0
        del rows[victim]
    return text


def from_text(text: str) -> Verdict | None:
    """Tell what is written on a snapshot; None for what cannot be understood."""
    try:
        return _verdict(bounds.from_json(text))
    except (ValueError, KeyError, TypeError):
        return None


def from_list(text: str) -> tuple[Verdict, ...]:
    """Tell what is written together; what cannot be understood is left out."""
    try:
        rows = bounds.from_json(text)
    except ValueError:
        return ()
    found = []
    for row in rows if isinstance(rows, list) else ():
        try:
            found.append(_verdict(row))
        except (ValueError, KeyError, TypeError):
            continue
    return tuple(found)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _row(verdict: Verdict) -> dict[str, object]:
    values: dict[str, object] = {
        "backup": verdict.backup,
        "name": verdict.name,
        "at": verdict.at.isoformat(),
        "to": verdict.to.isoformat() if verdict.to else None,
        "transactions": verdict.transactions,
        "tables": verdict.tables,
        "seconds": round(verdict.seconds, 3),
        "why": verdict.why,
    }
    return {name: value for name, value in values.items() if value not in (None, "")}


def _verdict(row: object) -> Verdict:
    if not isinstance(row, dict):
        raise ValueError("it is no verdict")
    to = row.get("to")
    return Verdict(
        backup=bounds.plain(str(row["backup"]), MOST_NAME),
        name=bounds.plain(str(row["name"]), MOST_NAME),
        at=bounds.moment(str(row["at"])),
        to=bounds.moment(str(to)) if to else None,
        transactions=_count(row.get("transactions")),
        tables=_count(row.get("tables")),
        seconds=bounds.seconds(str(row.get("seconds", 0)), MOST_SECONDS),
        why=one_line(str(row["why"])) if row.get("why") else "",
    )


def _count(value: object) -> int | None:
    return None if value is None else bounds.count(str(value))
