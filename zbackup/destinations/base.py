"""The protocols that every destination of backups offers to the jobs.

A destination has a TargetDataset (model.shipping) for each dataset of an instance. What it promises:

- A stream that arrived in part is never shown as a copy; it may be continued (`partial`) or given up.
- Nothing that is there is overwritten, rolled back or destroyed by anything in here.
- A backup counts only when it is committed (Inventory.committed), which is written when every part has
  arrived and cannot be there in part: whoever reads an inventory at any moment sees it or does not.
- Everything may be repeated. Whoever is killed anywhere takes a new inventory, and goes on from it.

Raised by all of them: ConnectionFailed when the other side cannot be reached, CommandFailed or a kind of it
(PoolFull, NotReceivable, DatasetBusy, ...) when it refuses; each says where. None of them asks the time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from zbackup.destinations.copies import Copies, StreamStep
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId
from zbackup.model.backup import Backup
from zbackup.model.record import Record
from zbackup.model.shipping import CheckedCopy, Inventory, KeyTrial, OutgoingStream, Readers
from zbackup.model.snapshot import Snapshot
from zbackup.proc.pipeline import Command, Meter
from zbackup.zfs.stream_content import Content


class Session(Protocol):
    """A destination that is being worked with, as one instance sees it.

    A copy is a Snapshot as it lies at the destination: its `dataset` and `properties` are those over there,
    and its `createtxg` says no more than which of the destination's copies is the newer one.
    """

    def inventory(self) -> Inventory:
        """What is there of the instance now; one round trip, and one more when that is nothing."""

    def store(self, part: OutgoingStream, sender: Command, meter: Meter) -> int:
        """Take the stream that `sender` writes as the copy `part`; returns its bytes.

        `sender` writes the whole stream or, where the inventory's partial of this dataset is continued, the
        rest of it. It is over only when what has arrived is proven to be `part.guid`. Raise the sender's own
        failure when it is that which ended it, and VerificationFailed when something else arrived.
        """

    def abort(self, dataset: str) -> None:
        """Give up the partial of this dataset; copies stay as they are."""

    def commit(self, record: Record, parts: Sequence[OutgoingStream], when: str) -> None:
        """From now on the backup counts. `parts` have arrived, in the order of the record's members.

        `when` is the time in UTC, as it is written down with the record.
        """

    def copies(self) -> Copies:
        """The committed backups of the instance, with their records: what can be brought back."""

    def remove(self, backup: Backup, when: str) -> None:
        """Take a committed backup away, or what remains of one: exactly its own copies.

        It is not listed any more from the first change on. Cut short, what is left of it is among
        Copies.remains. `when` is the time in UTC.
        """

    def stream_steps(self, wanted: Sequence[Snapshot]) -> Sequence[StreamStep]:
        """The streams that bring these copies of one dataset, oldest first, in the order they are needed.

        There may be others among what they bring: where only what was sent can be fetched again, all of a
        chain. Raise VerificationFailed when a part of that is missing, and PrivateKeyElsewhere when one
        cannot be read here.
        """

    def size(self, step: StreamStep) -> int:
        """Bytes that fetch() would pass on, as far as that is known; 0 when it is not."""

    def fetch(self, step: StreamStep, token: str, receiver: Command, meter: Meter) -> int:
        """Give `receiver` the stream, and return its bytes.

        With `token`, what the receiver's ZFS kept of an earlier attempt, the rest of it. Raise NotResumable,
        before anything is passed on, when that cannot be had.
        """

    def orphans(self) -> tuple[str, ...]:
        """Name what lies there that no backup needs and that nobody works on; change nothing."""

    def collect_garbage(self) -> tuple[str, ...]:
        """Delete the orphans; return what they were."""


@runtime_checkable
class Readable(Protocol):
    """The operations that a session also offers where whole snapshots lie, and not only streams of them."""

    def content(self, copy: Snapshot, most: int, meter: Meter, *, raw: bool | None = None) -> Content:
        """What the copy holds, or what has the first `most` bytes of it (0: all), read there from
        disk.

        `raw`: as it is encrypted; None: if it is. Raise KeyNotLoaded where that is not wanted and its key is
        not loaded.
        """

    def unopened(self, copy: Snapshot) -> str:
        """The encryption root whose key is loaded over there and does not open the copy; "" for none."""


@runtime_checkable
class Holdable(Protocol):
    """The operations that a session also offers where a copy can be kept from being destroyed.

    All raise CommandFailed where that is not ours to say, and of a copy that is gone DatasetNotFound.
    """

    def holds(self, copies: Sequence[Snapshot]) -> Mapping[int, tuple[str, ...]]:
        """Guid -> tags of the holds, anybody's, of those of the copies that are held."""

    def hold(self, tag: str, copy: Snapshot) -> None:
        """Nobody destroys the copy until release(). A hold of this tag that is there already is success."""

    def release(self, tag: str, copy: Snapshot) -> None:
        """Take the hold back. One that is gone already is success."""


