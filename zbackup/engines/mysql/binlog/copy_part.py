"""Copy a part of a binlog file, at the same offsets."""

from pathlib import Path
from typing import IO, Final

from zbackup.engines.mysql.binlog.reader import opened
from zbackup.proc import secure_files

_AT_ONCE: Final = 1 << 20


def copy_part(file: Path, copy: Path, begin: int, end: int, *, owner: tuple[int, int], mode: int) -> None:
    """Copy what stands between two offsets of a file to a new one, with the file's head.

    Between the first transaction and `begin` is a hole: who reads from `begin` on reads only the head before
    that.
    """
    head = 0
    if begin:
        with opened(file) as scanner:
            head = min(next((span[1] for span in scanner.spans()), end), begin, end)
    secure_files.write_new(copy, b"", mode=mode, owner=owner)
    with secure_files.open_regular(file) as source:
        _append(source, copy, 0, head)
        secure_files.truncate(copy, min(begin, end), owner[0])
        _append(source, copy, min(begin, end), end)


def _append(source: IO[bytes], copy: Path, begin: int, end: int) -> None:
    source.seek(begin)
    with secure_files.open_to_append(copy) as sink:
        left = end - begin
        while chunk := source.read(min(_AT_ONCE, left)):
            sink.write(chunk)
            left -= len(chunk)
