"""The history of the daemon's jobs: a line for each run, in a file that is set aside when it is long.

It may be deleted; only the past is lost then.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.model.run import JobRun
from zbackup.proc import secure_files

FILE, BEFORE = "history.jsonl", "history.old.jsonl"
MOST_BYTES = 1 << 20
"""The size of each of the two: some 14,000 runs together."""
MOST_SAID = 1000
MOST_SHOWN = 500
"""Runs that are told, and as many failures."""
_RUN = TypeAdapter(JobRun)


@dataclass(frozen=True, slots=True)
class JobHistory:
    """Two files in `state_dir`: what was written last, and what before."""

    state_dir: Path

    def add(self, run: JobRun) -> None:
        """Write a run down. Raise OSError or Refused when it cannot be."""
        path = self.state_dir / FILE
        secure_files.ensure_directory(self.state_dir)
        with secure_files.open_to_append(path) as file:
            file.write(_RUN.dump_json(run) + b"\n")
            length = file.tell()
        if length >= MOST_BYTES:
            secure_files.rename(path, BEFORE)

    def read(self) -> tuple[JobRun, ...]:
        """The newest runs, and the newest failures, the newest first. What makes no sense is left out."""
        found: list[JobRun] = []
        for name in (BEFORE, FILE):
            try:
                text = secure_files.read_end(self.state_dir / name, MOST_BYTES + 4 * MOST_SAID)
            except (OSError, Refused) as unreadable:
                log.warning("history.unreadable", file=name, reason=str(unreadable))
                continue
            found += [run for line in text.split(b"\n") if line and (run := _read(line))]
        found.reverse()
        newest, before = found[:MOST_SHOWN], found[MOST_SHOWN:]
        failures = sum(run.result == "failed" for run in newest)
        return (*newest, *[run for run in before if run.result == "failed"][: MOST_SHOWN - failures])


def _read(line: bytes) -> JobRun | None:
    try:
        run = _RUN.validate_json(line)
    except ValidationError:
        return None
    return run if run.began.tzinfo and len(run.message) <= MOST_SAID else None
