"""Tell who is in a directory: processes that have something open, run or stand there (proc(5))."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

PROC = Path("/proc")
ROOM = 200
"""Characters: it is the end of a message of one line."""


def processes_in(directory: str, proc: Path = PROC) -> list[tuple[int, str]]:
    """Number and name of each process, lowest first, of those that we may look at.

    Names alone, and not what they were called with: there may be a password in that. Processes in a mount
    namespace of their own, where the directory is called otherwise, are not found.
    """
    return processes_in_each((directory,), proc)[directory]


def processes_in_each(directories: Collection[str], proc: Path = PROC) -> dict[str, list[tuple[int, str]]]:
    """The same for each directory, with one look at the processes: there may be thousands of both."""
    found: dict[str, list[tuple[int, str]]] = {each.rstrip("/"): [] for each in directories}
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()):
        of = proc / str(pid)
        if inside := {above for path in _paths(of) for above in _with_parents(path) if above in found}:
            who = (pid, process_name(of))
            for each in inside:
                found[each].append(who)
    return {each: found[each.rstrip("/")] for each in directories}


def _with_parents(path: str) -> Iterator[str]:
    """It and what is above it, the root as ""; nothing of what is no path, such as a pipe."""
    if path.startswith("/"):
        while path:
            yield path
            path = path.rpartition("/")[0]
        yield ""


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


def process_name(of: Path) -> str:
    """The name of the process whose directory in /proc this is."""
    try:
        return " ".join((of / "comm").read_bytes().decode(errors="replace").split())
    except OSError:
        return "a process that ends"
