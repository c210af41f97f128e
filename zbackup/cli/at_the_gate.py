"""The gate without the rest of the command line: see start."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from zbackup.jobs.ship.gate import gate
from zbackup.model.errors import ZbackupError
from zbackup.model.printable import printable
from zbackup.plan.ship.gate import POWERS, Policy, Power
from zbackup.proc.take_over import forget_environment

INTERRUPTED = 130


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


def stand(root: str, powers: frozenset[Power]) -> int:
    """Let one command pass, or say on one line why not; its exit status, if it returns."""
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
