"""MySQL, Percona Server and MariaDB as zbackup's jobs see them."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from zbackup.config.lock import Lock
from zbackup.engines.marker_file import MarkerFile
from zbackup.engines.mysql.lock import applier
from zbackup.engines.mysql.lock.lock import STOPS_COMMITS, TakenLock, locked, watched
from zbackup.engines.mysql.lock.long_queries import who_holds_up
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.plain_log.plain_log import PlainLog
from zbackup.engines.mysql.plain_log.snapshots import REPLICA, lock_with_copy, require_whole, with_copy
from zbackup.engines.mysql.server import assess
from zbackup.engines.mysql.server.connection import NotAnswered, PrivilegeMissing, connect
from zbackup.engines.mysql.server.inspect import global_privileges, inspect, roles_in_use
from zbackup.engines.mysql.server.named_tables import has_table
from zbackup.engines.mysql.server.privileges import grant, missing
from zbackup.engines.mysql.server.replicas import replicas
from zbackup.engines.mysql.server.status import dialect
from zbackup.model.errors import DatabaseError
from zbackup.model.record import LockKind
from zbackup.model.server import LockChoice, ServerFacts
from zbackup.model.table_name import TableName
from zbackup.proc.guardian import Guardian

INSPECTION_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlEngine:
    """See engines.base.Engine. `run_dir` keeps the note that an applier is stopped. `plain`: the log is read
    from this copy, which is made of what the server sends."""

    instance: str
    connect: ConnectOptions
    lock: Lock
    run_dir: Path
    plain: PlainLog | None = None

    def inspect(self) -> ServerFacts:
        try:
            with connect(self._asked) as connection:
                facts = inspect(connection)
        except NotAnswered as silent:
            raise DatabaseError(f"{silent}{who_holds_up(self.connect)}") from silent
        return with_copy(facts, self.plain.directory) if self.plain else facts

    def has_table(self, name: TableName) -> bool:
        with connect(self.connect) as connection:
            return has_table(connection, name)

    def replicas(self) -> tuple[str, ...]:
        with connect(self._asked) as connection:
            return replicas(connection, dialect(connection))

    def heal(self) -> None:
        applier.heal(self.connect, self._note)

    def choose_lock(self, facts: ServerFacts) -> LockChoice:
        choice = assess.choose(self.lock.kind, facts)
        return lock_with_copy(self.lock.kind, choice) if self.plain else choice

    def require_privileges(self, facts: ServerFacts, kind: LockKind) -> None:
        """See engines.base.Engine. Raise Refused, too, where the log's copy cannot be made."""
        if self.plain:
            self.plain.require_usable()
        with connect(self._asked) as connection:
            account = str(connection.one("SELECT CURRENT_USER() AS account")["account"])
            if roles_in_use(connection):
                return
            granted = global_privileges(connection, account)
            replica, mariadb = facts.role == "replica", facts.flavor == "mariadb"
            if lacking := missing(granted, kind, replica=replica, mariadb=mariadb):
                orders = "; ".join(grant(name, account) for name in lacking)
                raise PrivilegeMissing(f"{account} lacks what the lock {kind} needs: {orders}")
            if self.plain and REPLICA not in granted:
                raise PrivilegeMissing(
                    f"{account} may not read the log from the server (plain_log): {grant(REPLICA, account)}"
                )

    @contextmanager
    def consistent(self, facts: ServerFacts, kind: LockKind) -> Iterator[TakenLock]:
        """See engines.base.Engine. With a copy of the log, that has all of it before the body runs."""
        with (
            watched(self.connect, kind) as watchdog,
            self._copied() if self.plain else nullcontext(),
            self._locked(facts, kind, watchdog) as lock,
        ):
            if self.plain:
                require_whole(self.plain, lock.position)
            yield lock

    @contextmanager
    def _copied(self) -> Iterator[None]:
        """The copy has what was written up to now: little is left for when the server stands still."""
        assert self.plain is not None
        with self.plain.locked():
            self.plain.read_on()
            yield

    @contextmanager
    def _locked(self, facts: ServerFacts, kind: LockKind, watchdog: Guardian | None) -> Iterator[TakenLock]:
        stops_applier = facts.role == "replica" and kind in STOPS_COMMITS
        with (
            applier.paused(self.connect, self.lock, self._note) if stops_applier else nullcontext(),
            locked(self.connect, self.lock, kind, watchdog) as lock,
        ):
            yield lock

    @property
    def _asked(self) -> ConnectOptions:
        """For questions about tables, of which there may be many."""
        return replace(self.connect, limit_s=INSPECTION_LIMIT_S)

    @property
    def _note(self) -> MarkerFile[list[str]]:
        return applier.marker_file(self.run_dir / f"{self.instance}.applier-stopped")
