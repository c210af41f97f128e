"""Put an oplog's entries into files of an archive: which are called how, and end where. Pure.

A file begins with the entry that the one before it ends with, so that the positions alone say that nothing is
missing between the two (see model.oplog_position).
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from zbackup.engines.mongodb.oplog.stored import StoredEntry
from zbackup.model.archive import MOST_CHUNK, ArchivedFile, head_hash
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.written_log import LogBytes, WrittenFile

MOST_FILE: Final = 64 << 20
"""Bytes of a file before the next one is begun."""
MOST_FILE_S: Final = 3600
"""Seconds of log in a file before the next one is begun: what no backup needs any more goes by files."""


@dataclass(slots=True)
class GrowingFile:
    """A file of the archive, and what is to be added to the bytes that it has there, from `archived` on.

    `ends` are the offsets in front of `size` at which an append ends, and the entry that stands in front of
    each.
    """

    number: int
    head: str
    begin: OplogPosition
    archived: int
    archived_end: OplogPosition
    last: StoredEntry | None = None
    data: bytearray = field(default_factory=bytearray)
    ends: dict[int, OplogPosition] = field(default_factory=dict)
    closed: bool = False

    @property
    def size(self) -> int:
        return self.archived + len(self.data)

    @property
    def end(self) -> OplogPosition:
        """The position of the last entry."""
        return self.last.position if self.last else self.archived_end

    @classmethod
    def of(cls, known: ArchivedFile) -> "GrowingFile":
        """One that is archived. Raise ValueError where that is of no oplog."""
        begin, end = known.file.begin, known.end_position
        if begin is None or end is None:
            raise ValueError(f"{known.file} is no file of an oplog")
        return cls(
            number=known.file.number,
            head=known.file.head,
            begin=begin,
            archived=known.size,
            archived_end=end,
            closed=known.closed,
        )

    @classmethod
    def at(cls, server: str, number: int, entry: StoredEntry) -> "GrowingFile":
        """A new one, which begins with this entry."""
        head = head_hash(server, entry.data)
        new = cls(number=number, head=head, begin=entry.position, archived=0, archived_end=entry.position)
        new.add(entry)
        return new

    def add(self, entry: StoredEntry) -> None:
        """Let it end with this entry."""
        since = next(reversed(self.ends), self.archived)
        if self.size > since and self.size + len(entry.data) - since > MOST_CHUNK:
            self.ends[self.size] = self.end
        self.data += entry.data
        self.last = entry

    def is_full(self, entry: StoredEntry, newest: StoredEntry) -> bool:
        """Whether this entry is to be in the next one; `newest` is the last that is known behind it."""
        old = newest.position.seconds - self.begin.seconds >= MOST_FILE_S
        if old:
            old = entry.position.seconds - self.begin.seconds >= MOST_FILE_S
        return (old or self.size >= MOST_FILE) and self.begin != self.end

    def read(self, begin: int, end: int) -> LogBytes:
        """The bytes between two offsets at which appends end. Raise KeyError for others."""
        at = self.end if end == self.size else self.ends[end]
        return LogBytes(bytes(self.data[begin - self.archived : end - self.archived]), at.tail)

    def written(
        self,
        read: datetime,
        complete_to: datetime | None,
        acknowledged: datetime | None,
        *,
        same: bool | None,
        follows: int | None,
        more: bool,
    ) -> WrittenFile:
        """The same in the words of who archives it."""
        return WrittenFile(
            name=self.begin.name,
            number=self.number,
            head=self.head,
            size=self.size,
            closed=self.closed,
            read=read,
            complete_to=None if self.closed else complete_to,
            acknowledged=acknowledged,
            same=same,
            follows=follows,
            cuts=(*self.ends, self.size),
            more=more,
        )


@dataclass(slots=True)
class ArchiveFiles:
    """The files that entries are put into, the newest last. `last` is the entry that was added last."""

    server: str
    files: list[GrowingFile] = field(default_factory=list)
    last: StoredEntry | None = None
    next_number: int = 1

    def add(self, entry: StoredEntry, newest: StoredEntry) -> None:
        """Add the next entry; `newest` as in GrowingFile.is_full. The first of all is where the newest file
        ends, if there is one that goes on."""
        if not self.files:
            self.files.append(GrowingFile.at(self.server, self.next_number, entry))
        elif self.last is None:
            pass  # it is there already
        elif (current := self.files[-1]).closed or current.is_full(entry, newest):
            current.closed = True
            following = GrowingFile.at(self.server, current.number + 1, self.last)
            following.add(entry)
            self.files.append(following)
        else:
            current.add(entry)
        self.last = entry
