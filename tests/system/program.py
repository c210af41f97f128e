"""zbackup run as its users run it, as a program: what is under way, and how it ended."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

ANSWER_LIMIT = 180.0
"""Seconds in which any command of zbackup has to end here."""


SIGN_OF_LIFE = re.compile(r"zbackup: .*, for [0-9.]+ (?:ms|s|min|h)(?: [0-9]+ (?:s|min))?")
"""What long work says of itself every few seconds where no terminal is: see zbackup.cli.progress."""


def spoken(err: str) -> list[str]:
    """The lines of standard error without the signs of life, which a slow machine has more of."""
    return [line for line in err.splitlines() if not SIGN_OF_LIFE.fullmatch(line)]


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a command of zbackup ended."""

    argv: tuple[str, ...]
    rc: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What --json answered; an AssertionError says what went wrong instead."""
        assert self.rc == 0, str(self)
        return json.loads(self.out)["data"]

    @property
    def succeeded(self) -> str:
        """What it printed; an AssertionError says what went wrong instead."""
        assert self.rc == 0, str(self)
        return self.out

    def refused(self, status: int) -> str:
        """The one line said by a command that ended with `status`."""
        assert self.rc == status, f"expected exit status {status}: {self}"
        lines = spoken(self.err)
        assert len(lines) == 1 and lines[0].startswith("zbackup: "), f"expected one line: {self}"
        return lines[0].removeprefix("zbackup: ")

    def __str__(self) -> str:
        return f"{' '.join(self.argv)}\nexit status {self.rc}\n{self.out}{self.err}"


class Process(Protocol):
    """What a Popen and a forked command have in common."""

    pid: int
    returncode: int | Any

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


def started(argv: tuple[str, ...], environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    """A program in a process group of its own, whose output is to be read."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


class Run:
    """A command of zbackup under way, in a process group of its own."""

    def __init__(self, argv: tuple[str, ...], process: Process) -> None:
        self._argv = argv
        self.process = process

    def end(self, timeout: float = ANSWER_LIMIT) -> Result:
        """Wait for its end; one that takes longer than `timeout` seconds is killed, and the test fails."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.signal_group(signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"no end within {timeout:g} s: {' '.join(self._argv)}") from None
        return Result(argv=self._argv, rc=self.process.returncode, out=out, err=err)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to it and to all it started in its group, as a terminal's Ctrl-C does."""
        os.killpg(self.process.pid, number)
