"""The journal of what the daemon remembers beside ZFS: how its jobs went.

It may be deleted; only counts are lost then. The daemon's user writes it, and root reads it, too: of what is
in it nothing is believed to be of its kind.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from zbackup.model import bounds
from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.model.json_fields import Moment, from_rows, to_rows
from zbackup.proc import secure_files

FILE = "daemon.json"
VERSION = 1

_MOST = 10**12
"""The most seconds, and failures: no number that nobody can show."""

Failures = Annotated[int, Field(ge=0, lt=_MOST, strict=True)]
Seconds = Annotated[float, Field(gt=-_MOST, lt=_MOST, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """One job of one instance. `failures` are in a row; `error` and `message` are of the last one, or of
    the last that found a difference.

    `last` is the last success and `seconds` how long the last run took; `next` when it is due and `why`.
    """

    instance: str
    job: str
    last: Moment | None = None
    seconds: Seconds | None = None
    failures: Failures = 0
    failed: Moment | None = None
    error: str = ""
    message: str = ""
    next: Moment | None = None
    why: str = ""


_REMEMBERED = TypeAdapter(JobState)


@dataclass(frozen=True, slots=True)
class Journal:
    """A file in `state_dir`, written as a whole, so that a reader never sees half of it."""

    state_dir: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE

    def read(self) -> tuple[JobState, ...]:
        """What is remembered; nothing when there is no file, or none that makes sense, and no job that
        does not."""
        try:
            rows = list(json.loads(secure_files.read_text(self.path))["jobs"])
        except FileNotFoundError:
            return ()
        except (OSError, Refused, ValueError, RecursionError, KeyError, TypeError) as unreadable:
            log.warning("journal.unreadable", file=str(self.path), reason=str(unreadable))
            return ()
        found, wrong = _sensible(rows)
        if wrong:
            log.warning("journal.unreadable", file=str(self.path), reason=wrong[0], forgotten=len(wrong))
        return found

    def write(self, rows: Iterable[JobState]) -> None:
        """Raise OSError or Refused when it cannot be written."""
        secure_files.ensure_directory(self.state_dir)
        # A job a line, for people; `indent` would do without the quick encoder, and this is written often.
        jobs = ",\n".join(json.dumps(to_rows(_REMEMBERED, row)) for row in rows)
        text = f'{{"version": {VERSION}, "jobs": [\n{jobs}\n]}}\n'
        secure_files.replace(self.path, text, mode=0o640)


def _sensible(rows: Iterable[object]) -> tuple[tuple[JobState, ...], list[str]]:
    """The rows that make sense, and what is wrong with each of the others."""
    found, wrong = [], []
    for row in rows:
        try:
            found.append(from_rows(_REMEMBERED, row))
        except ValueError as problem:
            wrong.append(f"{_called(row)}: {problem}")
    return tuple(found), wrong


def _called(row: object) -> str:
    """Name the job that a row is of, as far as it says so."""
    parts = [row.get(part) for part in ("instance", "job")] if isinstance(row, dict) else []
    return bounds.shown("/".join(part for part in parts if isinstance(part, str)) or "a job")
