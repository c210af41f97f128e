"""What every database engine offers to the jobs."""

from contextlib import AbstractContextManager
from typing import Protocol

from zbackup.model.log import LogPosition
from zbackup.model.record import LockKind
from zbackup.model.server import LockChoice, ServerFacts


class Held(Protocol):
    """A consistent moment that is being held.

    With lock "none" nothing is held and the position is a lower bound; the same code serves both.
    """

    @property
    def position(self) -> LogPosition | None: ...

    @property
    def gtid(self) -> str: ...

    @property
    def lock_wait_ms(self) -> int:
        """How long it took until the lock was granted."""

    def seconds_left(self) -> float:
        """How long the lock may still be held: the time limit for the snapshot command."""

    def confirm(self) -> None:
        """Raise LockNotTaken unless the lock was held without a break until now and the log stood still.

        The snapshot just taken must not be trusted, and be destroyed, if this raises.
        """


class Engine(Protocol):
    """One instance's database server, as zbackup's jobs see it."""

    def inspect(self) -> ServerFacts:
        """Connect and look; changes nothing. Raise DatabaseError when that cannot be done."""

    def choose_lock(self, facts: ServerFacts) -> LockChoice:
        """The configured lock, or for "auto" the gentlest that is exact. Raise Refused if it cannot be."""

    def consistent(self, facts: ServerFacts, kind: LockKind) -> AbstractContextManager[Held]:
        """Hold the server still (as `kind` says) while the body runs.

        Whatever happens to this process, the lock is gone within the configured ceiling, and a replica's
        applier that ran before runs again. Raise LockNotTaken when the lock is not granted in time.
        """
