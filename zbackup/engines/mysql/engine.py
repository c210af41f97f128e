"""MySQL, Percona Server and MariaDB as zbackup's jobs see them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from zbackup.config.lock import Lock
from zbackup.engines.mysql.lock import applier
from zbackup.engines.mysql.lock.lock import STOPS_COMMITS, HeldLock, hold
from zbackup.engines.mysql.lock.restart_applier import MarkerFile
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server import assess
from zbackup.engines.mysql.server.connection import PrivilegeMissing, connect
from zbackup.engines.mysql.server.inspect import global_privileges, inspect, roles_in_use
from zbackup.engines.mysql.server.privileges import grant, missing
from zbackup.model.record import LockKind
from zbackup.model.server import LockChoice, ServerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlEngine:
    """See engines.base.Engine. `run_dir` keeps the note that an applier is stopped."""

    instance: str
    connect: ConnectOptions
    lock: Lock
    run_dir: Path

    def inspect(self) -> ServerFacts:
        """See engines.base.Engine."""
        with connect(self.connect) as connection:
            return inspect(connection)

    def heal(self) -> None:
        """See engines.base.Engine."""
        applier.heal(self.connect, self._note)

    def choose_lock(self, facts: ServerFacts) -> LockChoice:
        """See engines.base.Engine."""
        return assess.choose(self.lock.kind, facts)

    def require_privileges(self, facts: ServerFacts, kind: LockKind) -> None:
        """See engines.base.Engine."""
        with connect(self.connect) as connection:
            account = str(connection.one("SELECT CURRENT_USER() AS account")["account"])
            if roles_in_use(connection):
                return
            granted = global_privileges(connection, account)
            replica, mariadb = facts.role == "replica", facts.flavor == "mariadb"
            if lacking := missing(granted, kind, replica=replica, mariadb=mariadb):
                orders = "; ".join(grant(name, account) for name in lacking)
                raise PrivilegeMissing(f"{account} lacks what the lock {kind} needs: {orders}")

    @contextmanager
    def consistent(self, facts: ServerFacts, kind: LockKind) -> Iterator[HeldLock]:
        """See engines.base.Engine."""
        if facts.role == "replica" and kind in STOPS_COMMITS:
            with (
                applier.paused(self.connect, self.lock, self._note),
                hold(self.connect, self.lock, kind) as h,
            ):
                yield h
        else:
            with hold(self.connect, self.lock, kind) as held:
                yield held

    @property
    def _note(self) -> MarkerFile:
        return MarkerFile(self.run_dir / f"{self.instance}.applier-stopped")
