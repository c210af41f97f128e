"""The source of a restore's backups: on this host, or at a destination."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.model.backup import Backup
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.moment import Moment
from zbackup.model.target import BackupAsItIs, BeforeTransaction, RestoreTarget, UnseenTransaction
from zbackup.model.transaction_name import TransactionName
from zbackup.plan.recovery.as_it_is import find_backup, newest_labelled


@dataclass(frozen=True, slots=True)
class Opened:
    """Backups that can be cloned on this host, and what is to be done with them.

    `release` lets others work on the instance again: what is cloned, no prune can destroy.
    """

    catalog: Catalog
    plan: RestorePlan
    release: Callable[[], None]


class BackupSource(Protocol):
    """Backups to restore from, and what can be asked for by looking at them."""

    def context(self, ctx: Context) -> Context:
        """The context in which the clones are made. Raise Refused when that is not on this host."""

    def latest(self, ctx: Context, options: RestoreOptions) -> Moment:
        """The moment of all there is. Raise NotRecoverable when there is none, Refused when it is not clear
        whose is meant."""

    def backup(self, ctx: Context, name: str) -> BackupAsItIs:
        """The backup of that name. Raise NotFound or NotRecoverable."""

    def labelled(self, ctx: Context, label: str) -> BackupAsItIs:
        """The newest backup that has this label. Raise NotFound."""

    def transaction(
        self, ctx: Context, name: TransactionName, base: str
    ) -> BeforeTransaction | UnseenTransaction:
        """The transaction of that name; `base` names the backup to start from. Raise NotRecoverable."""

    def search(self, ctx: Context, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        """The transactions that are wanted, in the logs that can be restored from: see search_log."""

    def plan(self, ctx: Context, target: RestoreTarget, options: RestoreOptions) -> RestorePlan:
        """Decide by what is known without a change; the options name the clone. Raise NotRecoverable."""

    def opened(
        self, ctx: Context, target: RestoreTarget, options: RestoreOptions
    ) -> AbstractContextManager[Opened]:
        """Make ready what is needed, and plan; where the body fails, clean up after it.

        Raise NotRecoverable when the backups do not lead to the target.
        """


def as_it_is(name: str, backups: Sequence[Backup], shown: str = "zbackup list") -> BackupAsItIs:
    """The backup of that name, as it is. Raise NotFound or NotRecoverable."""
    record = find_backup(name, backups, shown).record
    return BackupAsItIs(name, record.as_of_or_taken)


def labelled(label: str, backups: Sequence[Backup], shown: str = "zbackup list") -> BackupAsItIs:
    """The newest backup that has this label, as it is. Raise NotFound or NotRecoverable."""
    newest = newest_labelled(label, backups, shown)
    # Names are given by the second, and of two servers' backups the same one may be another.
    called = sum(b.name == newest.name for b in backups)
    name = newest.name if called == 1 else newest.record.backup
    return BackupAsItIs(name, newest.record.as_of_or_taken)
