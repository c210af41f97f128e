"""Streams that a command prints to: closed, full, or with a reader who has gone."""

import subprocess
import sys
from io import TextIOWrapper
from pathlib import Path

import pytest

from zbackup.cli import output
from zbackup.cli.options import Options
from zbackup.cli.progress import Notes
from zbackup.model.errors import ZbackupError

ZBACKUP = f"'{sys.executable}' -m zbackup"
FULL = Path("/dev/full")
NO_SUCH_FILE = "zbackup: /nonexistent: no such configuration file"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("stdout", [">&-", ">/dev/full"])
@pytest.mark.parametrize("options", ["", "--json "])
def test_an_error_is_one_line_and_its_exit_status_without_a_stdout(options: str, stdout: str) -> None:
    done = shell(f"{ZBACKUP} {options}--config /nonexistent check {stdout}")
    assert done.returncode == 2
    assert done.stderr.startswith(NO_SUCH_FILE) and done.stderr.count("\n") == 1


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full", "2> >(true)"])
def test_an_error_keeps_its_exit_status_without_a_stderr(stderr: str) -> None:
    done = shell(f"{ZBACKUP} --json --config /nonexistent check {stderr}")
    assert done.returncode == 2
    assert '"exit_status": 2' in done.stdout


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    program = (
        "from zbackup.cli.output import say, tell; [say('x' * 9999) for _ in range(99)]; tell('to the end')"
    )
    done = shell(f"'{sys.executable}' -c \"{program}\" | head -c 1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "x", "zbackup: to the end\n")


def test_a_result_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with FULL.open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(ZbackupError, match="cannot be written to stdout: No space left on device"):
            output.emit(Options(json=True), "list", [], str)


def test_a_note_that_cannot_be_written_stops_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with TextIOWrapper(FULL.open("wb", buffering=0), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        with pytest.raises(OSError, match="No space left"):
            print("x", file=sys.stderr)
        Notes().note("took zbackup-20240501T080200Z")
