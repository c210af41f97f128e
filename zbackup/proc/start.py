"""The one way to start a program: an argument list, "/" as its directory, an environment of its own.

Elsewhere `subprocess` and `os.exec*` are banned. Our own environment may hold secrets (AWS_SECRET_ACCESS_KEY,
the variable that a password is read from), and a process shows its environment in /proc/PID/environ for as
long as it lives. So nothing of it is handed on but what is listed here by name. Our directory may be
anybody's: a program started there would find the modules and files that its owner put there.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

from zbackup.model.errors import NotInstalled, Refused
from zbackup.proc.safe_path import require_only_roots

Child = subprocess.Popen
TimedOut = subprocess.TimeoutExpired
PIPE = subprocess.PIPE
NOTHING = subprocess.DEVNULL
WITH_STDOUT = subprocess.STDOUT

ROOT = "/"
FIXED_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

LOCATED = ("zfs", "zpool", "ssh", "systemctl", "systemd-run")
"""Programs that zbackup runs by their names, after it has mounted, too."""

TOOLS = ("PATH", "HOME", "SSH_AUTH_SOCK")
"""Variables of our environment for zfs, ssh, systemctl and the like."""
OWN = (*TOOLS, "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables for a process of our own: one that logs in to a server checks certificates as we do."""
HOOKS = ("PATH", "HOME", "LANG")
"""Variables for an operator's program."""
PAGERS = (*HOOKS, "TERM", "LC_ALL", "LC_CTYPE", "LESS", "LESSCHARSET")
"""Variables for a pager."""


def for_tools() -> dict[str, str]:
    """The environment of a tool. Its messages are English: errors are told apart by them."""
    return _kept(TOOLS) | {"LC_ALL": "C"}


def for_our_own() -> dict[str, str]:
    """The environment of a process that runs a module of zbackup."""
    return _kept(OWN) | {"LC_ALL": "C"}


def for_hook(facts: Mapping[str, str]) -> dict[str, str]:
    """The environment of an operator's program that is told `facts`."""
    return _kept(HOOKS) | dict(facts)


def for_pager() -> dict[str, str]:
    """The environment of a pager at our terminal. less ends by itself where all fits, keeps colours, and
    neither runs programs nor writes files (its manual, "SECURITY")."""
    return {"LESS": "FRX"} | _kept(PAGERS) | {"LESSSECURE": "1"}


def for_server(zone: str = "") -> dict[str, str]:
    """The environment of a database server; `zone` is the TZ of the original's, "" when it had none.

    A log of statements that write NOW() into a DATETIME means the original's time zone.
    """
    return {"PATH": FIXED_PATH} | ({"TZ": zone} if zone else {})


def own_module(module: str) -> tuple[str, ...]:
    """The command that runs a module of zbackup, from where this zbackup is installed and from nowhere else.

    -I leaves out the current directory, PYTHONPATH and the user's own packages. Raise NotInstalled when the
    interpreter is not known by an absolute path.
    """
    argv = (sys.executable, "-I", "-m", module)
    if not Path(sys.executable or "").is_absolute():
        raise NotInstalled(argv, -1, "the path of Python is not known")
    return argv


def start(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    stdin: int | IO[Any] | None = NOTHING,
    stdout: int | IO[Any] | None = NOTHING,
    stderr: int | IO[Any] | None = NOTHING,
    session: bool = False,
    identity: tuple[int, int] | None = None,
) -> "Child[bytes]":
    """Start a program with this environment, for_tools() by default; None is a stream of our own.

    With `session` in a session of its own, which signals to ours do not reach; with `identity` as that user
    and group, and in no other group. Raise NotInstalled when it cannot be started.
    """
    uid, gid = identity or (None, None)
    try:
        return subprocess.Popen(
            list(argv),
            executable=locate(argv[0]),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=for_tools() if environment is None else dict(environment),
            cwd=ROOT,
            start_new_session=session,
            user=uid,
            group=gid,
            extra_groups=[] if identity else None,
        )
    except (OSError, ValueError) as unstartable:  # ValueError: a NUL where the kernel takes none
        raise _not_installed(argv, unstartable) from unstartable


def become(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> NoReturn:
    """Be this program from now on, with this environment. Raise NotInstalled when it cannot be started."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.chdir(ROOT)
        os.execve(locate(argv[0]), list(argv), for_tools() if environment is None else dict(environment))
    except (OSError, ValueError) as unstartable:
        raise _not_installed(argv, unstartable) from unstartable


def locate(program: str) -> str:
    """The path of a program, which is looked for once: what is put into a directory later changes nothing.

    Raise FileNotFoundError when there is none, PermissionError when there is none that root may run.
    """
    return program if "/" in program else _located(program, os.environ.get("PATH", FIXED_PATH))


def locate_tools() -> None:
    """Look for all programs that may be wanted later. One that is missing is told of when it is wanted."""
    for program in LOCATED:
        try:
            locate(program)
        except OSError:
            continue


@cache
def _located(program: str, path: str) -> str:
    why = ""
    for directory in path.split(":"):
        found = Path(directory, program)
        if not directory.startswith("/") or not _is_program(found):
            continue
        if os.geteuid() != 0:
            return str(found)
        try:
            return _only_roots(found)
        except (Refused, OSError) as reason:
            why = why or str(reason)
    if why:
        raise PermissionError(0, why)
    raise FileNotFoundError(2, os.strerror(2), program)


def _is_program(found: Path) -> bool:
    """Whether it is one that we may run; in a directory that we may not enter there is none."""
    try:
        return found.is_file() and os.access(found, os.X_OK)
    except OSError:
        return False


def _only_roots(found: Path) -> str:
    """The program itself, behind all links. Raise Refused when others than root can put another there."""
    real = Path(os.path.realpath(found))
    for directory in (found.parent, real.parent):
        require_only_roots(directory)
    facts = real.lstat()
    if facts.st_uid != 0 or not stat.S_ISREG(facts.st_mode) or facts.st_mode & 0o022:
        raise Refused(f"{real} is not run, because users other than root can change it")
    return str(real)


def _kept(names: Sequence[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _not_installed(argv: Sequence[str], reason: OSError | ValueError) -> NotInstalled:
    said = reason.strerror if isinstance(reason, OSError) else str(reason)
    return NotInstalled(tuple(argv), -1, said or "cannot be started")
