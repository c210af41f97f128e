"""The oplog among a backup's files, by the backup's record: the files can be read by a mongod only."""

from zbackup.engines.mongodb.optime import recorded_optime
from zbackup.model.log import LogSpan
from zbackup.model.record import Record


def span_of(record: Record) -> LogSpan | None:
    """From the oldest entry to where crash recovery would begin; what is behind that may have holes.

    None for a server without an oplog, and for a log-only snapshot: the server was not asked what it held.
    """
    first = record.server.get("oplog_first", "")
    if record.purpose == "log" or not first or not record.position:
        return None
    return LogSpan(first, record.server.get("stable_checkpoint", record.position))


def is_same_log(older: Record, newer: Record) -> bool:
    """Whether nothing of the older oplog was rolled back before the newer one was held.

    A member's entries are rolled back only when a primary of a later term is followed, and what it takes over
    then is of that term: an oplog that still ends in the same term has lost nothing.
    """
    one, other = recorded_optime(older), recorded_optime(newer)
    same_set = older.server.get("set_id", "") == newer.server.get("set_id", "")
    return bool(same_set and one and other and one.term == other.term)
