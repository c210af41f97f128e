"""A period for which the log does not show what was committed, and how a record stores it.

A backup's log may end in a file that the server did not close, followed by another file. Then the server
crashed with nothing committed since that backup, or its datasets were rolled back to it and the commits since
are in no log. The files do not show which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from zbackup.model import bounds
from zbackup.model.moment import utc_text

MOST: Final = 16
"""The maximum number of silences in a record; the newest are kept."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The log ends at a backup's `position` and continues in another file. It does not show the commits after
    `after` and up to `to`."""

    position: str
    after: datetime
    to: datetime

    @property
    def told(self) -> str:
        """The message about it."""
        return (
            f"the log does not show what was committed between {utc_text(self.after)} and "
            f"{utc_text(self.to)}: the server did not close the log file after {self.position} and began "
            "another one. Either it crashed with nothing committed since, or its datasets were rolled back"
        )


def to_lines(silences: Sequence[Silence]) -> str:
    """Write the newest of them, one a line."""
    return "\n".join(
        "\t".join((each.position, each.after.isoformat(), each.to.isoformat())) for each in silences[-MOST:]
    )


def from_lines(text: str) -> tuple[Silence, ...]:
    """Parse the text of to_lines(); ignore invalid lines. Whoever receives backups can change them."""
    return tuple(silence for line in text.splitlines()[-MOST:] if (silence := _silence(line)))


def _silence(line: str) -> Silence | None:
    try:
        position, after, to = line.split("\t")
        return Silence(bounds.numbered(position), bounds.moment(after), bounds.moment(to))
    except ValueError:
        return None
