"""Tell which programs root may run: those that nobody but root can replace, nor any directory above them.

Whoever may change a program that root runs is root. A path that a record, a running server or its pid file
names is no more than a hint: it is used when it stands this test, and never because somebody named it.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from zbackup.model.errors import Refused

DIRECTORIES = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/libexec",
)
"""Directories that servers are installed in; a user's PATH need not name them, and is not looked at."""

MOST_LINKS = 40
"""Links that are followed, as many as the kernel does (path_resolution(7))."""

_ACL = "system.posix_acl_access"
_REMEDY = "it and all directories above it must belong to root, and nobody else may write there"


def find_program(
    configured: Sequence[str] | None,
    names: Sequence[str],
    hint: str,
    directories: Sequence[str],
    remedy: str = "name it in recovery.server, or with --server",
) -> tuple[str, ...]:
    """The configured program, else the hint where it can be believed, else an installed one.

    `names` are what the program may be called. Raise Refused, saying why, when there is none that root may
    run.
    """
    if configured:
        require_trusted(configured)
        return tuple(configured)
    hints = (hint,) if PurePosixPath(hint).name in names else ()
    reasons = []
    for candidate in (*hints, *(f"{directory}/{name}" for name in names for directory in directories)):
        if not os.path.lexists(candidate):
            continue
        if reason := why_not_trusted(candidate):
            reasons.append(f"{candidate} is not used: {reason}, and {_REMEDY}")
        elif _is_program(candidate):
            return (candidate,)
    why = f" ({reasons[0]})" if reasons else ""
    raise Refused(f"no {names[0]} found on this host{why}: {remedy}")


def require_trusted(program: Sequence[str]) -> None:
    """Raise Refused when somebody else can change one of the files that these words of a command name."""
    for word in program:
        if word.startswith("/") and (reason := why_not_trusted(word)):
            raise Refused(f"{word} is not run: {reason}, and {_REMEDY}")


def require_elsewhere(program: Sequence[str], members: Sequence[str]) -> tuple[str, ...]:
    """The program, unless it lies on the instance's own datasets, mounted at `members`: Refused then."""
    for word in program:
        for path in (word, os.path.realpath(word)) if word.startswith("/") else ():
            if any(PurePosixPath(path).is_relative_to(member) for member in members):
                raise Refused(
                    f"{word} lies on the instance's own datasets, and nothing in a clone is run: "
                    f"name one elsewhere in recovery.server, or with --server"
                )
    return tuple(program)


def why_not_trusted(path: str) -> str:
    """Who but root (or us) could put another file there, for a message; "" when nobody can.

    The path is walked as the kernel does, link by link. A directory that nobody else may write to holds only
    links that root made; so nothing that somebody else could exchange is ever looked at, or waited for. Where
    nothing is nobody else can put anything.
    """
    try:
        for here, facts in _walked(path):
            if reason := _who_may_write(here, facts):
                return reason
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as failure:
        return f"{path} cannot be inspected ({failure.strerror})"
    return ""


def _walked(path: str) -> Iterator[tuple[Path, os.stat_result]]:
    """Each directory on the way and the file itself, as they are found. Whoever looks decides to go on."""
    if not path.startswith("/"):
        raise OSError(0, "it is no absolute path")
    here, links = Path("/"), 0
    yield here, here.lstat()
    ahead = _names(path)
    while ahead:
        name = ahead.pop()
        if name == "..":
            here = here.parent
            continue
        facts = (here / name).lstat()
        if not stat.S_ISLNK(facts.st_mode):
            here = here / name
            yield here, facts
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(0, "it leads through too many links")
        target = os.readlink(here / name)  # noqa: PTH115  a Path would lose "." and what it means
        here = Path("/") if target.startswith("/") else here
        ahead += _names(target)


def _names(path: str) -> list[str]:
    """The last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _who_may_write(path: Path, facts: os.stat_result) -> str:
    if facts.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user id {facts.st_uid}"
    if facts.st_mode & stat.S_IWOTH:
        return f"everybody may write to {path}"
    # The group's bits are an access list's mask, where there is one: any user may be behind them.
    if facts.st_mode & stat.S_IWGRP and (facts.st_gid != 0 or _has_access_list(path)):
        return f"others may write to {path} (group id {facts.st_gid} or an access list)"
    return ""


def _has_access_list(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, _ACL))
    except OSError:
        return False


def _is_program(path: str) -> bool:
    return Path(path).is_file() and os.access(path, os.X_OK)
