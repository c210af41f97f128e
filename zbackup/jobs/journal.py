"""The journal of what the daemon remembers beside ZFS: how its jobs went.

It may be deleted; only counts are lost then. The daemon's user writes it, and root reads it, too: of what is
in it nothing is believed to be of its kind.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.proc import secure_files

FILE = "daemon.json"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One job of one instance. `failures` are in a row; `error` and `message` are of the last one, or of
    the last that found a difference.

    `last` is the last success and `seconds` how long the last run took; `next` when it is due and `why`.
    """

    instance: str
    job: str
    last: datetime | None = None
    seconds: float | None = None
    failures: int = 0
    failed: datetime | None = None
    error: str = ""
    message: str = ""
    next: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Journal:
    """A file in `state_dir`, written as a whole, so that a reader never sees half of it."""

    state_dir: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE

    def read(self) -> tuple[Remembered, ...]:
        """Tell what is remembered; nothing when there is no file, or none that makes sense."""
        try:
            rows = json.loads(secure_files.read_text(self.path))["jobs"]
            return tuple(_from(row) for row in rows)
        except FileNotFoundError:
            return ()
        except (
            OSError,
            Refused,
            ValueError,
            OverflowError,
            RecursionError,
            KeyError,
            TypeError,
        ) as unreadable:
            log.warning("journal.unreadable", file=str(self.path), reason=str(unreadable))
            return ()

    def write(self, rows: Iterable[Remembered]) -> None:
        """Raise OSError or Refused when it cannot be written."""
        secure_files.ensure_directory(self.state_dir)
        # A job a line, for people; `indent` would do without the quick encoder, and this is written often.
        jobs = ",\n".join(json.dumps(_to(row)) for row in rows)
        text = f'{{"version": {VERSION}, "jobs": [\n{jobs}\n]}}\n'
        secure_files.replace(self.path, text, mode=0o640)


_TIMES = ("last", "failed", "next")
_TEXTS = ("instance", "job", "error", "message", "why")
_MOST = 10**12
"""Of seconds, and of failures: no number that nobody can show."""


def _to(row: Remembered) -> dict[str, Any]:
    values = {f.name: getattr(row, f.name) for f in fields(row)}
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in values.items()}


def _from(row: object) -> Remembered:
    if not isinstance(row, dict):
        raise TypeError("a job is no object")
    known = {f.name for f in fields(Remembered)}
    values = {key: value for key, value in row.items() if key in known}
    for name in _TIMES:
        if values.get(name) is not None:
            values[name] = _time(name, values[name])
    found = Remembered(**values)
    if not all(isinstance(getattr(found, name), str) for name in _TEXTS):
        raise TypeError("a text is none")
    if type(found.failures) is not int or not isinstance(found.seconds, int | float | None):
        raise TypeError("a number is none")
    if not (0 <= found.failures < _MOST and abs(found.seconds or 0) < _MOST):
        raise ValueError("a number is out of range")
    return found


def _time(name: str, text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{name} has no time zone")
    found = found.astimezone(UTC)
    if not 1 < found.year < 9999:
        raise ValueError(f"{name} is no time that all zones have")
    return found
