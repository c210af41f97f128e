"""Hold a time of which a log does not show what was committed, and write it into a record.

Where a backup's log ends in a file that the server did not close, and it goes on in another one, the server
crashed with nothing committed since that backup; or its datasets were rolled back to it, and what had been
committed since is in no log. The files do not tell which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from zbackup.model import bounds
from zbackup.model.moment import utc_text

MOST: Final = 16
"""Silences that are written down, at most: the newest."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The log ends at `position`, of a backup, and goes on in another file: of the moments after `after` and
    up to `to` it tells nothing."""

    position: str
    after: datetime
    to: datetime

    @property
    def told(self) -> str:
        """The whole of it, for people."""
        return (
            f"the log does not show what was committed between {utc_text(self.after)} and "
            f"{utc_text(self.to)}: its file was not closed behind {self.position}, and another one follows "
            "it. Either the server crashed with nothing committed since, or its datasets were rolled back"
        )


def to_lines(silences: Sequence[Silence]) -> str:
    """Write the newest of them, one a line."""
    return "\n".join(
        "\t".join((each.position, each.after.isoformat(), each.to.isoformat())) for each in silences[-MOST:]
    )


def from_lines(text: str) -> tuple[Silence, ...]:
    """Read back what to_lines() wrote; lines that make no sense are none. Whoever receives backups can
    change them."""
    return tuple(silence for line in text.splitlines()[-MOST:] if (silence := _silence(line)))


def _silence(line: str) -> Silence | None:
    try:
        position, after, to = line.split("\t")
        return Silence(bounds.numbered(position), bounds.moment(after), bounds.moment(to))
    except ValueError:
        return None
