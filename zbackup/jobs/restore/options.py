"""Options: how a restore is to be made, apart from its target."""

from collections.abc import Callable
from dataclasses import dataclass

from zbackup.model.clone import Clone
from zbackup.model.log import Transaction
from zbackup.model.proof import ProofSubject
from zbackup.model.recovery import RecoveryFiles, Serving


@dataclass(frozen=True, slots=True)
class Finish:
    """Another end of a restore than to serve what was recovered: `begin` announces the clone, and is given
    how a restore describes it; `hand_over` leaves it ready, with its server running. `serving` is how the
    engine starts that server before; None where it does not."""

    begin: Callable[[Clone], Clone]
    hand_over: Callable[[RecoveryFiles, Clone], Clone]
    serving: Serving | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """`name` "" means one made from the instance and the target; `keep` keeps a failed recovery's clones.

    `replica_set` names the set to be made of the result, for MongoDB only. `base` names the backup to start
    from, "" the newest that is old enough. `stored_only`: no snapshot is taken to read the log from, the
    newest has to do.
    `accept_older`: the newest at a destination that can be read will do, also where another may be meant.
    `accept_clock`: where the log's times contradict its order, they count as they are.
    `skip` is a transaction that is left out.
    `proves` is what a search has found as the target, and the recovered server is to show.
    `epoch`: of archived log that leads two ways the one up to this epoch counts, newer ones do not.
    """

    name: str = ""
    port: int = 0
    read_only: bool = False
    keep: bool = False
    replica_set: str = ""
    base: str = ""
    finish: Finish | None = None
    stored_only: bool = False
    accept_older: bool = False
    accept_clock: bool = False
    skip: Transaction | None = None
    epoch: int | None = None
    proves: ProofSubject | None = None

    @property
    def serving(self) -> Serving | None:
        """How the engine hands the recovered server over; None where it does not."""
        if self.finish:
            return self.finish.serving
        return Serving(port=self.port, read_only=self.read_only, replica_set=self.replica_set)
