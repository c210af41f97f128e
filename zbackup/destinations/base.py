"""What every place that backups are shipped to offers to the jobs.

A destination has a line of copies for each dataset of an instance (model.shipping.Line). What it promises:

- A stream that arrived in part is never shown as a copy; it may be continued (Line.partial) or given up.
- Nothing that is there is overwritten, rolled back or destroyed by anything in here.
- A backup counts only when it is committed (Inventory.committed), which is written when every part has
  arrived and cannot be there in part: whoever reads an inventory at any moment sees it or does not.
- Everything may be repeated. Whoever is killed anywhere takes a new inventory, and goes on from it.

Raised by all of them: ConnectionFailed when the other side cannot be reached, CommandFailed or a kind of it
(PoolFull, NotReceivable, DatasetBusy, ...) when it refuses; each says where. None of them asks the time.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from zbackup.model.record import Record
from zbackup.model.shipping import Inventory, Part
from zbackup.proc.pipeline import Command, Meter


class Session(Protocol):
    """A destination that is being worked with, as one instance sees it."""

    def inventory(self) -> Inventory:
        """What is there of the instance now; at most one round trip."""

    def store(self, part: Part, sender: Command, meter: Meter) -> int:
        """Take the stream that `sender` writes as the copy `part`; returns its bytes.

        `sender` writes the whole stream or, where the inventory's partial of this line is continued, the
        rest of it. It is over only when what has arrived is proven to be `part.guid`. Raise the sender's own
        failure when it is that which ended it, and VerificationFailed when something else arrived.
        """

    def abort(self, line: str) -> None:
        """Give up the partial of this line; copies stay as they are."""

    def commit(self, record: Record, parts: Sequence[Part], when: str) -> None:
        """From now on the backup counts. `parts` have arrived, in the order of the record's members.

        `when` is the time in UTC, as it is written down with the record.
        """


class Destination(Protocol):
    """A place that is configured. Nothing is connected to before connect()."""

    @property
    def name(self) -> str:
        """As in the configuration; unique for the instance, and part of the names of holds and bookmarks."""

    @property
    def place(self) -> str:
        """Its address, for people."""

    @property
    def aside(self) -> str:
        """How the copies that are there are put aside, so that others can be begun; for people."""

    def connect(self) -> AbstractContextManager[Session]:
        """Work with it, over one connection, which ends with the body."""
