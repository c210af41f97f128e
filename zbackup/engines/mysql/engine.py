"""MySQL, Percona Server and MariaDB as zbackup's jobs see them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from zbackup.engines.mysql import applier, judge
from zbackup.engines.mysql.connection import connect
from zbackup.engines.mysql.inspect import inspect
from zbackup.engines.mysql.lock import STOPS_COMMITS, HeldLock, hold
from zbackup.engines.mysql.options import ConnectOptions, LockOptions
from zbackup.model.record import LockKind
from zbackup.model.server import LockChoice, ServerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlEngine:
    """See engines.base.Engine. `run_dir` keeps the note that an applier is stopped."""

    instance: str
    connect: ConnectOptions
    lock: LockOptions
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
        return judge.choose(self.lock.kind, facts)

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
    def _note(self) -> applier.Note:
        return applier.Note(self.run_dir / f"{self.instance}.applier-stopped")
