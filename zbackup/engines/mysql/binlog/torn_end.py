"""Tell where a binlog file ends that a crash, a full disk or a snapshot has cut off in the middle of an
event.

The server begins another file then and leaves this one as it is. MariaDB's way to give out a log fails there,
whatever is to be replayed (error 1236, "binlog truncated in the middle of event").
"""

from pathlib import Path

from zbackup.engines.mysql.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, ROTATE, SHAPE, STOP
from zbackup.engines.mysql.binlog.reader import opened
from zbackup.proc import secure_files

_LONGEST_NAME = 512
_POSITION = 8
"""Bytes of a rotate event before the next file's name."""


def torn_at(path: Path) -> int | None:
    """Behind the last complete transaction of a file, or event between transactions; None if that is its end.

    Of a file that its server closed, only the end is read. Raise BinlogDamaged or BinlogEncrypted when it
    cannot be told.
    """
    if is_closed(path):
        return None
    with opened(path) as scanner:
        # A file without even the event that describes it has no end to be cut at.
        if scanner.format is None:
            return None
        end = scanner.whole_end()
    return end if end < secure_files.size(path) else None


def is_closed(path: Path) -> bool:
    """Whether the last bytes are the event that a server writes last: "stopped", or what the next file
    is."""
    size = secure_files.size(path)
    with secure_files.open_regular(path) as file:
        file.seek(max(0, size - _LONGEST_NAME - HEADER_SIZE))
        tail = file.read()
    lengths = [(STOP, HEADER_SIZE + trailer) for trailer in (0, CHECKSUM_SIZE)]
    lengths += [
        (ROTATE, HEADER_SIZE + _POSITION + name + trailer)
        for trailer in (0, CHECKSUM_SIZE)
        for name in {len(path.name.encode()), len(path.name.encode()) + 1}
    ]
    for wanted, length in lengths:
        if length > len(tail):
            continue
        kind, told, behind = SHAPE.unpack_from(tail, len(tail) - length)
        if (kind, told, behind) == (wanted, length, size & 0xFFFFFFFF):
            return True
    return False
