"""Directories outside of the instance's datasets in which the log says that tables were made.

`CREATE TABLE … DATA DIRECTORY = '/elsewhere'` is replayed literally. A server on a clone gets a directory of
the clone's own for each of these, at the very path: the replay goes through, and the host's stays as it is.
"""

import mmap
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

from zbackup.model.errors import Refused
from zbackup.model.recovery import OUTSIDE
from zbackup.model.relocation import owner_of
from zbackup.proc import secure_files
from zbackup.proc.mount_namespace import EMPTY, KERNEL, PRIVATE, STAGE, SYSTEM

COVERED = (*EMPTY, "/var/run", STAGE)
"""Directories of sockets and locks, and the one that the server's surroundings are made in."""

MOST = 64
"""Anybody can write such words into a table, and so into the log."""
LONGEST = 1024
_WORDS = (b"DIRECTORY", b"directory", b"Directory")
_BEFORE = 16
_STATEMENT = re.compile(
    rb"\b(?:DATA|INDEX)\s+DIRECTORY\s*=?\s*['\"](/[^'\"\0\n]{1,1024})['\"]", re.IGNORECASE
)


def mentioned(files: Sequence[Path], members: Sequence[str]) -> tuple[str, ...]:
    """The directories, each once, but for those on the backup's datasets; `members` is where these were."""
    found: dict[str, None] = {}
    for file in files:
        for text in _in_file(file):
            if len(found) < MOST:
                found |= dict.fromkeys(beyond([text.decode(errors="surrogateescape")], members))
    return tuple(found)


def beyond(paths: Iterable[str], members: Sequence[str]) -> tuple[str, ...]:
    """Return the normalized paths that are on none of the backup's datasets; at most MOST."""
    found = (os.path.normpath(path) for path in paths if path.startswith("/"))
    each = (path for path in found if not path.startswith("//") and not owner_of(path, members))
    return tuple(islice(each, MOST))


def _in_file(file: Path) -> Iterator[bytes]:
    if not secure_files.size(file):
        return
    with (
        secure_files.open_regular(file) as source,
        mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as log,
    ):
        for word in _WORDS:
            at = log.find(word)
            while at >= 0:
                text = log[max(0, at - _BEFORE) : at + LONGEST + 64]
                if match := _STATEMENT.search(text):
                    yield match[1]
                at = log.find(word, at + 1)


def make_room(home: Path, wanted: Sequence[str], needed: Sequence[str], owner: tuple[int, int]) -> None:
    """A directory of the clone's own, beside those there are, for each of these that its server can be shown.

    Not shown is one that hides what the server needs, `needed` and what every server does, or that lies
    behind a link of somebody else's: the replay then fails where it comes to the table.
    """
    every, there = (*SYSTEM, *KERNEL, *COVERED, str(home), *needed), [path for _, path in shown(home)]
    each = (path for path in dict.fromkeys(wanted) if not _hides(path, every) and not _led_astray(path))
    for number, path in enumerate((path for path in each if path not in there), len(there)):
        directory = _root(home) / str(number)
        secure_files.make_directory(directory, owner=owner)
        secure_files.write_new(directory.with_name(f"{number}.path"), os.fsencode(path), mode=0o644)


def why_not(path: str, members: Sequence[str]) -> str:
    """Return why a server on a clone cannot create a table there; "" if it can, as far as known."""
    needed = (*SYSTEM, *KERNEL, *COVERED, *members)
    if not any(_hides(each, needed) or _led_astray(each) for each in beyond([path], members)):
        return ""
    return f"it creates a table in {path}, and a clone cannot have its own directory there"


def shown(home: Path) -> tuple[tuple[str, str], ...]:
    """Pairs for Confinement.bind: each directory of the clone's own, and the path that it is for."""
    notes = sorted(_root(home).glob("*.path"))
    return tuple((str(note.with_suffix("")), secure_files.read_text(note)) for note in notes)


def _root(home: Path) -> Path:
    return home / OUTSIDE


def _led_astray(path: str) -> bool:
    try:
        secure_files.stat(Path(path, "any"))
    except Refused:
        return True
    except OSError:  # not there, most often: it will be made
        return False
    return False


def _hides(path: str, needed: Sequence[str]) -> bool:
    directory = PurePosixPath(path)
    return path in PRIVATE or any(
        directory.is_relative_to(each) or PurePosixPath(each).is_relative_to(directory) for each in needed
    )
