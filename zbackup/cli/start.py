"""The console entry: what sshd starts for every command of another host is not kept waiting for the others.

Reading the whole command line's modules takes three times as long as the gate itself and Python together. A
gate's line that is not as plain as in the manual goes the way of all commands.
"""

import os
import sys
from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command line of this process and leave with its exit status."""
    _open_standard_streams()
    words = sys.argv[1:]
    if words[:1] == ["gate"]:
        from zbackup.cli import at_the_gate

        if asked := at_the_gate.plain(words[1:]):
            sys.exit(at_the_gate.stand(*asked))
    try:
        from zbackup.cli import main

        main.run()
    except KeyboardInterrupt:
        # While the modules are read, which takes most of a short command's time.
        print("zbackup: interrupted", file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)


def _open_standard_streams() -> None:
    """Open stdin, stdout and stderr where whoever started us has closed them (`>&-`).

    The next file that is opened, a lock or a pipe to zfs, would get that number, and texts would go there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            free = os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
            os.set_inheritable(free, True)  # else a child would begin with it closed
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
