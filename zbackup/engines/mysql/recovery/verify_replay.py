"""Proofs: that a base is what was recorded, and that a replay ended where it had to."""

from collections.abc import Sequence
from pathlib import Path

from zbackup.engines.mysql.binlog.find_stop import StopPoint
from zbackup.engines.mysql.binlog.position import described, recorded_position
from zbackup.engines.mysql.binlog.reader import last_in_file
from zbackup.engines.mysql.recovery.covered_log import end_of
from zbackup.engines.mysql.server.assess import OF_LOG_ALONE
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.log import LogPosition, Transaction
from zbackup.model.moment import utc_text
from zbackup.model.record import Record
from zbackup.model.recovery import Recovered
from zbackup.model.relocation import Relocation
from zbackup.proc import secure_files


def require_openable(record: Record) -> None:
    if torn := [b for b in record.blockers if not b.startswith(OF_LOG_ALONE)]:
        raise Refused(f"the backup of {utc_text(record.taken)} cannot be opened: {'; '.join(torn)}")


def as_it_is(connection: Connection, record: Record, where: Relocation, files: Sequence[Path]) -> Recovered:
    """What a base recovered to by itself, proved against its record and its own log.

    `files` are those of that log as the backup held them, () if none can be read: a server that starts begins
    one. Then it is proved by its GTIDs alone, as far as it has any.
    """
    require_recorded_state(connection, record, files[-1] if files else None)
    if not files:
        exact = is_exact(record) and bool(record.gtid)
        return Recovered(
            last_applied=None,
            first_skipped=None,
            position=record.position,
            gtid=record.gtid,
            base_exact=exact,
        )
    end = end_of(record, where, files)
    last = last_in_file(files[-1])
    point = StopPoint(
        stop=end, last_applied=last, first_skipped=None, transactions=0, log_bytes=0, out_of_order=0
    )
    return outcome(connection, record, point)


def is_exact(record: Record) -> bool:
    """Whether the log stood still while the snapshot was taken, so that the position is the position."""
    return record.lock in ("ftwrl", "backup-stage")


def end_found(record: Record, newest: Path) -> LogPosition:
    """Where the log ends in its newest file; as recorded, if no transaction stands behind that.

    MariaDB notes now and then up to where crash recovery has to read (Binlog_checkpoint_event), and no lock
    keeps it from that: such a note may have come between the position that was read and the snapshot.
    """
    found = LogPosition.of(newest.name, secure_files.size(newest))
    recorded = recorded_position(record)
    if record.engine != "mariadb" or recorded is None or found.file != recorded.file or found <= recorded:
        return found
    return found if last_in_file(newest, start=recorded.offset) else recorded


def require_recorded_end(record: Record, found: LogPosition) -> None:
    recorded = recorded_position(record)
    if recorded is None:
        return
    if (found != recorded) if is_exact(record) else (found < recorded):
        raise VerificationFailed(
            f"the log ends at {found}, but {recorded} was recorded: do not trust this one"
        )


def require_recorded_state(connection: Connection, record: Record, newest: Path | None) -> None:
    """The recovered server must be what was recorded: exactly under a lock, at least that without one.

    `newest` is the newest file of the backup's log, None when none can be read.
    """
    recorded = recorded_position(record)
    if recorded is None:
        return
    exact = is_exact(record)
    found = end_found(record, newest) if newest else recorded
    if (found != recorded) if exact else (found < recorded):
        raise VerificationFailed(
            f"the base recovered to {found}, but {recorded} was recorded: do not trust it"
        )
    missing, extra = _gtid_difference(connection, record)
    if missing or (exact and extra):
        raise VerificationFailed(
            f"the base's GTIDs are not those recorded: missing {missing or 'none'}, extra {extra or 'none'}"
        )


def _gtid_difference(connection: Connection, record: Record) -> tuple[str, str]:
    """GTIDs recorded but not recovered, and the other way round; "" for none."""
    if not record.gtid:
        return "", ""
    if record.engine == "mysql":
        row = connection.one(
            f"SELECT GTID_SUBTRACT({literal(record.gtid)}, @@global.gtid_executed) AS missing, "
            f"GTID_SUBTRACT(@@global.gtid_executed, {literal(record.gtid)}) AS extra"
        )
        return str(row["missing"]), str(row["extra"])
    now = connection.one("SELECT @@global.gtid_binlog_pos AS pos")["pos"]
    before, after = _mariadb_positions(record.gtid), _mariadb_positions(str(now))
    missing = [d for d, n in before.items() if after.get(d, -1) < n]
    extra = [d for d, n in after.items() if n > before.get(d, -1)]
    return ", ".join(f"domain {d}" for d in missing), ", ".join(f"domain {d}" for d in extra)


def _mariadb_positions(text: str) -> dict[int, int]:
    """domain-server-sequence, ... -> sequence by domain (MariaDB knowledge base, "GTID")."""
    parts = [gtid.strip().split("-") for gtid in text.split(",") if gtid.strip()]
    return {int(domain): int(sequence) for domain, _, sequence in parts}


def outcome(connection: Connection, record: Record, point: StopPoint) -> Recovered:
    """Ask the server itself how far it is, and refuse anything but the stop point."""
    variable = "gtid_executed" if record.engine == "mysql" else _mariadb_variable(point)
    reached = str(connection.one(f"SELECT @@global.{variable} AS gtid")["gtid"]).replace("\n", "")
    if record.engine == "mysql":
        for transaction, wanted in ((point.last_applied, True), (point.first_skipped, False)):
            if transaction and transaction.gtid and _executed(connection, transaction.gtid) != wanted:
                raise VerificationFailed(f"{transaction.gtid} is {'missing' if wanted else 'there already'}")
    elif point.transactions and point.last_applied:
        for domain, sequence in _mariadb_positions(point.last_applied.gtid).items():
            if _mariadb_positions(reached).get(domain) != sequence:
                raise VerificationFailed(f"replay ended at {reached}, not at {point.last_applied.gtid}")
    return Recovered(
        last_applied=described(point.last_applied),
        first_skipped=described(point.first_skipped),
        position=str(point.stop),
        gtid=reached,
        base_exact=is_exact(record),
    )


def _mariadb_variable(point: StopPoint) -> str:
    """Name the variable that has the GTIDs: what was replayed stands apart from what the server had logged
    itself before."""
    return "gtid_slave_pos" if point.transactions else "gtid_binlog_pos"


def has_transaction(connection: Connection, engine: str, transaction: Transaction) -> bool | None:
    """By its GTID whether the server has a transaction; None where that does not tell.

    MariaDB's sequence numbers need not be in order, nor be given once (gtid_strict_mode).
    """
    return _executed(connection, transaction.gtid) if engine == "mysql" and transaction.gtid else None


def _executed(connection: Connection, gtid: str) -> bool:
    return bool(
        connection.one(f"SELECT GTID_SUBSET({literal(gtid)}, @@global.gtid_executed) AS there")["there"]
    )
