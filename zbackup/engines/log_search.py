"""The two ways to search one instance's log for what happened: an engine has one of them.

A binary log's files tell as they lie, by themselves. An oplog is told by a mongod alone: by the one that
runs, or by one that is started on a clone's files.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from zbackup.model.backup import BackupFiles
from zbackup.model.log import ClusterTime, Searched, Transaction
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead, Told, nobody
from zbackup.model.recovery import RecoveryFiles
from zbackup.model.transaction_name import TransactionName


@runtime_checkable
class FileSearch(Protocol):
    """Searches the files of a log as they lie. Its transactions have names: GTIDs, or positions."""

    def check_name(self, name: TransactionName) -> None:
        """Raise UsageError when nothing in this engine's logs is called like that."""

    def find(self, name: TransactionName, files: Sequence[BackupFiles]) -> Searched:
        """Look for a transaction in one log, of which each of `files` (at least one) holds some.

        The newest backup's come first. Raise UsageError as check_name() does.
        """

    def history(
        self, files: Sequence[BackupFiles], wanted: LogFilter, told: Told = nobody
    ) -> Iterator[LogEntry | LogRead]:
        """The transactions of one log that are wanted, in its order, and what was read of each of its files.

        `files` as for `find`; `told` hears how far the reading is. Raise Refused where no log can be read.
        """

    def goes_on_at(self, newest: BackupFiles) -> str:
        """Where a log goes on behind what its newest backup holds: where that ends (Record.log_to), or
        at the next file's beginning where no more came into the last one.

        Raise NotRecoverable when its files are not there.
        """

    def images(self, files: Sequence[BackupFiles], subject: Transaction) -> Iterator[str]:
        """The rows of one transaction before and after, in lines for people in the engine's own words.

        `files` are of the log that holds it, as for `find`.
        """


@runtime_checkable
class ServerSearch(Protocol):
    """Searches a log that only a server can read. What it yields is as for FileSearch.history."""

    def live(self, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        """Ask the running server for its own log.

        Raise DatabaseError where it cannot be asked, Refused where nobody said how to reach it.
        """

    def on_clone(self, files: RecoveryFiles, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        """Search the log in a clone's files, by a temporary server on them."""

    def images(self, at: ClusterTime, files: RecoveryFiles | None = None) -> Iterator[str]:
        """The operations of one transaction, in lines for people in the engine's own words.

        Of the log in a clone's `files`, or of the running server's (None). Raise NotRecoverable, before the
        first line, when it is not in that log; DatabaseError and Refused as for `live`.
        """
