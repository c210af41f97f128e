"""What a server program says its version is."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from zbackup.proc.run import run

LIMIT_S = 60.0

FRESH_S = 30.0
"""A command that looks and then acts asks once. A daemon lives for months, and a wrapper stays the same when
what it starts is replaced."""

_File = tuple[int, ...]
_said: dict[tuple[str, ...], tuple[float, tuple[_File, ...], str]] = {}


def said_version(program: Sequence[str], *flags: str) -> str:
    """What it prints when it is run with these flags, or printed moments ago while it was the same file.

    Raise CommandFailed when it cannot be run.
    """
    argv = (*program, *flags)
    # Taken before it is asked: what is replaced meanwhile is asked again.
    files = tuple(_file(word) for word in program)
    when, before, said = _said.get(argv, (0.0, (), ""))
    if not said or files != before or time.monotonic() - when > FRESH_S:
        said = run(argv, mutates=False, timeout=LIMIT_S)
        _said[argv] = time.monotonic(), files, said
    return said


def _file(word: str) -> _File:
    """What is another when the file of that name is replaced or changed; () when there is none."""
    try:
        stat = Path(shutil.which(word) or word).stat()
    except OSError:
        return ()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
