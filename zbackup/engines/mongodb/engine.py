"""MongoDB as zbackup's jobs see it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from zbackup.config.lock import Lock
from zbackup.engines.marker_file import MarkerFile
from zbackup.engines.mongodb.lock.lock import TakenLock, heal, locked, marker_file
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server import assess
from zbackup.engines.mongodb.server.connection import PrivilegeMissing, connect
from zbackup.engines.mongodb.server.inspect import inspect
from zbackup.engines.mongodb.server.named_collections import named_collections
from zbackup.engines.mongodb.server.privileges import grant, missing
from zbackup.engines.mongodb.server.status import other_members
from zbackup.model.record import LockKind
from zbackup.model.server import LockChoice, ServerFacts
from zbackup.model.table_name import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoEngine:
    """See engines.base.Engine. `run_dir` keeps the note that the server is locked by us."""

    instance: str
    connect: ConnectOptions
    lock: Lock
    run_dir: Path

    def inspect(self) -> ServerFacts:
        with connect(self.connect) as connection:
            return inspect(connection)

    def has_table(self, name: TableName) -> bool:
        with connect(self.connect) as connection:
            return bool(named_collections(connection, name))

    def replicas(self) -> tuple[str, ...]:
        with connect(self.connect) as connection:
            return other_members(connection)

    def heal(self) -> None:
        heal(self.connect, self._note)

    def choose_lock(self, facts: ServerFacts) -> LockChoice:
        return assess.choose(self.lock.kind, facts)

    def require_privileges(self, facts: ServerFacts, kind: LockKind) -> None:
        with connect(self.connect) as connection:
            info = connection.command({"connectionStatus": 1, "showPrivileges": True})["authInfo"]
            if not info["authenticatedUsers"]:
                return
            granted = info["authenticatedUserPrivileges"]
            if lacking := missing(granted, kind, oplog=bool(facts.position)):
                who = info["authenticatedUsers"][0]
                raise PrivilegeMissing(
                    f"{who['user']} ({who['db']}) lacks what the lock {kind} needs: {grant(lacking)}"
                )

    @contextmanager
    def consistent(self, facts: ServerFacts, kind: LockKind) -> Iterator[TakenLock]:
        """See engines.base.Engine. An account that may lock but not unlock is found out before, not after."""
        self.require_privileges(facts, kind)
        with locked(self.connect, self.lock, kind, self._note, oplog=bool(facts.position)) as lock:
            yield lock

    @property
    def _note(self) -> MarkerFile[str]:
        return marker_file(self.run_dir / f"{self.instance}.fsync-locked")
