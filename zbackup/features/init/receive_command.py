"""zbackup init --receive: this host takes in backups of others."""

from pathlib import Path

from zbackup.cli import output
from zbackup.cli.options import Options
from zbackup.cli.output import tell
from zbackup.config.units import size
from zbackup.features.init import questions as questions
from zbackup.features.init import words
from zbackup.features.init.jobs import host, receiving
from zbackup.features.init.plan import receive
from zbackup.model.errors import UsageError
from zbackup.proc.run import run
from zbackup.zfs.datasets import Zfs

WAITING = "ssh-ed25519 AAAA... db1"
"""Stands for a sender's key that is not known yet."""


def command(
    options: Options, dataset: str, user: str, key: str, quota: str, *, yes: bool, print_only: bool
) -> None:
    """Make user, dataset, rights and the key's line. Raise UsageError, NotFound, CommandFailed."""
    if not dataset:
        raise UsageError("--receive needs --dataset: one for each host that sends, such as tank/backups/db1")
    receive.require_names(dataset, user)
    limits = _bytes(quota) if quota else 0
    public = receive.public_key(_text(key)) if key else ""
    ask = questions.asked(yes=yes, print_only=print_only)
    there, known, limit = receiving.inspect(Zfs(run), dataset, user)
    program = host.own_program()
    host.require_roots_program(program)
    wanted = receive.steps(dataset, user, limits, there=there, known=known, limit=limit)
    line = receive.line(program, dataset, public or WAITING)
    if public:
        receiving.require_addable(user, line)
    if ask:
        questions.confirm(wanted)
    elif not options.quiet:
        for text in words.numbered(wanted):
            tell(text)
    file = ""
    if not print_only:
        receiving.act(wanted)
        file = str(receiving.authorize(user, line)) if public else ""
    host_key = receiving.host_key()
    output.emit(
        options,
        "init",
        {
            "dry_run": print_only,
            "dataset": dataset,
            "user": user,
            "line": line,
            "authorized_keys": file or None,
            "host_key": host_key or None,
            "steps": [words.shape(step, done=not print_only) for step in wanted],
        },
        lambda: "\n".join(_lines(dataset, user, line, file, host_key)),
    )


def _lines(dataset: str, user: str, line: str, file: str, host_key: str) -> list[str]:
    told = [
        f"the key is in {file}:"
        if file
        else f"put the sender's key into ~{user}/.ssh/authorized_keys, on one line:"
    ]
    told += [line, "", "on the host that sends, as root:"]
    known = f' --host-key "{host_key}"' if host_key else ""
    told.append(f"zbackup init --copies ssh://{user}@THIS-HOST/{dataset}{known}")
    return told


def _text(key: str) -> str:
    """The key, or what is in the file of that name."""
    if key.startswith(("/", "./", "~")) or key.endswith(".pub"):
        try:
            return Path(key).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise UsageError(f"{key} cannot be read: give the public key's file, or its text") from None
    return key


def _bytes(quota: str) -> int:
    try:
        return size(quota)
    except ValueError:
        raise UsageError(f'"{quota}" is no size: write "500G" or "2T"') from None
