"""Targets of a restore, and the stops of a replay: what is asked for, and what an engine is told.

The words of `restore --to` are read into a `target` (RestoreTarget), which every job and plan is given. An
engine is given a `stop` (Stop), which it finds in its log: there it is a position.
"""

from dataclasses import dataclass
from datetime import datetime

from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.moment import Moment
from zbackup.model.transaction_name import TransactionName


@dataclass(frozen=True, slots=True)
class Time:
    """Everything committed before `at`, and nothing after it.

    `accept_clock`: where the log's times contradict its order around `at`, they count as they are.
    """

    at: datetime
    accept_clock: bool = False


@dataclass(frozen=True, slots=True)
class WholeLog:
    """All there is in the log, whatever its times say. It was asked for up to `at`, which is now."""

    at: datetime


Stop = Time | Transaction | ClusterTime | WholeLog
"""The stop of a replay: before a time, before a transaction or cluster time, or at the end of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTransaction:
    """Everything that stands in the log before `transaction`, and nothing after it.

    `name` is what it was called when it was asked for, `logs` the ids (Record.log_id) of the logs it is in:
    more than one where they go on from the same beginning.
    """

    name: TransactionName
    transaction: Transaction
    logs: frozenset[str]

    @property
    def at(self) -> datetime:
        """When the transaction was committed."""
        return self.transaction.committed


@dataclass(frozen=True, slots=True)
class UnseenTransaction:
    """The same, while the log is out of sight: a time `at` which the transaction was committed already."""

    name: TransactionName
    at: datetime


@dataclass(frozen=True, slots=True)
class BackupAsItIs:
    """One backup, with nothing replayed: its snapshots' name, or the identity in its record.

    `at` is the moment to which its data reaches. `foreign`: it is a snapshot that others took, DATASET@NAME,
    and `at` is when that was.
    """

    name: str
    at: datetime
    foreign: bool = False


RestoreTarget = Moment | ClusterTime | BeforeTransaction | UnseenTransaction | BackupAsItIs
"""The target that a restore is asked for; `at` is the time it is known by."""


def stop_of(target: RestoreTarget, *, accept_clock: bool = False) -> Stop | None:
    """Where to stop a replay; None where nothing is replayed, or the log is out of sight as yet."""
    match target:
        case Moment():
            end = target.exclusive_end
            return WholeLog(end) if target.is_now else Time(end, accept_clock)
        case BeforeTransaction():
            return target.transaction
        case ClusterTime():
            return target
        case UnseenTransaction() | BackupAsItIs():
            return None


def time_of(stop: Stop) -> datetime:
    """Tell a stop as a time: everything committed before it is in, as far as the log's times are right."""
    return stop.committed if isinstance(stop, Transaction) else stop.at
