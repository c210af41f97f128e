"""The door to other programs."""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from zbackup.model.errors import CommandFailed, CommandTimedOut, NotInstalled
from zbackup.proc.run import READ_ONLY_NICENESS, DryRun, run


def test_stdout_is_the_answer() -> None:
    assert run(["printf", "a\\tb\\n"]) == "a\tb\n"


def test_nothing_is_interpreted_by_a_shell(tmp_path: Path) -> None:
    assert run(["echo", f"$(touch {tmp_path}/x); `id` *"]).strip() == f"$(touch {tmp_path}/x); `id` *"
    assert list(tmp_path.iterdir()) == []


def test_failure_carries_status_and_stderr() -> None:
    with pytest.raises(CommandFailed) as failure:
        run(["sh", "-c", "echo out; echo first >&2; echo last >&2; exit 7"])
    assert (failure.value.returncode, failure.value.stderr) == (7, "first\nlast\n")
    assert str(failure.value) == "sh -c exited with 7: last"


def test_of_advice_after_a_reason_the_reason_is_said() -> None:
    with pytest.raises(CommandFailed, match=r"exited with 1: cannot destroy 'a': has children$"):
        run(["sh", "-c", "echo warning; echo \"cannot destroy 'a': has children\"; echo use -r; exit 1"])


def test_failure_without_stderr_shows_stdout() -> None:
    with pytest.raises(CommandFailed, match="exited with 1: only this"):
        run(["sh", "-c", "echo only this; exit 1"])


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotInstalled, match=r"cannot run no-such-program: .*is it installed and in PATH"):
        run(["no-such-program", "--help"])


def test_it_does_not_wait_for_input() -> None:
    assert run(["cat"], timeout=5) == ""


def test_bytes_that_are_no_utf8_are_no_reason_to_fail() -> None:
    assert os.fsencode(run(["printf", r"caf\351"])) == b"caf\xe9"
    with pytest.raises(CommandFailed):
        run(["sh", "-c", r"printf 'caf\351' >&2; exit 1"])


def test_a_late_program_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(CommandTimedOut, match=r"no answer within 0.5 s"):
        run(["sh", "-c", f"echo $$ > {note}; exec sleep 60"], timeout=0.5)
    assert time.monotonic() - began < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_a_grandchild_that_keeps_the_pipe_open_does_not_hold_us(tmp_path: Path) -> None:
    """Whoever waits may be holding a database's lock."""
    note = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(CommandTimedOut):
        run(["sh", "-c", f"sleep 30 & echo $! > {note}; wait"], timeout=0.3)
    assert time.monotonic() - began < 10
    os.kill(int(note.read_text()), signal.SIGKILL)


def test_an_interruption_kills_the_program_and_goes_on_up(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def interrupt() -> None:
        while not (note.exists() and note.read_text()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run(
            [
                sys.executable,
                "-c",
                f"import os,time; open({str(note)!r},'w').write(str(os.getpid())); time.sleep(60)",
            ]
        )
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


class Recorder:
    def __init__(self) -> None:
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        self.ran.append(tuple(argv))
        return "answer"


def test_a_dry_run_asks_but_changes_nothing() -> None:
    inner = Recorder()
    dry = DryRun(inner)
    assert dry(["zfs", "list"], mutates=False) == "answer"
    assert dry(["zfs", "destroy", "tank"]) == ""
    assert dry(["zfs", "destroy", "tank"], mutates=True) == ""
    assert inner.ran == [("zfs", "list")]


def test_what_only_looks_goes_behind_others() -> None:
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = min(19, ours + READ_ONLY_NICENESS)
    waiting = ("sh", "-c", f'until [ "$(nice)" -ge {wanted} ]; do sleep 0.01; done')
    assert run(waiting, mutates=False, timeout=20) == ""
    assert run(("nice",), timeout=20) == f"{ours}\n"


def test_a_connection_is_as_important_as_what_goes_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is opened by whatever comes first, a question mostly, and outlives that."""
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\nsleep 0.3\nnice\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert run(("ssh", "host"), mutates=False, timeout=20) == f"{os.getpriority(os.PRIO_PROCESS, 0)}\n"
