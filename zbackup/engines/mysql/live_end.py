"""Whether the server's own log can be read from where the newest backup ends: a restore has to, too."""

import time
from pathlib import Path

from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogEncrypted
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.binlog.reader import check_events
from zbackup.engines.mysql.held_log import held_files, live_span
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation
from zbackup.proc import secure_files

WRITING_S = 1.0
"""A server that is writing an event has written more of it after so long."""


def damage(
    newest: tuple[Record, Relocation], live: Relocation, writing_s: float = WRITING_S
) -> tuple[str, ...]:
    """What is wrong with the log behind the newest backup, each in a line.

    Raise GapError or DifferentLog when it is not the one that `newest` holds and ends in.

    A file that is not the newest may end in the middle of an event, after a crash: restores know that.
    """
    record, _ = newest
    live_span(newest, live)
    known = LogPosition.parse(record.log_to)
    files = held_files(record, live)
    found = []
    for file in (f for f in files if sequence(f.name) >= known.sequence):
        start = known.offset if known.file == file.name else FIRST_EVENT
        try:
            if file == files[-1] and (end := _stuck(file, start, writing_s)) is not None:
                size = secure_files.size(file)
                found.append(f"{file.name} ends in the middle of an event, at {end} of {size} bytes")
            elif file != files[-1]:
                check_events(file, start=start)
        except BinlogDamaged as damaged:
            found.append(str(damaged))
        except BinlogEncrypted:
            return ()  # that it is, is told as what it means: no log can be read
    return tuple(found)


def _stuck(file: Path, start: int, writing_s: float) -> int | None:
    """Where the last whole event ends, if there is more behind it that nobody is writing; else None."""
    end, size = check_events(file, start=start), secure_files.size(file)
    if end >= size:
        return None
    time.sleep(writing_s)
    again = check_events(file, start=start), secure_files.size(file)
    return end if again == (end, size) else None
