"""The console entry: what sshd starts for every command of another host is not kept waiting for the others.

Reading the whole command line's modules takes three times as long as the gate itself and Python together. A
gate's line that is not as plain as in the manual goes the way of all commands.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from zbackup.jobs.ship.gate import gate
from zbackup.model.errors import ZbackupError
from zbackup.model.printable import printable
from zbackup.plan.ship.gate import POWERS, Policy, Power
from zbackup.proc.take_over import forget_environment

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command line of this process and leave with its exit status."""
    _open_standard_streams()
    words = sys.argv[1:]
    if words[:1] == ["gate"] and (asked := plain(words[1:])):
        sys.exit(_stand_at_the_gate(*asked))
    try:
        from zbackup.cli import main

        main.run()
    except KeyboardInterrupt:
        # While the modules are read, which takes most of a short command's time.
        print("zbackup: interrupted", file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)


def _open_standard_streams() -> None:
    """Whoever starts a program may have closed its stdin, stdout or stderr (`>&-`).

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


def plain(words: Sequence[str]) -> tuple[str, frozenset[Power]] | None:
    """The root and the powers that the words behind `gate` name; None for any that are not plain."""
    match list(words):
        case ["--root", root, *power] | [*power, "--root", root] if not root.startswith("-"):
            powers = POWERS.get(power[0] if power else None) if len(power) < 2 else None
            return (root, powers) if powers else None
        case _:
            return None


def admit(policy: Policy, before_asking: Callable[[], None] = lambda: None) -> int:
    """Let the command pass that was asked for over ssh, or raise Refused; its exit status, if it returns."""
    line = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    client = os.environ.get("SSH_CONNECTION", "nobody from").split()[0]
    forget_environment()
    return gate(line, policy, client, before_asking)


def _stand_at_the_gate(root: str, powers: frozenset[Power]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        return admit(Policy(root=root, powers=powers), _log_to_stderr)
    except ZbackupError as failure:
        status, said = failure.exit_status, " ".join(str(failure).split())
    except KeyboardInterrupt:
        status, said = INTERRUPTED, "interrupted"
    except Exception as failure:  # noqa: BLE001  the outermost door: a defect of ours is one line too
        status, said = ZbackupError.exit_status, f"unexpected {type(failure).__name__}: {failure}"
    print(f"zbackup: {printable(said)}", file=sys.stderr, flush=True)
    return status


def _log_to_stderr() -> None:
    """Not to where streams go."""
    from zbackup.cli import logs

    logs.set_up()


def _stop(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
