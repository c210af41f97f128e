"""Tell which files make up a server's binlog, and in which order."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from zbackup.engines.mysql.binlog.errors import GapError
from zbackup.model.errors import Refused
from zbackup.model.log import LogPosition
from zbackup.proc import secure_files

_NAME: Final = re.compile(r"(?P<base>.+)\.(?P<sequence>\d{6,})")


def sequence(name: str) -> int:
    """The number at the end of a log file's name. It has six digits, or more once a million is passed."""
    return LogPosition.of(name, 0).sequence


def log_files(index: Path | None, directory: Path, basename: str) -> list[Path]:
    """The binlog files in `directory`, oldest first, at least one.

    They are those that the index file lists, as far as they exist. Without an index, which a server replaces
    when it begins a log file, they are all of that base name. The index holds one path a line, absolute or
    relative to the data directory of the server that wrote it; in a clone that place is another one, so only
    file names are taken from it. Raise GapError when there are none.
    """
    listed = _listed(index) if index is not None else None
    if listed is not None:
        found = [
            directory / name
            for name in listed
            if _NAME.fullmatch(name) and secure_files.is_regular(directory / name)
        ]
    else:
        found = [
            directory / entry
            for entry in _entries(directory)
            if (name := _NAME.fullmatch(entry))
            and name["base"] == basename
            and secure_files.is_regular(directory / entry)
        ]
    if not found:
        raise GapError(f"there is no log: no file {basename}.* in {directory}")
    return sorted(found, key=lambda path: sequence(path.name))


def find_index(index: Path, basename: str) -> Path:
    """The file that lists the log's files: `index`, or one beside it that begins with the same word.

    Both servers name an index that was configured as my.v2.index "my.index" in @@log_bin_index: tried with
    MySQL 9.7 and MariaDB 10.11. Where none lists a file of that base name, `index`.
    """
    stem = index.name.partition(".")[0]
    beside = (index.with_name(name) for name in sorted(_entries(index.parent)) if name.startswith(f"{stem}."))
    for candidate in (index, *beside):
        if not _NAME.fullmatch(candidate.name) and _lists(candidate, basename):
            return candidate
    return index


def _lists(index: Path, basename: str) -> bool:
    try:
        names = map(_NAME.fullmatch, _listed(index) or ())
    except (OSError, Refused):
        return False
    return any(name and name["base"] == basename for name in names)


def _listed(index: Path) -> list[str] | None:
    try:
        return [Path(line).name for line in secure_files.read_text(index).splitlines()]
    except FileNotFoundError:
        return None


def _entries(directory: Path) -> list[str]:
    try:
        return secure_files.names(directory)
    except FileNotFoundError:
        return []


def index_without_links(text: str, directory: str) -> str:
    """The text of an index whose files all lie in `directory`, each named there.

    A server lists them by the path it was configured with, which may lead through a link, and looks for them
    by their names and not by their files. What is listed relative to the data directory stays. Pure.
    """
    lines = text.splitlines()
    named = (str(PurePosixPath(directory) / PurePosixPath(line).name) for line in lines)
    return "".join(f"{new if old.startswith('/') else old}\n" for old, new in zip(lines, named, strict=True))


def chain(files: Sequence[Path], start: LogPosition, end: LogPosition | None) -> list[Path]:
    """The files from that of `start` to that of `end` (the newest if None) without a break.

    Raise GapError when one is missing, or when a file ends before the position that should be in it.
    """
    last = end.sequence if end is not None else None
    ordered = sorted(files, key=lambda path: sequence(path.name))
    wanted = [
        p
        for p in ordered
        if start.sequence <= sequence(p.name) and (last is None or sequence(p.name) <= last)
    ]
    if not wanted or wanted[0].name != start.file:
        oldest = f"the oldest file present is {ordered[0].name}" if ordered else "there are no log files"
        raise GapError(f"replay must start in {start.file}, which is missing: {oldest}")
    require_adjacent(wanted)
    if end is not None and wanted[-1].name != end.file:
        raise GapError(f"the log should reach {end}, but its last file is {wanted[-1].name}")
    for position, path in ((start, wanted[0]), (end, wanted[-1])):
        if position is not None and (size := secure_files.size(path)) < position.offset:
            raise GapError(f"{path.name} ends at {size}, before {position}: the log was reset or cut off")
    return wanted


def require_adjacent(files: Sequence[Path]) -> None:
    """Raise GapError, naming both ends, unless the files' numbers follow each other, up or down."""
    for one, other in pairwise(files):
        if abs(sequence(one.name) - sequence(other.name)) != 1:
            before, after = sorted((one.name, other.name), key=sequence)
            raise GapError(f"the log has a gap: nothing is left between {before} and {after}")
