"""The file of operators' notes, beside the daemon's memory; commands write it."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.model.json_fields import from_rows, to_rows
from zbackup.model.operator_notes import NO_NOTES, Acknowledgement, OperatorNotes, Pause
from zbackup.proc import secure_files
from zbackup.proc.lock import exclusive

FILE = "operator.json"
LIMIT = 1 << 20

Note = TypeVar("Note")


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """`state_dir` has the file, `locks` is a directory for the lock of those who change it."""

    state_dir: Path
    locks: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE

    def read(self) -> OperatorNotes:
        """Read the operators' notes, but for those that make no sense; none when there is no file."""
        notes, problems = self._read()
        for problem in problems:
            log.warning("operator_notes.unreadable", file=str(self.path), reason=problem)
        return notes

    def _read(self) -> tuple[OperatorNotes, list[str]]:
        """The notes that make sense, and what is wrong with the others."""
        try:
            content = json.loads(secure_files.read_text(self.path, LIMIT))
            tables = {kind: content[kind].items() for kind in ("paused", "acknowledged")}
        except FileNotFoundError:
            return NO_NOTES, []
        except (
            OSError,
            Refused,
            ValueError,
            RecursionError,
            KeyError,
            TypeError,
            AttributeError,
        ) as unreadable:
            return NO_NOTES, [str(unreadable) or type(unreadable).__name__]
        problems: list[str] = []
        return OperatorNotes(
            paused=_rows("paused", tables["paused"], TypeAdapter(Pause), problems),
            acknowledged=_rows(
                "acknowledged", tables["acknowledged"], TypeAdapter(Acknowledgement), problems
            ),
        ), problems

    def change(self, to: Callable[[OperatorNotes], OperatorNotes]) -> OperatorNotes:
        """Write down what comes of the notes. Raise Refused or Taken when that is not possible, as where some
        cannot be read: they would be lost."""
        # No instance's lock can be called so: a name has no dot.
        with exclusive(self.locks / "zbackup.operator.lock", "zbackup"):
            before, problems = self._read()
            if problems:
                raise Refused(
                    f"{self.path} cannot be read ({problems[0]}), and what is in it would be lost: put it "
                    "right, or move it away"
                )
            notes = to(before)
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
    return json.dumps({"version": 1} | to_rows(TypeAdapter(OperatorNotes), notes), indent=1) + "\n"


def _rows(
    kind: str, rows: Iterable[tuple[str, object]], adapter: TypeAdapter[Note], problems: list[str]
) -> dict[str, Note]:
    """The rows that make sense; of the others a line each is added to `problems`."""
    found = {}
    for name, row in rows:
        try:
            found[name] = from_rows(adapter, row)
        except ValueError as wrong:
            problems.append(f"{kind}.{name}: {wrong}")
    return found
