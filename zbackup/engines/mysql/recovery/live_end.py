"""Tell whether the server's own log can be read from where the newest backup ends: a restore has to, too."""

import time
from pathlib import Path

from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogEncrypted, BinlogTooOld
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.binlog.reader import check_events
from zbackup.engines.mysql.recovery.covered_log import covered_files, live_span
from zbackup.model.backup import BackupFiles
from zbackup.model.log import LogDamage
from zbackup.model.relocation import Relocation
from zbackup.proc import secure_files

WRITING_S = 1.0
"""A server that is writing an event has written more of it after so long."""
MOST_READ = 2 << 30
"""A few seconds of CPU; where backups are taken as often as they should be there is less."""


def damage(
    newest: BackupFiles, live: Relocation, writing_s: float = WRITING_S, most: int | None = None
) -> tuple[LogDamage, ...]:
    """What is wrong with the log behind the newest backup.

    Raise GapError or DifferentLog when it is not the one that `newest` holds and ends in.

    Files are read from the newest on while that is no more than `most` bytes together: else the first of
    what is returned says so (`unread`). Without it the newest is always read, and more while it is cheap.
    A file that is not the newest may end in the middle of an event, after a crash: restores know that.
    """
    record, _ = newest
    live_span(newest, live)
    known = LogPosition.parse(record.log_to)
    files = covered_files(record, live)
    found: list[LogDamage] = []
    read = 0
    for file in reversed([f for f in files if sequence(f.name) >= known.sequence]):
        start = known.offset if known.file == file.name else FIRST_EVENT
        read += secure_files.size(file) - start
        if read > (most or MOST_READ) and (most or file != files[-1]):
            read_all = (
                f"only the files after {file.name} were read" if file != files[-1] else "it was not read"
            )
            what = f"{read_all}, for it is large"
            found.append(LogDamage(what, unread=True))
            break
        try:
            if file != files[-1]:
                check_events(file, start=start)
            elif (end := _stuck(file, start, writing_s)) is not None:
                size = secure_files.size(file)
                what = f"{file.name} ends in the middle of an event, at {end} of {size} bytes"
                found.append(LogDamage(what, torn=True))
        except (BinlogDamaged, BinlogTooOld) as damaged:
            found.append(LogDamage(str(damaged)))
        except BinlogEncrypted:
            found.append(LogDamage(f"{file.name} is encrypted, and so is the log behind the newest backup"))
            break
    return tuple(reversed(found))


def _stuck(file: Path, start: int, writing_s: float) -> int | None:
    """Where the last whole event ends, if there is more behind it that nobody is writing; else None."""
    end, size = check_events(file, start=start), secure_files.size(file)
    if end >= size:
        return None
    time.sleep(writing_s)
    again = check_events(file, start=start), secure_files.size(file)
    return end if again == (end, size) else None
