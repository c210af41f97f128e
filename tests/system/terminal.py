"""A program on a terminal, with somebody who looks and presses Ctrl-C."""

import fcntl
import os
import select
import subprocess
import termios
import time
from collections.abc import Callable, Sequence

CTRL_C = b"\x03"


def _at_a_terminal(argv: Sequence[str]) -> "tuple[int, subprocess.Popen[bytes]]":
    """Start it at a terminal of its own; our end of that, and the process."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        argv,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "NO_COLOR": "1"},
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    return ours, process


def converse(argv: Sequence[str], answers: Sequence[tuple[str, str]], within: float) -> tuple[str, int]:
    """Run it, and answer each question (a part of it, what is typed) in its turn.

    All that was seen, and the exit status.
    """
    ours, process = _at_a_terminal(argv)
    said, answered, deadline = b"", 0, time.monotonic() + within
    left = list(answers)
    try:
        while True:
            assert time.monotonic() < deadline, f"not within {within:g} s; seen: {said!r}"
            if select.select([ours], [], [], 1)[0]:
                try:
                    said += os.read(ours, 65536)
                except OSError:  # it has ended, and the terminal with it
                    break
            if left and left[0][0].encode() in said[answered:]:
                answered = len(said)
                os.write(ours, f"{left.pop(0)[1]}\n".encode())
        assert not left, f"not asked: {left[0][0]}; seen: {said!r}"
        return said.decode(errors="replace"), process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def watch(argv: Sequence[str], seen_enough: Callable[[str], bool], within: float) -> tuple[str, int]:
    """Run it until enough was seen, then press Ctrl-C; all that was seen, uncoloured, and the exit status."""
    ours, process = _at_a_terminal(argv)
    said, deadline = b"", time.monotonic() + within
    try:
        while not seen_enough(said.decode(errors="replace")):
            left = deadline - time.monotonic()
            assert left > 0, f"not within {within:g} s; seen: {said!r}"
            if select.select([ours], [], [], left)[0]:
                said += os.read(ours, 65536)
        os.write(ours, CTRL_C)
        return said.decode(errors="replace"), process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