@runtime_checkable
class Provable(Protocol):
    """The operations that a session also offers where what is there can be proven without what was sent."""

    def verify(self, *, deep: bool, meter: Meter) -> Iterator[CheckedCopy]:
        """Whether the committed backups could be brought back, one after the other.

        `deep`: by reading all of it. What is wrong is in what is returned, and not raised.
        """


@runtime_checkable
class Archiving(Protocol):
    """The operations that a session also offers where a server's log can be archived while it is written.

    See model.archive for the words. What was appended is never overwritten, shortened or replaced by anything
    but remove_log(); whoever is killed anywhere asks archived() again, and goes on from it.
    """

    def archived(self) -> ArchiveInventory:
        """All archived files of the instance, as names and listings tell of them: nothing is proven by that.

        Raise Refused where the other side knows no archive.
        """

    def copies(self) -> Copies:
        """See Session."""

    def claim_log(self, server: str, epoch: int, writer: str) -> str:
        """Write down that `writer` archives this epoch of the server, unless somebody does: return who.

        Two of one identity are told from each other by it. Raise Refused for an epoch that is not there and
        does not follow the newest.
        """

    def append_log(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        """Add the chunk's bytes to the file, which is begun when they are its first; return what they take.

        They are durable when it returns. The very append that is there already is success. Raise Taken unless
        the file has exactly `chunk.begin` bytes and is not closed, for then somebody else archives it;
        ValueError if `data` is not what `chunk` says.
        """

    def read_log(self, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        """The file's bytes between two offsets, proven by their chunks' hashes before they are given.

        Raise VerificationFailed when they are not what was appended, or not all there.
        """

    def proven_to(self, archived: ArchivedFile) -> datetime | None:
        """Up to when everything committed is in the file, as ArchivedFile.complete_to, but by chunks alone
        that are proven to be what was appended, where anything there proves that. None where none says."""

    def remove_log(self, file: LogFileId) -> None:
        """Take the file away, from its beginning on: what is left of it after a cut is not listed any more,
        and the next call takes that away. One that is gone already is success."""


@runtime_checkable
class Sealing(Protocol):
    """The operation that a session also offers where what is archived may be sealed for a private key."""

    def require_log_key(self, archived: ArchivedFile) -> None:
        """Raise PrivateKeyElsewhere where what was archived last of the file cannot be read here."""


class Destination(Protocol):
    """A configured destination. Nothing is connected to before connect()."""

    @property
    def name(self) -> str:
        """The configured name: unique for the instance, and part of the names of holds and bookmarks."""

    @property
    def address(self) -> str:
        """Its address, for people."""

    @property
    def aside(self) -> str:
        """How the copies that are there are set aside, so that others can be begun; for people."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of this host that are needed to reach it."""

    @property
    def here(self) -> str:
        """The dataset of this host that the copies lie below; "" when they are anywhere else."""

    def instances(self) -> Sequence[tuple[str, str]]:
        """Of which instances backups lie there, by what is written there, whatever instance this is of.

        Each as (path, instance): its copies lie at the address, or at this path below it. Not more than
        MOST_INSTANCES, and only names that an instance can have.
        """

    def connect(self) -> AbstractContextManager[Session]:
        """Work with it, over one connection, which ends with the body."""


@runtime_checkable
class Encrypting(Protocol):
    """The operations that a destination also offers where what lies there is encrypted by zbackup."""

    def readers(self) -> Readers:
        """Who can read what lies there."""

    def try_private_key(self) -> KeyTrial:
        """Open the newest backup, and the newest archived log, with a private key that is here.

        Raise PrivateKeyElsewhere, VerificationFailed where something does not open, or is not sealed at all,
        and NotFound where there is no backup.
        """
