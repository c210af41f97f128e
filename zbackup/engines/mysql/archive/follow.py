"""Read a server's binary log while it is written: what of it is whole, durable, and as it was archived.

The server is not asked, unless its log is read from a copy (see plain_log). A file is looked at up to the
last whole transaction that is there, and synced through a descriptor of our own: with sync_binlog = 0 or
behind a group that has not been synced yet, the server would have less after a power failure than was
archived. What is in front of that position neither the server nor its crash recovery changes, but for the
flag "in use"; what changed all the same is seen by comparing.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import IO, Final

from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.reader import moment, opened_live
from zbackup.engines.mysql.binlog.same_log import file_head, without_flag
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG, PlainLog, require_current
from zbackup.engines.mysql.recovery.covered_log import covered_files, unbroken
from zbackup.model.archive import TAIL, ArchivedFile, tail_hash
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import VerificationFailed, ZbackupError
from zbackup.model.log import LogPosition
from zbackup.model.record import Record
from zbackup.model.written_log import LogBytes, WrittenFile
from zbackup.proc import secure_files

_MOST_KNOWN: Final = 10_000
"""Files whose ends are remembered; more are read again."""

_Known = tuple[tuple[int, int], str, int, datetime | None]
"""Identity and head of a file, where its last whole transaction ended, and when that was committed."""


@dataclass(slots=True)
class MysqlLogFollower:
    """See engines.base.LogFollower. Remembers how far it has read, so that nothing is read twice.

    `plain`: the log is a copy, which is made of what the server sends.
    """

    plain: PlainLog | None = None
    _known: dict[Path, _Known] = field(default_factory=dict)

    def scan(
        self,
        live: BackupFiles,
        older: Callable[[], Sequence[BackupFiles]],
        archived: Sequence[ArchivedFile],
        since: str,
        now: Callable[[], datetime],
    ) -> tuple[WrittenFile, ...]:
        # What was acknowledged before is in the files that are listed, or in older ones.
        read = now()
        require_current(self.plain, live)
        paths = _unbroken(covered_files(*live))
        newest = max((each.file.number for each in archived), default=None)
        holder: Record | None = None
        first = _wanted_first(since, paths) if newest is None else 0
        if newest is not None and sequence(paths[0].name) > newest:
            backups = older()
            paths = _from_snapshots(backups, newest, paths)
            if sequence(paths[0].name) > newest:
                # There is a gap: before it is left behind, all that is left in front of it is wanted.
                holder, paths = _in_front_of_gap(backups, archived, live.record.server_uuid) or (None, paths)
        if newest is not None and sequence(paths[0].name) <= newest <= sequence(paths[-1].name):
            first = _newest_same(paths, archived, live.record.server_uuid)
        found: list[WrittenFile] = []
        for path in (p for p in paths if sequence(p.name) >= first):
            closed = path != paths[-1]
            file = self._scan_file(path, live, read, closed=closed)
            if file:
                found.append(file)
            elif closed:
                raise VerificationFailed(f"{path} does not begin as a binary log does, and others follow it")
        if holder:
            found = [_as_of_snapshot(file, holder) for file in found]
        return tuple(_compared(found, archived))

    def read(self, file: WrittenFile, begin: int, end: int) -> LogBytes:
        # What the file ends with is read with what is appended, so that both are of one file.
        before = max(0, min(begin, end - TAIL))
        with secure_files.open_regular(file.path) as opened_file:
            if _identity(opened_file) != file.identity:
                raise _gone(file)
            data = _masked(opened_file, before, end)
        if len(data) != end - before:
            raise _gone(file)
        return LogBytes(data[begin - before :], tail_hash(data))

    def forget(self) -> None:
        self._known.clear()

    def _scan_file(
        self, path: Path, live: BackupFiles, read: datetime, *, closed: bool
    ) -> WrittenFile | None:
        """None for a file that the server is just beginning."""
        record = live.record
        with secure_files.open_regular(path) as descriptor, opened_live(path) as scanner:
            identity = _identity(descriptor)
            head = file_head(scanner, record.server_uuid)
            if not _is_still(path, identity):
                raise VerificationFailed(f"{path} was replaced while it was read: it is read again")
            if not head:
                return None
            end, committed = self._whole(path, identity, head, scanner)
            os.fdatasync(descriptor.fileno())
            if record.server.get(PLAIN_LOG):
                _sync_original(live, path.name)
            up_to_date = end == scanner.size and record.role != "replica"
        complete = None if closed else read if up_to_date else _credible(committed, read)
        return WrittenFile(
            name=path.name,
            number=sequence(path.name),
            head=head,
            path=path,
            identity=identity,
            size=end,
            closed=closed,
            read=read,
            complete_to=complete,
        )

    def _whole(
        self, path: Path, identity: tuple[int, int], head: str, scanner: Scanner
    ) -> tuple[int, datetime | None]:
        """Behind the last whole transaction, or event between transactions, and when it was committed."""
        known = self._known.get(path)
        start, committed = FIRST_EVENT, None
        if known and known[:2] == (identity, head) and known[2] <= scanner.size:
            _, _, start, committed = known
        last = deque(scanner.spans(start), maxlen=1)
        if last:
            committed = moment(last[0][2])
        end = max(scanner.reached, start)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known[path] = (identity, head, end, committed)
        return end, committed


def _sync_original(live: BackupFiles, name: str) -> None:
    """Sync the server's own file, which has what was sent: it is not to have less than was archived."""
    record, where = live
    original = where.path(str(Path(record.fact("log_bin_basename")).with_name(name)))
    with suppress(FileNotFoundError), secure_files.open_regular(original) as file:
        os.fdatasync(file.fileno())


