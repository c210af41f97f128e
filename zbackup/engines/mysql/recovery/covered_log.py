"""The binlog among a backup's files: what it holds, and whether it is the one another backup holds."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from zbackup.engines.mysql.binlog.errors import DifferentLog, GapError
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import log_files, sequence
from zbackup.engines.mysql.binlog.reader import last_in_file, opened
from zbackup.engines.mysql.binlog.same_log import file_head, require_same_log
from zbackup.engines.mysql.binlog.torn_end import is_closed
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG
from zbackup.engines.mysql.server.assess import UNREADABLE_LOG
from zbackup.model.backup import BackupFiles
from zbackup.model.log import LogPosition, LogSpan
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation


def is_readable(record: Record) -> bool:
    """Whether the backup's server kept a log, and not an encrypted one."""
    return not any(blocker.startswith(UNREADABLE_LOG) for blocker in record.blockers)


def covered_files(record: Record, where: Relocation) -> list[Path]:
    """The files of the log, or of the copy that is kept of it, oldest first. Raise GapError when there are
    none."""
    base = Path(record.fact("log_bin_basename"))
    if plain := record.server.get(PLAIN_LOG):
        return log_files(None, where.path(plain), base.name)
    return log_files(where.path(record.fact("log_bin_index")), where.path(str(base.parent)), base.name)


def end_of(
    record: Record, where: Relocation, files: Sequence[Path] | None = None, since: Record | None = None
) -> LogPosition:
    """Where replay has to begin: behind the last transaction that the backup's own log holds.

    A file without one is replayed from its start; what stands there changes nothing. `since` is of an older
    backup whose log is proven to go on in this one.
    """
    newest = (files or covered_files(record, where))[-1]
    known = read_up_to(since, newest) if since else None
    last = last_in_file(newest, start=known.offset if known else FIRST_EVENT)
    return last.end if last else known or LogPosition.of(newest.name, FIRST_EVENT)


def read_up_to(since: Record, file: Path) -> LogPosition | None:
    """Behind the last transaction that a finished backup found in this file; None if it found none."""
    end = LogPosition.parse(since.log_to)
    return end if end.file == file.name and end.offset > FIRST_EVENT else None


def read_from(since: Record, files: Sequence[Path]) -> LogPosition | None:
    """The same when it is in any of the files; None where reading has to begin again."""
    return next((known for file in files if (known := read_up_to(since, file))), None)


def span_of(record: Record, where: Relocation, since: Record | None = None) -> LogSpan:
    """From the beginning of the oldest file, with no number missing behind it, to the log's end."""
    files = covered_files(record, where)
    oldest = LogPosition.of(unbroken(files).name, FIRST_EVENT)
    with opened(files[-1]) as scanner:
        head, size = file_head(scanner, record.server_uuid), scanner.size
    return LogSpan(str(oldest), str(end_of(record, where, files, since)), head, size)


def begun_after_standstill(end: LogPosition, files: Sequence[Path]) -> Path | None:
    """The file that the server began where it had not closed the one before, which ends at `end`; else None.

    It crashed before anything more was committed; or its datasets were rolled back to the snapshot that ends
    there, and what had been committed since is gone. The files do not tell which.
    """
    for file, following in pairwise(files):
        if file.name == end.file and not last_in_file(file, start=end.offset) and not is_closed(file):
            return following
    return None


def live_span(newest: BackupFiles, live: Relocation) -> LogSpan:
    """The log a server writes now, of which only the beginning counts.

    Raise GapError or DifferentLog when it is not the one that `newest` holds and ends in.
    """
    record = newest.record
    files = covered_files(record, live)
    span = LogSpan(str(LogPosition.of(unbroken(files).name, FIRST_EVENT)), record.log_to)
    if LogPosition.parse(span.first) <= LogPosition.parse(record.log_to) and not is_same_log(
        newest, BackupFiles(record, live)
    ):
        raise DifferentLog(f"the log in {files[-1].parent} is not the one that ended at {record.log_to}")
    return span


def unbroken(files: Sequence[Path]) -> Path:
    """The oldest file behind which no number is missing."""
    first = files[-1]
    for file in reversed(files[:-1]):
        if sequence(file.name) != sequence(first.name) - 1:
            break
        first = file
    return first


def is_same_log(older: BackupFiles, newer: BackupFiles) -> bool:
    """Whether `newer` has the file in which `older` ends (as recorded), with the same bytes up to
    there."""
    try:
        end = LogPosition.parse(older.record.log_to)
        files = [{f.name: f for f in covered_files(*each)}.get(end.file) for each in (older, newer)]
        if files[0] is None or files[1] is None:
            return False
        require_same_log(files[0], files[1], end.offset)
    except (GapError, DifferentLog, ValueError):
        return False
    return True
