"""What is asked of a restore, besides the moment."""

from collections.abc import Callable
from dataclasses import dataclass

from zbackup.model.clone import Clone
from zbackup.model.exact import AcceptClock, BackupName, Before, Exact, TransactionName, WholeLog
from zbackup.model.log import ClusterTime
from zbackup.model.moment import Moment
from zbackup.model.recovery import Files


@dataclass(frozen=True, slots=True)
class Finish:
    """Another end of a restore than to serve what was recovered: `begin` announces the clone, and is given
    how a restore describes it; `hand_over` leaves it ready, with its server running."""

    begin: Callable[[Clone], Clone]
    hand_over: Callable[[Files, Clone], Clone]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """`name` "" means one made from the instance and the moment; `keep` keeps a failed recovery's clones.

    `exact` is the exact target: of a MongoDB a cluster time, within the second that the moment is; of others
    what Before says, committed at the moment, or its name alone while the log is out of sight, and a moment
    behind it; of any a backup as it is, and the moment to which its data reaches. `replica_set` names the set
    to be made of the result, for MongoDB only. `base` names the backup to start from, "" the newest that is
    old enough. `stored_only`: no snapshot is taken to read the log from, the newest has to do.
    `accept_older`: the newest at a destination that can be read will do, also where another may be meant.
    `accept_clock`: where the log's times contradict its order, they count as they are.
    """

    name: str = ""
    port: int = 0
    read_only: bool = False
    keep: bool = False
    exact: ClusterTime | Before | TransactionName | BackupName | None = None
    replica_set: str = ""
    base: str = ""
    finish: Finish | None = None
    stored_only: bool = False
    accept_older: bool = False
    accept_clock: bool = False

    def stop(self, moment: Moment) -> Exact | None:
        """The target as an engine takes it, if it is more than the moment."""
        if isinstance(self.exact, TransactionName | BackupName):
            raise AssertionError(f"{self.exact} is no place in a log, or was not looked up")
        if isinstance(self.exact, Before):
            return self.exact.transaction
        if self.exact is None and moment.is_now:
            return WholeLog()
        return self.exact or (AcceptClock() if self.accept_clock else None)
