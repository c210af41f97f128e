"""Run a measurement in a guest of the lab, and end both when we are ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

LAB = Path(__file__).resolve().parents[1] / "tests" / "lab" / "lab"
ENDED = 128 + signal.SIGTERM


def end_in_order() -> None:
    """Let SIGTERM do what an error does: what holds a server or a directory lets go of it on the way out."""
    signal.signal(signal.SIGTERM, _end)


def _end(_: int, __: FrameType | None) -> NoReturn:
    sys.exit(ENDED)


def in_a_guest(
    module: str, words: Sequence[str], share: str, disks: Sequence[str], limit: str, memory: str = "4G"
) -> int:
    """Run a module of ours as root with ZFS; it may write to the directory `share`. Returns its status."""
    given = [word for disk in disks for word in ("--disk", disk)]
    argv = [str(LAB), "run", *given, "--mem", memory, "--timeout", limit, "--share", share, "--"]
    environment = {**os.environ, "LAB_ZFS": "packaged"}  # what users have, and not what is linked for tests
    guest = subprocess.Popen([*argv, sys.executable, "-m", module, *words], env=environment)
    try:
        return guest.wait()
    finally:
        # The lab ends its guest in good order when it is told to, and never when it is killed.
        guest.terminate()
        guest.wait()
