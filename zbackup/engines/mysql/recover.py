"""From a backup's files and a later holder of the log to a server as of the target."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from zbackup.engines.mysql import memory_tables, notes, replay_mariadb, replay_mysql
from zbackup.engines.mysql.binlog.cut import Cut, find_cut
from zbackup.engines.mysql.binlog.position import LoggedTransaction, LogPosition, described, recorded_position
from zbackup.engines.mysql.binlog.reader import begun, last_in_file, transactions
from zbackup.engines.mysql.binlog.same_log import require_same_log
from zbackup.engines.mysql.clone_server import CloneServer, Temporary, free_port
from zbackup.engines.mysql.connection import Connection
from zbackup.engines.mysql.held_log import end_of, held_files, is_same_log, span_of
from zbackup.engines.mysql.program import find_program
from zbackup.engines.mysql.reach import reach
from zbackup.engines.mysql.replay import LogRange, as_sql
from zbackup.model.errors import NotRecoverable, VerificationFailed
from zbackup.model.log import ClusterTime, LogSpan, how_many
from zbackup.model.progress import Progress
from zbackup.model.record import Record
from zbackup.model.recovery import Files, Reach, Recovered, ReplayRange, Serving
from zbackup.model.relocation import Relocation


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlRecovery:
    """Recovery for MySQL, Percona Server and MariaDB. Needs the files only, never the running server."""

    flavor: str
    server: tuple[str, ...] | None
    memory: int
    workers: int

    # looking

    def last_commit(self, record: Record, where: Relocation) -> LoggedTransaction | None:
        """The transaction with the latest commit time in the newest file that holds one; None without any.

        Not simply the last one: times in a log are not always in order (MariaDB logs when a statement
        began). Raise VerificationFailed when the log does not end where it was recorded to under a lock.
        """
        files = held_files(record, where)
        _require_recorded_end(record, LogPosition.of(files[-1].name, files[-1].stat().st_size))
        for file in reversed(files):
            latest = max(transactions(file), key=lambda t: t.committed, default=None)
            if latest is not None:
                return latest
        return None

    def reach(self, record: Record, where: Relocation, created: datetime) -> Reach:
        """See engines.base.Recovery. The log says it all; when the snapshot was made does not matter."""
        last = self.last_commit(record, where)
        return reach(record, last.committed if last else None, begun(held_files(record, where)[-1]))

    def log_span(self, record: Record, where: Relocation) -> LogSpan:
        """See engines.base.Recovery."""
        return span_of(record, where)

    def is_same_log(self, older: tuple[Record, Relocation], newer: tuple[Record, Relocation]) -> bool:
        """See engines.base.Recovery."""
        return is_same_log(older, newer)

    def cut_for(self, target: datetime) -> datetime:
        """The target as the log's clock can tell it: see effective_target."""
        return effective_target(self.flavor, target)

    def examine(
        self, base: tuple[Record, Relocation], log: tuple[Record, Relocation], target: datetime
    ) -> ReplayRange:
        """What a replay from `base` would apply; changes nothing.

        Raise NotRecoverable when the log has a gap, is another server's, or the base is already past it.
        """
        effective = effective_target(base[0].engine, target)
        cut = _cut(end_of(*base), held_files(*base), log, effective)
        return ReplayRange(
            last_applied=described(cut.last_applied),
            first_skipped=described(cut.first_skipped),
            transactions=cut.transactions,
            log_bytes=cut.log_bytes,
            out_of_order=cut.out_of_order,
            effective_target=effective,
        )

    def check_program(self, record: Record) -> str:
        """The server program that can open the backup's files. Raise Refused if there is none."""
        return self._program(record)[0]

    def check_version(self, server: Mapping[str, str], version: str) -> str:
        """The same for a running server."""
        return find_program(self.server, self.flavor, server, version)[0]

    def _program(self, record: Record) -> tuple[str, ...]:
        return find_program(self.server, record.engine, record.server, record.server_version)

    # acting

    def recover(
        self,
        base: Files,
        log: Files,
        target: datetime,
        serving: Serving,
        progress: Progress,
        cluster_time: ClusterTime | None = None,
    ) -> Recovered:
        """Open the base, prove it is what was recorded, replay to the target, and serve the result.

        There is no `cluster_time` here: jobs.restore refuses one.
        """
        server = self._server(base)
        progress.phase("starting the temporary server", f"crash recovery of {base.record.backup}")
        server.make_room()
        server.forget_identity()
        base_files = held_files(base.record, base.where)
        with server.temporary() as temporary:
            _require_recorded_state(temporary.connection, base.record, base_files[-1])
            _forget_replication(server.flavor, temporary.connection)
            start = end_of(base.record, base.where, base_files)
            cut = _cut(
                start, base_files, (log.record, log.where), effective_target(base.record.engine, target)
            )
            with memory_tables.set_aside(temporary.connection, base.record):
                self._replay(temporary, log, start, cut, progress)
            recovered = _reached(temporary.connection, base.record, cut)
            notes.tell(temporary.connection, server.flavor, progress)
            temporary.hand_over()
        progress.phase("handing over")
        server.serve(port=serving.port, read_only=serving.read_only)
        return recovered

    def serve(self, files: Files, serving: Serving) -> None:
        """Start the server of a finished clone again."""
        server = self._server(files)
        server.make_room()
        server.serve(port=serving.port, read_only=serving.read_only)

    def connection(self, run: Path, port: int) -> tuple[str, str]:
        """How to reach a clone's server: its socket's path, and a command line for people."""
        path = str(run / "mysqld.sock")
        client = "mysql" if self.flavor == "mysql" else "mariadb"
        where = ("--host=127.0.0.1", f"--port={port}") if port else (f"--socket={path}",)
        return path, shlex.join((client, *where, "--user=root", "--password"))

    def _server(self, files: Files) -> CloneServer:
        return CloneServer(
            flavor=files.record.engine,
            program=self._program(files.record),
            files=files,
            memory=self.memory,
            workers=self.workers,
        )

    def _replay(
        self, temporary: Temporary, log: Files, start: LogPosition, cut: Cut, progress: Progress
    ) -> None:
        if not cut.transactions:
            return
        files = held_files(log.record, log.where)
        within = [
            f for f in files if start.sequence <= LogPosition.of(f.name, 0).sequence <= cut.stop.sequence
        ]
        last = last_in_file(within[-1])
        ends_file = last is not None and last.end == cut.stop
        span = LogRange(files=tuple(within), start=start, stop=cut.stop, ends_file=ends_file)
        progress.phase("replaying", how_many(cut.transactions))
        if temporary.server.flavor == "mysql":
            replay_mysql.replay(temporary.connection, span, temporary.server.place.relay, progress)
            return
        source = self._server(log)
        source.make_room()
        source.forget_identity()
        port = free_port()
        with source.temporary(port=port) as serving:
            account = serving.account
            replay_mariadb.replay(
                temporary.connection, (port, account.user, account.password), span, progress
            )


