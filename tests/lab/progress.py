"""Steps of a long preparation, shown while they run: what is done, how long it takes, where its log is."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab.runs import die_with_parent

SIGN_OF_LIFE = 20.0
"""Seconds between two signs of life of a long step."""


class StepFailed(Exception):
    """One line that says which step failed, and the log that says why."""


def say(text: str) -> None:
    """One line to the person who waits."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Show that a step began and how long it took."""
    say(f"{name} ...")
    began = time.monotonic()
    yield
    say(f"{name}: done in {time.monotonic() - began:.0f} s")


def logged(
    name: str, argv: Sequence[str], *, cwd: Path, log: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Run `argv`, its output appended to `log`, with a sign of life now and then.

    Raises StepFailed with the last lines of the output.
    """
    with log.open("ab") as sink:
        sink.write(f"$ {' '.join(argv)}\n".encode())
        sink.flush()
        start = sink.tell()
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=environment,
            # A make left behind would fight with the next one over the same objects.
            preexec_fn=die_with_parent,
        )
        began = time.monotonic()
        try:
            while True:
                try:
                    status = process.wait(SIGN_OF_LIFE)
                    break
                except subprocess.TimeoutExpired:
                    lines = written_since(log, start).count("\n")
                    say(f"{name}: {time.monotonic() - began:.0f} s, {lines} lines in {log}")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if status != 0:
        tail = "\n".join(written_since(log, start).splitlines()[-15:])
        raise StepFailed(f"{name} failed (exit status {status}); whole log: {log}\n{tail}")


def written_since(log: Path, start: int) -> str:
    """The part of `log` behind the byte `start`."""
    with log.open("rb") as source:
        source.seek(start)
        return source.read().decode(errors="replace")
