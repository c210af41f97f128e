"""Archived oplog that is added to a clone of a backup, so that it holds more of the log than the backup does.

A mongod does not know of it: it lies beside its files, and is read from there.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from zbackup.engines.mongodb.oplog.archived import ArchivedOplog, archived_oplog, put_in
from zbackup.engines.mongodb.oplog.oplog import first, last
from zbackup.model.added_log import AddedFile
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import VerificationFailed
from zbackup.model.log import LogSpan, position_of
from zbackup.model.log_entry import LogFilter
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.progress import Progress
from zbackup.model.record import Record
from zbackup.model.recovery import RecoveryFiles


def add_oplog(files: BackupFiles, added: Sequence[AddedFile], progress: Progress) -> LogSpan:
    """See engines.base.Recovery.add_log: the entry that was recorded as the oplog's end is among them.

    Who has one entry has all before it. What a backup without a lock holds behind that, and nobody kept, is
    found out with the base at hand.
    """
    record, where = files
    begin, end = put_in(where.path(record.fact("dbpath")), added, _recorded(record), progress)
    return LogSpan(max(str(begin), record.log_from, key=position_of), str(end))


def archived_of(files: RecoveryFiles | BackupFiles) -> ArchivedOplog:
    """The oplog that was added to these files."""
    record, where = files.record, files.where
    identity = record.server.get("replica_set", ""), record.server.get("set_id", "")
    return archived_oplog(where.path(record.fact("dbpath")), identity)


def reached_by(files: RecoveryFiles) -> datetime:
    """Up to when there may be right times in it: it ends later than the backup was taken."""
    record = files.record
    if record.complete_to and record.complete_to > record.taken:
        return record.complete_to
    return datetime.fromtimestamp(OplogPosition.of(last(archived_of(files))).seconds, UTC)


def reaches_back(archived: ArchivedOplog, record: Record, wanted: LogFilter) -> bool:
    """Whether all that is wanted is behind its beginning, so that nothing else has to be read."""
    begin = OplogPosition.of(first(archived))
    own = record.server.get("oplog_first", "")
    return any(text and position_of(text) >= position_of(str(begin)) for text in (wanted.after, own))


def _recorded(record: Record) -> OplogPosition | None:
    try:
        return OplogPosition.parse(record.position) if record.position else None
    except ValueError as damaged:
        raise VerificationFailed(f"the recorded oplog position cannot be understood: {damaged}") from damaged
