"""The oplog among a backup's files, by the backup's record, and the live one, by the server's word.

The files can be read by a mongod only.
"""

from zbackup.engines.mongodb.optime import OPLOG, recorded_optime, timestamp
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import connect
from zbackup.engines.mongodb.server.status import oplog_end, oplog_first
from zbackup.engines.mongodb.server.terms import covers
from zbackup.model.errors import NotRecoverable, VerificationFailed
from zbackup.model.log import LogSpan
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import Record


def span_of(record: Record) -> LogSpan | None:
    """From the oldest entry to where crash recovery would begin; what is behind that may have holes.

    None for a server without an oplog, and for a log-only snapshot: the server was not asked what it held.
    But for one of a server that had been stopped: it was asked before, and shut down in good order.
    """
    first = record.server.get("oplog_first", "")
    if not first or not record.position:
        return None
    if record.stopped_for:
        return LogSpan(first, record.position)
    if record.purpose == "log":
        return None
    return LogSpan(first, record.server.get("stable_checkpoint", record.position))


def is_same_log(older: Record, newer: Record) -> bool:
    """Whether nothing of the older oplog was rolled back before the newer one was held: see terms."""
    one, other = _end(older), recorded_optime(newer)
    same_set = older.server.get("set_id", "") == newer.server.get("set_id", "")
    return bool(same_set and one and other and covers(other, _optimes(newer, "oplog_terms"), one))


def live_span(options: ConnectOptions, record: Record) -> LogSpan | None:
    """The running server's oplog, by its own word. None when the record does not say where it ended.

    Raise NotRecoverable when it is another history than the record's, DatabaseError when nobody answers.
    """
    recorded = _end(record)
    if recorded is None:
        return None
    with connect(options) as connection:
        identity = connection.command({"replSetGetConfig": 1})["config"].get("settings", {})
        if str(identity.get("replicaSetId", "")) != record.server.get("set_id", ""):
            raise NotRecoverable(f"{connection.where} is of another replica set than the backup")
        first, end = oplog_first(connection).at, oplog_end(connection).at
        found = connection.find(OPLOG, {"ts": timestamp(recorded)}, fields=("ts", "t"))
    if first <= recorded and [OplogPosition.of(entry) for entry in found] != [recorded]:
        raise NotRecoverable(f"{recorded}, where the backup's oplog ended, was rolled back")
    return LogSpan(str(first), str(end))


def _end(record: Record) -> OplogPosition | None:
    """Nothing later is in the backup; None when that was not recorded."""
    after = _optimes(record, "oplog_after")
    return after[0] if after else recorded_optime(record)


def _optimes(record: Record, name: str) -> list[OplogPosition]:
    try:
        return [OplogPosition.parse(text) for text in record.server.get(name, "").split()]
    except ValueError as damaged:
        raise VerificationFailed(f"the recorded {name} cannot be understood: {damaged}") from damaged
