"""Copy a part of a binlog file."""

from pathlib import Path
from typing import IO, Final

from zbackup.engines.mysql.binlog.reader import opened
from zbackup.proc import secure_files

_AT_ONCE: Final = 1 << 20


def copy_part(
    file: Path, copy: Path, part: tuple[int, int], *, in_place: bool, owner: tuple[int, int], mode: int
) -> None:
    """Copy what stands between two offsets of a file behind its head into a new one.

    `in_place`: at the same offsets, with a hole before them. A server cannot read such a file, which it reads
    from its beginning.
    """
    begin, end = part
    with opened(file) as scanner:
        # In front of a hole is a transaction: what comes behind the head is looked at, too.
        head = min(next((span[in_place] for span in scanner.spans()), begin), begin)
    secure_files.write_new(copy, b"", mode=mode, owner=owner)
    with secure_files.open_regular(file) as source:
        _append(source, copy, 0, head)
        if in_place:
            secure_files.truncate(copy, begin, owner[0])
        _append(source, copy, begin, end)


def _append(source: IO[bytes], copy: Path, begin: int, end: int) -> None:
    source.seek(begin)
    with secure_files.open_to_append(copy) as sink:
        left = end - begin
        while chunk := source.read(min(_AT_ONCE, left)):
            sink.write(chunk)
            left -= len(chunk)
