"""Programs started in a server's place, and what they say."""

import json
import sys
import time
from pathlib import Path

from tests.platform.stand_ins import TRYING
from zbackup.proc.detached import Confinement, Process, last_lines, launch

UID, GID = 27, 28
LIMIT_S = 90


def tries(started: list[Process], confinement: Confinement, output: Path, words: str) -> dict[str, object]:
    """What came of what a server tried."""
    process = launch((sys.executable, "-c", TRYING, words), confinement, output)
    started.append(process)
    deadline = time.monotonic() + LIMIT_S
    while not (output.exists() and output.read_text().endswith("}\n")):
        assert process.alive and time.monotonic() < deadline, last_lines(output)
        time.sleep(0.05)
    found: dict[str, object] = json.loads(output.read_text().splitlines()[-1])
    return found
