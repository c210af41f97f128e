"""Tell who is in a directory: processes that have something open, run or stand there (proc(5))."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

PROC = Path("/proc")
ROOM = 200
"""Characters: it is the end of a message of one line."""


def processes_in(directory: str, proc: Path = PROC) -> list[tuple[int, str]]:
    """Number and name of each process, lowest first, of those that we may look at.

    Names alone, and not what they were called with: there may be a password in that. Processes in a mount
    namespace of their own, where the directory is called otherwise, are not found.
    """
    there = directory.rstrip("/")
    pids = sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
    found = ((pid, proc / str(pid)) for pid in pids)
    return [(pid, process_name(of)) for pid, of in found if any(_is_in(path, there) for path in _paths(of))]


def told(who: Sequence[tuple[int, str]], room: int = ROOM) -> str:
    """For people: as many as there is room for, and how many more; "" for nobody."""
    names = [f"{name} (pid {pid})" for pid, name in who]
    shown = len(names)
    while shown > 1 and len(", ".join(names[:shown])) > room:
        shown -= 1
    more = f" and {len(names) - shown} more" if shown < len(names) else ""
    return ", ".join(names[:shown]) + more


def _paths(of: Path) -> Iterator[str]:
    """What a process stands in, runs, and has open; nothing of one that is gone or not ours to
    look at."""
    links = [of / "cwd", of / "root", of / "exe"]
    with contextlib.suppress(OSError):
        links += (of / "fd").iterdir()
    for link in links:
        with contextlib.suppress(OSError):
            # Never followed: who asks a file system whose server is gone waits for it.
            yield str(link.readlink())


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def process_name(of: Path) -> str:
    """The name of the process whose directory in /proc this is."""
    try:
        return " ".join((of / "comm").read_bytes().decode(errors="replace").split())
    except OSError:
        return "a process that ends"
