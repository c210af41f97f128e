"""Server programs as zbackup takes them: such as nobody but root can change."""

import os
from pathlib import Path

from tests.lab.servers.wrappers import script
from zbackup.proc.programs import why_not_trusted

DIRECTORY = Path("/run/zbackup-lab-programs")


def trusted(program: Path) -> Path:
    """The program; or a script of root's that becomes it, where somebody else can change the program.

    In the guest of a user who is not root the lab's cache is his.
    """
    if os.geteuid() != 0 or not why_not_trusted(str(program)):
        return program
    DIRECTORY.mkdir(mode=0o755, exist_ok=True)
    stand_in = DIRECTORY / f"{program.parent.parent.name}-{program.name}"
    stand_in.write_text(script([str(program)], ()))
    stand_in.chmod(0o755)
    return stand_in
