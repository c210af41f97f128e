"""What each engine offers for taking back a transaction."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from zbackup.features.undo.undoing import UndoneTable, UndoPlan, UndoWish
from zbackup.model.backup import BackupFiles
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance


class UndoSession(Protocol):
    """Sessions with production's server, and maybe a clone's, for taking back a transaction."""

    def plan(self) -> UndoPlan:
        """Compare with production, change nothing. Raise Refused; ImagesIncomplete where it takes a clone."""

    def statements(self) -> Iterator[str]:
        """The reverse, as production would get it now; after plan()."""

    def act(self) -> tuple[UndoneTable, ...]:
        """Do it, in bounded transactions; after plan(). Cut short, the same done again finishes it."""


class Undoer(Protocol):
    """Takes back one transaction in the instance's own server."""

    def find(self, at: ClusterTime) -> Transaction:
        """A log's transaction by its time. Raise UsageError where logs have none, NotRecoverable."""

    def session(
        self,
        subject: Transaction,
        files: Sequence[BackupFiles],
        wish: UndoWish,
        entrance: Entrance | None,
        progress: Progress,
    ) -> AbstractContextManager[UndoSession]:
        """`files` hold the transaction's log, `entrance` leads to a clone from before it. Raise Refused."""
