"""The command line of the guest's kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.request import BadRequest

LONGEST = 2047
"""Bytes of a command line that the kernel keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """File descriptors of the host behind the guest's serial lines and console."""

    console: int
    out: int
    err: int
    control_in: int
    control_out: int
    terminal: tuple[int, int] | None = None


def kernel_arguments(
    *, memory: int, run: Path, disks: Sequence[Path], lines: Lines, init: Sequence[str]
) -> list[str]:
    """Arguments for the kernel of a guest whose files are in the directory `run`.

    Raises BadRequest for paths that a kernel command line cannot carry: it is split at blanks, and a comma
    or a colon in a disk's path would name a second file.
    """
    terminal = "null" if lines.terminal is None else "fd:{},fd:{}".format(*lines.terminal)
    arguments = [
        f"mem={memory >> 20}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",  # the host's files are never written through the root
        "seccomp=auto",  # 1.3 to 2 times as fast as ptrace, where the host allows it
        f"uml_dir={run}/",
        "umid=guest",
        "con=null",
        f"con0=null,fd:{lines.console}",
        "console=tty0",
        "ssl=null",
        f"ssl0=null,fd:{lines.out}",
        f"ssl1=null,fd:{lines.err}",
        f"ssl2=fd:{lines.control_in},fd:{lines.control_out}",
        f"ssl3={terminal}",
    ]
    for number, disk in enumerate(disks):
        if any(character in str(disk) for character in ",:"):
            raise BadRequest(f"a guest cannot have a disk with a comma or colon in its path: {disk}")
        arguments.append(f"ubd{number}={disk}")
    arguments += [f"init={init[0]}", "--", *init[1:]]
    for argument in arguments:
        if any(character.isspace() for character in argument):
            raise BadRequest(f"a kernel's command line cannot carry a blank: {argument!r}")
    if len(" ".join(arguments)) > LONGEST:
        raise BadRequest("too many disks, or too long paths, for a kernel's command line")
    return arguments


def disk_devices(count: int) -> list[str]:
    """Device files that the disks get in the guest."""
    return [f"/dev/ubd{chr(ord('a') + number)}" for number in range(count)]