def effective_target(flavor: str, target: datetime) -> datetime:
    """The target as the log's clock can tell it: MariaDB's knows whole seconds only.

    Rounded down, so that nothing from the target on can slip in.
    """
    return target.replace(microsecond=0) if flavor == "mariadb" else target


def _cut(
    start: LogPosition, base_files: Sequence[Path], log: tuple[Record, Relocation], target: datetime
) -> Cut:
    """Find the cut, having proved that the log continues the base's own. Raise NotRecoverable if not."""
    files = held_files(*log)
    same = [f for f in files if f.name == start.file]
    if not same:
        raise NotRecoverable(
            f"the log has a gap: the base ends in {start.file}, but {log[0].backup} holds "
            f"{files[0].name} to {files[-1].name} only"
        )
    require_same_log(base_files[-1], same[0], start.offset)
    return find_cut(files, start, target)


def is_exact(record: Record) -> bool:
    """Whether the log stood still while the snapshot was taken, so that the position is the position."""
    return record.lock in ("ftwrl", "backup-stage")


def _require_recorded_end(record: Record, found: LogPosition) -> None:
    recorded = recorded_position(record)
    if recorded is None:
        return
    if (found != recorded) if is_exact(record) else (found < recorded):
        raise VerificationFailed(
            f"the log ends at {found}, but {recorded} was recorded: do not trust this one"
        )


def _require_recorded_state(connection: Connection, record: Record, newest: Path) -> None:
    """The recovered server must be what was recorded: exactly under a lock, at least that without one."""
    recorded = recorded_position(record)
    if recorded is None:
        return
    found = LogPosition.of(newest.name, newest.stat().st_size)
    exact = record.lock in ("ftwrl", "backup-stage")
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
            f"SELECT GTID_SUBTRACT({as_sql(record.gtid)}, @@global.gtid_executed) AS missing, "
            f"GTID_SUBTRACT(@@global.gtid_executed, {as_sql(record.gtid)}) AS extra"
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


def _forget_replication(flavor: str, connection: Connection) -> None:
    (replay_mysql if flavor == "mysql" else replay_mariadb).forget_replication(connection)


def _reached(connection: Connection, record: Record, cut: Cut) -> Recovered:
    """Ask the server itself how far it is, and refuse anything but the cut."""
    variable = "gtid_executed" if record.engine == "mysql" else _mariadb_variable(cut)
    reached = str(connection.one(f"SELECT @@global.{variable} AS gtid")["gtid"]).replace("\n", "")
    if record.engine == "mysql":
        for transaction, wanted in ((cut.last_applied, True), (cut.first_skipped, False)):
            if transaction and transaction.gtid and _executed(connection, transaction.gtid) != wanted:
                raise VerificationFailed(f"{transaction.gtid} is {'missing' if wanted else 'there already'}")
    elif cut.transactions and cut.last_applied:
        for domain, sequence in _mariadb_positions(cut.last_applied.gtid).items():
            if _mariadb_positions(reached).get(domain) != sequence:
                raise VerificationFailed(f"replay ended at {reached}, not at {cut.last_applied.gtid}")
    return Recovered(
        last_applied=described(cut.last_applied),
        first_skipped=described(cut.first_skipped),
        position=str(cut.stop),
        gtid=reached,
        base_exact=is_exact(record),
    )


def _mariadb_variable(cut: Cut) -> str:
    """What was replayed stands apart from what the server had logged itself before."""
    return "gtid_slave_pos" if cut.transactions else "gtid_binlog_pos"


def _executed(connection: Connection, gtid: str) -> bool:
    return bool(
        connection.one(f"SELECT GTID_SUBSET({as_sql(gtid)}, @@global.gtid_executed) AS there")["there"]
    )
