"""The journal of what the daemon remembers beside ZFS: how its jobs went.

It may be deleted; only counts are lost then.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from zbackup.model.errors import Refused
from zbackup.proc import secure_files

log = structlog.get_logger()

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
        except (OSError, Refused, ValueError, KeyError, TypeError) as unreadable:
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


def _to(row: Remembered) -> dict[str, Any]:
    values = {f.name: getattr(row, f.name) for f in fields(row)}
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in values.items()}


def _from(row: dict[str, Any]) -> Remembered:
    known = {f.name for f in fields(Remembered)}
    values = {key: value for key, value in row.items() if key in known}
    for name in _TIMES:
        if values.get(name) is not None:
            values[name] = datetime.fromisoformat(values[name])
            if values[name].tzinfo is None:
                raise ValueError(f"{name} has no time zone")
    return Remembered(**values)
