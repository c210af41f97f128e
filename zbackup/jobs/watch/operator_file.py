"""The file of operators' notes, beside the daemon's memory; commands write it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from zbackup.model import bounds
from zbackup.model.errors import Refused
from zbackup.model.operator_notes import NO_NOTES, Acknowledgement, OperatorNotes, Pause, Problem
from zbackup.proc import secure_files
from zbackup.proc.lock import exclusive

log = structlog.get_logger()

FILE = "operator.json"
LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """`state_dir` has the file, `locks` is a directory for the lock of those who change it."""

    state_dir: Path
    locks: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE

    def read(self) -> OperatorNotes:
        """What was noted; nothing when there is no file, or none that makes sense."""
        try:
            content = json.loads(secure_files.read_text(self.path, LIMIT))
            return OperatorNotes(
                paused={name: _pause(row) for name, row in content["paused"].items()},
                acknowledged={name: _acknowledgement(row) for name, row in content["acknowledged"].items()},
            )
        except FileNotFoundError:
            return NO_NOTES
        except (OSError, Refused, ValueError, KeyError, TypeError, AttributeError) as unreadable:
            log.warning("operator_notes.unreadable", file=str(self.path), reason=str(unreadable))
            return NO_NOTES

    def change(self, to: Callable[[OperatorNotes], OperatorNotes]) -> OperatorNotes:
        """Write down what comes of the notes. Raise Refused or Taken when that is not possible."""
        # No instance's lock can be called so: a name has no dot.
        with exclusive(self.locks / "zbackup.operator.lock", "zbackup"):
            notes = to(self.read())
            try:
                secure_files.ensure_directory(self.state_dir)
                # There is no secret in it, and the daemon may be another user than who writes it.
                secure_files.replace(self.path, _text(notes), mode=0o644)
            except OSError as failure:
                raise Refused(f"{self.path} cannot be written: {failure.strerror}") from failure
        return notes


def with_pause(notes: OperatorNotes, instance: str, pause: Pause | None) -> OperatorNotes:
    """The notes with this pause of the instance, or with none."""
    others = {name: found for name, found in notes.paused.items() if name != instance}
    return replace(notes, paused=others | ({instance: pause} if pause else {}))


def with_acknowledgement(notes: OperatorNotes, instance: str, known: Acknowledgement | None) -> OperatorNotes:
    """The notes with this acknowledgement for the instance, or with none."""
    others = {name: found for name, found in notes.acknowledged.items() if name != instance}
    return replace(notes, acknowledged=others | ({instance: known} if known else {}))


def _text(notes: OperatorNotes) -> str:
    content = {
        "version": 1,
        "paused": {n: {"until": p.until.isoformat(), "reason": p.reason} for n, p in notes.paused.items()},
        "acknowledged": {
            n: {"until": a.until.isoformat(), "reason": a.reason, "problems": [list(p) for p in a.problems]}
            for n, a in notes.acknowledged.items()
        },
    }
    return json.dumps(content, indent=1) + "\n"


def _pause(row: dict[str, Any]) -> Pause:
    return Pause(until=_until(row), reason=str(row["reason"]))


def _acknowledgement(row: dict[str, Any]) -> Acknowledgement:
    problems = tuple(_problem(*each) for each in row["problems"])
    return Acknowledgement(until=_until(row), reason=str(row["reason"]), problems=problems)


def _problem(severity: object, subject: object, key: object = "") -> Problem:
    return Problem(str(severity), str(subject), str(key))


def _until(row: dict[str, Any]) -> datetime:
    return bounds.moment(str(row["until"]))
