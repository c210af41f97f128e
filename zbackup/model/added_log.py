"""Words for log that is added to a backup's own: files that go on behind what the backup holds of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from zbackup.model.backup import BackupFiles
from zbackup.model.errors import VerificationFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A log file called `name`, of which `size` bytes can be read: up to the end of a transaction.

    `read` gives the bytes between two offsets, proven to be what was stored, or raises VerificationFailed.
    `end` is the position of the last entry, where that is known (an oplog's); "" else, and where it was cut.
    """

    name: str
    size: int
    read: Callable[[int, int], Iterator[bytes]]
    end: str = ""


class NotContinued(VerificationFailed):
    """One of the added files, that at `index`, does not go on where the one before it ends."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


@runtime_checkable
class ContainsPositions(Protocol):
    """The operation that an engine's Recovery offers too, where a position in the log says which history
    it is of."""

    def contains(self, files: BackupFiles, position: str) -> bool:
        """Whether the log that add_log() put there holds what stands at that position."""
