"""A process that outlives its maker for a moment, to undo what the maker can no longer undo itself.

It is started before something dangerous is done, in a session of its own, so that a signal to the maker's
process group does not reach it. The maker's end of its stdin is what it watches: the word "done" sends it
home, and the end of the pipe means that the maker is dead, however it died.
"""

import contextlib
import os
import select
import sys
import time

from zbackup.model.errors import CommandFailed
from zbackup.proc.start import PIPE, TimedOut, for_our_own, own_module, start

READY_LIMIT_S = 20.0
END_LIMIT_S = 5.0


class Guardian:
    """The maker's side."""

    def __init__(self, module: str, first_line: str) -> None:
        self._argv = own_module(module)
        self._process = start(self._argv, for_our_own(), stdin=PIPE, stdout=PIPE, session=True)
        with contextlib.suppress(BrokenPipeError):
            self._send(first_line + "\n")

    def ready(self) -> None:
        """Return once it has said "ready". Raise CommandFailed, with what it says instead, if it does not."""
        said, deadline = "", time.monotonic() + READY_LIMIT_S
        output = self._process.stdout
        if output and select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
            said = output.readline().decode(errors="replace").strip()
        if said != "ready":
            self._process.kill()
            self._process.wait()
            raise CommandFailed(self._argv, -1, said or f"not ready within {READY_LIMIT_S:g} s")

    def tell(self, word: str) -> None:
        """Say how far we are: the guardian's next `word`."""
        with contextlib.suppress(BrokenPipeError):
            self._send(word + "\n")

    def done(self) -> None:
        """All is in order again: it may go without doing anything."""
        with contextlib.suppress(BrokenPipeError):
            self._send("done\n")
        self._leave()

    @property
    def alive(self) -> bool:
        """Whether it still watches."""
        return self._process.poll() is None

    def act(self) -> bool:
        """Let it do now what it would do if we died. It goes on after us if that takes long.

        Whether it did, or is still at it: False when it had died, or could not.
        """
        self._leave()
        return self._process.returncode in (0, None)

    def _send(self, text: str) -> None:
        if self._process.stdin:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()

    def _leave(self) -> None:
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        with contextlib.suppress(TimedOut):
            self._process.wait(timeout=END_LIMIT_S)


def start_guardian(module: str, first_line: str) -> Guardian:
    """Run a module of zbackup; `first_line` is its order, which may hold secrets: it goes through a pipe.

    The module reads the line, prepares, calls `answer("ready")`, and then `abandoned`. Nothing dangerous may
    be done before ready() has returned. Raise CommandFailed when it cannot be started.
    """
    return Guardian(module, first_line)


def answer(line: str) -> None:
    """The guardian's side: tell the maker "ready", or what is wrong. Nothing can be printed afterwards.

    The maker may be dead by then, and writing to its pipe would kill us in the middle of our work.
    """
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def abandoned(limit_s: float) -> bool:
    """The guardian's side: wait. True when the maker died or has been silent for `limit_s` seconds."""
    return word(limit_s) != "done"


def word(limit_s: float) -> str:
    """The guardian's side: the maker's next word; "" when it died or has been silent for `limit_s` seconds.

    Nothing is read ahead, so that a word that is there already is seen the next time.
    """
    said = b""
    deadline = time.monotonic() + limit_s
    while not said.endswith(b"\n"):
        if not select.select([sys.stdin], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return ""
        if not (character := os.read(sys.stdin.fileno(), 1)):
            return ""
        said += character
    return said.decode().strip()
