"""Tell what a server program says its version is."""

import os
import pwd
import time
from collections.abc import Sequence
from pathlib import Path

from zbackup.proc.run import run
from zbackup.proc.start import for_server

LIMIT_S = 300.0
"""Seconds for a server to say its version. With thirty others on the same CPU, as in a disaster, it takes
minutes."""

FRESH_S = 30.0
"""A command that looks and then acts asks once. A daemon lives for months, and a wrapper stays the same when
what it starts is replaced."""

NOBODY = 65534
"""The kernel's number of nobody (overflowuid), for a machine without a user of that name."""

_File = tuple[int, ...]
_said: dict[tuple[str, ...], tuple[float, tuple[_File, ...], str]] = {}


def said_version(program: Sequence[str], *flags: str) -> str:
    """What it prints when it is run with these flags, or printed moments ago while it was the same file.

    Root asks as nobody, in the group that may run it. Raise CommandFailed when it cannot be run.
    """
    argv = (*program, *flags)
    # Taken before it is asked: what is replaced meanwhile is asked again.
    files = tuple(_file(word) for word in program if word.startswith("/"))
    when, before, said = _said.get(argv, (0.0, (), ""))
    if not said or files != before or time.monotonic() - when > FRESH_S:
        said = run(
            argv, mutates=False, timeout=LIMIT_S, identity=as_nobody(program[0]), environment=for_server()
        )
        _said[argv] = time.monotonic(), files, said
    return said


def _file(word: str) -> _File:
    """What is another when the file of that name is replaced or changed; () when there is none."""
    try:
        stat = Path(word).stat()
    except OSError:
        return ()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def as_nobody(program: str) -> tuple[int, int] | None:
    """Return the user and group that root asks as: a question needs no rights, but a program may be for its
    group alone."""
    if os.geteuid() != 0:
        return None
    try:
        group = Path(program).stat().st_gid
    except OSError:
        group = 0
    try:
        nobody = pwd.getpwnam("nobody")
        uid, gid = nobody.pw_uid, nobody.pw_gid
    except KeyError:
        uid = gid = NOBODY
    return uid, group or gid
