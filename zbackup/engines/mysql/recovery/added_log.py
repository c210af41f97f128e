"""Add log files to a clone of a backup, so that it holds more of its server's log than the backup does."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from zbackup.engines.file_owner import owner_of
from zbackup.engines.mysql.binlog.continuity import break_between
from zbackup.engines.mysql.binlog.errors import DifferentLog, GapError
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.same_log import TAIL, head_to_compare, without_flag
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG
from zbackup.engines.mysql.recovery.covered_log import covered_files, end_of
from zbackup.model.added_log import AddedFile, NotContinued
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import VerificationFailed
from zbackup.model.log import LogPosition, LogSpan
from zbackup.model.progress import Progress
from zbackup.proc import secure_files

_GTID_INDEX: Final = ".idx"
"""MariaDB keeps an index beside each log file (from 11.4 on), which would be of less than the file now."""


def add_log(subject: BackupFiles, added: Sequence[AddedFile], progress: Progress) -> LogSpan:
    """Put the files into the log's directory: the first goes on in the file that the backup's log ends in.

    They are in the log's order. Nothing is changed before it is proven that the first is the same file up to
    where the backup's log ends. Raise GapError or DifferentLog (NotRecoverable) when it is not, and
    NotContinued for one that its GTIDs tell does not go on where the one before it ends.
    """
    record, where = subject
    first, end = added[0], LogPosition.parse(record.log_to)
    own = [file for file in covered_files(record, where) if sequence(file.name) <= end.sequence]
    if not own or own[-1].name != end.file:
        raise GapError(f"{record.called} does not hold {end.file}, in which its log ends")
    newest = own[-1]
    _require_next(newest, end, added)
    _require_same(newest, end.offset, first)
    owner = owner_of(newest) if not record.server.get(PLAIN_LOG) else (os.geteuid(), os.getegid())
    total, done = sum(each.size for each in added) - end.offset, 0
    secure_files.truncate(newest, end.offset, owner[0])
    for index, file in enumerate(added):
        path = newest.with_name(file.name)
        begin = end.offset if file is first else 0
        if file is not first:
            secure_files.write_new(path, b"", mode=0o640, owner=owner)
        with secure_files.open_to_append(path) as sink:
            for chunk in _whole(file, begin):
                sink.write(chunk)
                done += len(chunk)
                progress.advance(done, total)
        if index:
            _require_continued(newest.with_name(added[index - 1].name), path, index)
    _forget_gtid_index(newest)
    names = [*(f.name for f in own), *(f.name for f in added[1:])]
    _write_index(subject, names, owner)
    return LogSpan(record.log_from, str(end_of(record, where)))


def _whole(file: AddedFile, begin: int) -> Iterable[bytes]:
    """Read the file to its end. Raise VerificationFailed when it is not as much as was promised."""
    count = 0
    for chunk in file.read(begin, file.size):
        count += len(chunk)
        yield chunk
    if count != file.size - begin:
        raise VerificationFailed(f"of {file.name} there are {begin + count} bytes, and not {file.size}")


def _require_next(newest: Path, end: LogPosition, added: Sequence[AddedFile]) -> None:
    """The names are those of the files that follow, and nothing but names."""
    base = newest.name.rpartition(".")[0]
    for number, file in enumerate(added, sequence(newest.name)):
        stem, _, digits = file.name.rpartition(".")
        if stem != base or not (digits.isascii() and digits.isdecimal()) or int(digits) != number:
            raise GapError(f"{file.name!r} does not follow {newest.name}: the log has a gap there")
    if added[0].size < end.offset:
        raise GapError(f"{newest.name} ends at {added[0].size} there, before {end}")


def _require_continued(one: Path, following: Path, index: int) -> None:
    if why := break_between(one, following):
        raise NotContinued(f"{following.name} does not continue {one.name}: {why}", index)


def _require_same(own: Path, upto: int, added: AddedFile) -> None:
    """See binlog.same_log: by the file's head and by what stands in front of `upto`."""
    head = head_to_compare(own, upto)
    if added.size < head or _differs(own, added, 0, head):
        raise _different(own.name, "it begins differently")
    if _differs(own, added, max(0, upto - TAIL), upto):
        raise _different(own.name, f"it differs before {upto}")


def _differs(own: Path, added: AddedFile, begin: int, end: int) -> bool:
    return without_flag(_bytes_of(own, begin, end), begin) != without_flag(_read(added, begin, end), begin)


def _bytes_of(path: Path, begin: int, end: int) -> bytes:
    with secure_files.open_regular(path) as file:
        file.seek(begin)
        return file.read(end - begin)


def _read(added: AddedFile, begin: int, end: int) -> bytes:
    return b"".join(added.read(begin, end))


def _forget_gtid_index(file: Path) -> None:
    secure_files.unlink(file.with_name(file.name + _GTID_INDEX))


def _write_index(subject: BackupFiles, names: Sequence[str], owner: tuple[int, int]) -> None:
    record, where = subject
    if record.server.get(PLAIN_LOG):
        return  # a copy of a log has none
    directory = PurePosixPath(record.fact("log_bin_basename")).parent
    text = "".join(f"{directory / name}\n" for name in names)
    index = where.path(record.fact("log_bin_index"))
    secure_files.replace(index, text.encode("utf-8", "surrogateescape"), mode=0o640, owner=owner)


def _different(name: str, why: str) -> DifferentLog:
    return DifferentLog(f"{name} there is not the file that the backup holds: {why}")