def _credible(committed: datetime | None, read: datetime) -> datetime | None:
    """A commit time that can be right: a session's own clock (SET timestamp) may be any."""
    return committed if committed and committed <= read else None


def _wanted_first(since: str, paths: Sequence[Path]) -> int:
    """The number of the file that is wanted first; 0 where `since` says nothing of this log."""
    first = LogPosition.parse(since).sequence if since else 0
    return first if first <= sequence(paths[-1].name) else 0


def _unbroken(paths: Sequence[Path]) -> list[Path]:
    first = sequence(unbroken(paths).name)
    return [p for p in paths if sequence(p.name) >= first]


def _from_snapshots(older: Sequence[BackupFiles], number: int, paths: list[Path]) -> list[Path]:
    """With the files that the server has purged since, as far back as `number`, if snapshots have them.

    `older` are the backups, the newest first. Of the file that a snapshot was taken in it has only a part.
    """
    found = list(paths)
    for backup in older:
        wanted = sequence(found[0].name) - 1
        if wanted < number:
            break
        if not _has(backup.record, wanted):
            continue
        try:
            files = {sequence(p.name): p for p in _unbroken(covered_files(*backup))}
        except (ZbackupError, OSError):
            continue
        while wanted >= number and wanted in files and _is_finished(files, wanted, found[0]):
            found.insert(0, files[wanted])
            wanted -= 1
    return found


def _as_of_snapshot(file: WrittenFile, holder: Record) -> WrittenFile:
    """The file as the backup proves it: a snapshot's log ends when the snapshot was taken, whenever it is
    read. What the server committed since is in files that are gone."""
    return replace(
        file,
        read=min(file.read, holder.taken),
        complete_to=None if file.closed else holder.complete_to,
        acknowledged=holder.complete_to or holder.taken,
    )


def _in_front_of_gap(
    older: Sequence[BackupFiles], archived: Sequence[ArchivedFile], server: str
) -> tuple[Record, list[Path]] | None:
    """The newest backup that has more of the log than what was archived, and its files."""
    last = max(archived, key=lambda each: each.file.number)
    for backup in older:
        if not _has(backup.record, last.file.number, whole=False):
            continue
        try:
            files = [p for p in _unbroken(covered_files(*backup)) if sequence(p.name) >= last.file.number]
            more = len(files) > 1 or secure_files.size(files[0]) > last.size
            if more and not last.closed and _is_same(files[0], last, server) and _goes_on(files, last):
                return backup.record, files
        except (ZbackupError, OSError, IndexError):
            continue
    return None


def _goes_on(files: Sequence[Path], last: ArchivedFile) -> bool:
    """Whether there is a whole transaction more than was archived."""
    if len(files) > 1:
        return True
    with opened_live(files[0]) as scanner:
        return scanner.whole_end() > last.size


def _has(record: Record, number: int, *, whole: bool = True) -> bool:
    """Whether, by its record, a backup holds that file; `whole`: and the one behind it."""
    try:
        first, last = (LogPosition.parse(each).sequence for each in (record.log_from, record.log_to))
    except ValueError:
        return False
    return first <= number < last + (not whole)


def _is_finished(files: dict[int, Path], number: int, following: Path) -> bool:
    """Whether the snapshot has all of this file, and it is of the log that goes on in `following`.

    It has the next one too, which is the one that follows: then both were there at once.
    """
    after = files.get(number + 1)
    if after is None:
        return False
    if sequence(following.name) > number + 1:
        return True
    try:
        with opened_live(after) as one, opened_live(following) as other:
            heads = file_head(one, ""), file_head(other, "")
    except (ZbackupError, OSError):
        return False
    return heads[0] != "" and heads[0] == heads[1]


def _compared(found: Sequence[WrittenFile], archived: Sequence[ArchivedFile]) -> Iterator[WrittenFile]:
    there = {each.file.number: each for each in archived}
    for file in found:
        known = there.get(file.number)
        if known is None:
            yield file
            continue
        enough = known.size == file.size if known.closed else known.size <= file.size
        same = enough and known.file.head == file.head
        yield replace(file, same=same and _tail(file.path, known.size) == known.last.tail)


def _newest_same(paths: Sequence[Path], archived: Sequence[ArchivedFile], server: str) -> int:
    """The number of the newest file that is as it was archived; that of the oldest when none is.

    All in front of such a file are as they were, too: a log goes on at its end only.
    """
    there = {each.file.number: each for each in archived}
    for path in reversed(paths):
        known = there.get(sequence(path.name))
        if known and _is_same(path, known, server):
            return known.file.number
    return sequence(paths[0].name)


def _is_same(path: Path, known: ArchivedFile, server: str) -> bool:
    if secure_files.size(path) < known.size:
        return False
    with opened_live(path) as scanner:
        if file_head(scanner, server) != known.file.head:
            return False
    return _tail(path, known.size) == known.last.tail


def _tail(path: Path, end: int) -> str:
    with secure_files.open_regular(path) as file:
        return tail_hash(_masked(file, max(0, end - TAIL), end))


def _masked(file: IO[bytes], begin: int, end: int) -> bytes:
    """Return these bytes as the archive has them: as they are, but for the flag "in use"."""
    file.seek(begin)
    return without_flag(file.read(end - begin), begin)


def _identity(file: IO[bytes]) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino


def _is_still(path: Path, identity: tuple[int, int]) -> bool:
    """Whether nothing else has taken the file's place while it was looked at."""
    found = secure_files.stat(path)
    return (found.st_dev, found.st_ino) == identity


def _gone(file: WrittenFile) -> VerificationFailed:
    return VerificationFailed(f"{file.path} is not the file any more that was read: it is read again")
