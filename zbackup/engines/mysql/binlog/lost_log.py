"""Tell what is lost of a log between two of its files: the server has purged it, and no snapshot holds it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.reader import begun
from zbackup.engines.mysql.binlog.torn_end import is_closed
from zbackup.model.log import LogPosition, how_many
from zbackup.model.log_entry import LogFilter, LogRead, Lost
from zbackup.proc import secure_files

MARGIN: Final = timedelta(minutes=10)
"""A file that the server left this long before the first moment that is wanted is not read.

More than a clock is put back by, as a rule; commit times of a replica are earlier than its own clock.
"""


Complete = Mapping[Path, datetime]
"""Up to when all that was committed is in a file or in those before it: of files with which a backup's log
ends.

Commit times do not tell that: one of a clock that was set ahead would hide what is lost behind it.
"""


def lost_before(
    files: Sequence[Path], number: int, wanted: LogFilter, after: LogPosition | None, complete: Complete
) -> list[LogRead]:
    """What is lost in front of this one of the files; of the first, behind `wanted.follows`.

    Nothing where all of that is from before what is wanted, or from after it.
    """
    path = files[number]
    if is_too_old(path, wanted):
        return []
    if not number:
        return _lost_behind(wanted, path) if wanted.follows else []
    before = files[number - 1]
    seen = after is not None and after.sequence >= sequence(path.name)
    if seen or _is_too_late(before, wanted, complete):
        return []
    return _lost_between(before, path, complete.get(before))


def goes_on_at(last: Path, end: str) -> str:
    """Where a log goes on behind its `last` file, of which `end` was recorded as the end: in the next
    one if its server has ended that file."""
    if not _is_ended(last):
        return end
    base, _, digits = last.name.rpartition(".")
    return str(LogPosition.of(f"{base}.{int(digits) + 1:0{len(digits)}}", FIRST_EVENT))


def is_too_old(following: Path, wanted: LogFilter) -> bool:
    """Whether all that is in front of this file is from before what is wanted."""
    left = _begun(following)
    return bool(wanted.since and left and left < wanted.since - MARGIN)


def _is_too_late(file: Path, wanted: LogFilter, complete: Complete) -> bool:
    """Whether all that is behind what is here of a file is from after what is wanted."""
    if wanted.until is None:
        return False
    reached, left = complete.get(file), _begun(file)
    return bool((reached and reached >= wanted.until) or (left and left > wanted.until + MARGIN))


def _begun(file: Path) -> datetime | None:
    try:
        return begun(file)
    except OSError:
        return None


def _lost_behind(wanted: LogFilter, path: Path) -> list[LogRead]:
    end = LogPosition.parse(wanted.follows)
    first, unseen = sequence(path.name), end.sequence + (end.offset > FIRST_EVENT)
    return [_lost(str(end), path, first - unseen, wanted.ended)] if first > end.sequence else []


def _lost_between(before: Path, path: Path, reached: datetime | None) -> list[LogRead]:
    count = sequence(path.name) - sequence(before.name) - 1
    since = reached or _begun(before)
    if count > 0:
        return [_lost(before.name, path, count, since)]
    if _is_whole(before, path):
        return []
    return [_lost(_end(before), path, 0, since)]


def _is_whole(before: Path, path: Path) -> bool:
    """Whether nothing was written to a file any more behind what is here of it: it lies where the next
    one does, which its server begins afterwards, or it says so itself."""
    return before.parent == path.parent or secure_files.exists(before.parent / path.name) or _is_ended(before)


def _is_ended(file: Path) -> bool:
    try:
        return is_closed(file)
    except OSError:
        return False


def _end(file: Path) -> str:
    try:
        return str(LogPosition.of(file.name, secure_files.size(file)))
    except OSError:
        return file.name


def _lost(end: str, path: Path, count: int, since: datetime | None) -> LogRead:
    files = f" ({how_many(count, 'file', 'files')})" if count else ""
    said = f"what the log held between {end} and {path.name}{files} is gone"
    lost = Lost(since=since, until=_begun(path))
    return LogRead(name=path.name, size=0, end="", problem=said, lost=lost)
