"""A backup as it is: a member's oplog is replayed up to where it has no holes, and no other's is read."""

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.clone.clone_server import CloneServer, Temporary
from zbackup.engines.mongodb.clone.identity import forget_replica_set
from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.oplog import ServerOplog
from zbackup.engines.mongodb.optime import recorded_optime
from zbackup.engines.mongodb.recovery.as_of import was_still
from zbackup.engines.mongodb.recovery.unfinished_indexes import drop_unfinished_indexes
from zbackup.engines.mongodb.server.assess import OF_LOG_ALONE
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed
from zbackup.model.moment import utc_text
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.progress import Progress
from zbackup.model.record import Record


def require_openable(record: Record) -> None:
    if torn := [b for b in record.blockers if not b.startswith(OF_LOG_ALONE)]:
        raise Refused(f"the backup of {utc_text(record.taken)} cannot be opened: {'; '.join(torn)}")


def replay_own(server: CloneServer) -> oplog.Entry | None:
    """Bring a member's tables to its oplog's last sure entry, which is returned; None without an oplog.

    Raise VerificationFailed when that is before the checkpoint, or behind the end, that was recorded.
    """
    record = server.files.record
    if "replica_set" not in record.server:
        return None
    with server.temporary("open") as opened:
        connection = opened.connection
        with opened.progressing():
            begin = checkpoint(opened)
            own = ServerOplog(connection)
            last = oplog.last(own, None if was_still(record) else own.sure())
            oplog.end_at(connection, last["ts"])
        opened.shut_down()
    _require_recorded(record, OplogPosition.of(last))
    with server.temporary("replay") as replayed:
        require_replayed(replayed, begin, OplogPosition.of(last))
        replayed.shut_down()
    return last


def _require_recorded(record: Record, last: OplogPosition) -> None:
    """Raise VerificationFailed when the oplog's end contradicts the record: what was acknowledged before the
    checkpoint is in the tables; nothing is later than the end then."""
    stable = _recorded(record, "stable_checkpoint")
    if stable and last.cluster_time < stable.cluster_time:
        raise VerificationFailed(f"the oplog ends at {last}, before the recorded checkpoint {stable}")
    recorded = recorded_optime(record)
    end = _recorded(record, "oplog_after") or (recorded if was_still(record) else None)
    if end and last.cluster_time > end.cluster_time:
        raise VerificationFailed(f"the oplog ends at {last}, behind its recorded end {end}")
    if was_still(record) and recorded and last != recorded:
        raise VerificationFailed(f"the oplog ends at {last}, but {recorded} was recorded: do not trust it")


def _recorded(record: Record, name: str) -> OplogPosition | None:
    try:
        return OplogPosition.parse(record.server[name]) if name in record.server else None
    except ValueError as damaged:
        raise VerificationFailed(f"the recorded {name} cannot be understood: {damaged}") from damaged


def checkpoint(opened: Temporary) -> Timestamp:
    """Where the base's tables are. Raise NotRecoverable when they are nowhere."""
    begin = opened.recovered_from
    if begin is None:
        raise NotRecoverable(
            "the base has no stable checkpoint to replay from: its server had only just joined its replica "
            "set, or was still being built; restore from another backup"
        )
    return begin


def require_replayed(replayed: Temporary, begin: Timestamp, wanted: OplogPosition) -> None:
    """mongod ends recovery at its oplog's last entry, or does not start: so that has to be the stop point.

    The oplog was made to end there anyway, so this alone proves nothing: it must have begun where the base's
    tables were, too. One that finds no such point applies nothing, and says so only in its log.
    """
    reached = OplogPosition.of(oplog.last(ServerOplog(replayed.connection)))
    if reached != wanted:
        raise VerificationFailed(f"the replay ended at {reached}, not at {wanted}")
    if replayed.recovered_from != begin:
        raise VerificationFailed(f"the replay began at {replayed.recovered_from}, not at {begin}")


def hand_over(connection: Connection, progress: Progress) -> None:
    """Leave nothing of the original's set, nor of what was not finished when it was copied."""
    for index in drop_unfinished_indexes(connection):
        progress.note(f"the index {index} was still being built then: it is not there")
    if ServerOplog(connection).replica_set()[0]:
        forget_replica_set(connection)
