"""Read a member's oplog while it is written: what a majority of its set has, and nothing takes back.

The server is asked, for a mongod alone can read its files: for entries behind the last one that is archived,
with read concern "majority". Such a read has no holes, and what it shows survives the loss of any minority
of the members (MongoDB manual, "Read Concern majority"). An entry's position is proof: as in Raft, who has an
entry of a term has all before it; so where the entry that was archived last is not in the oplog any more,
but its time is, what was archived was rolled back, and a new epoch begins.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import dropwhile
from typing import Final

from zbackup.engines.mongodb.oplog.stored import StoredEntry, documents
from zbackup.engines.mongodb.optime import OPLOG, timestamp
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import Connection, connect
from zbackup.engines.mongodb.server.status import oplog_end, oplog_first
from zbackup.model.archive import MOST_CHUNK, ArchivedFile, head_hash, server_key
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import DatabaseError, NotRecoverable, VerificationFailed
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import Record
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


MOST_LOOK: Final = 2 * MOST_CHUNK + (1 << 20)
"""Bytes that are read at once, and kept until they are archived: more than any two entries have."""


@dataclass(slots=True)
class MongoLogFollower:
    """See engines.base.LogFollower. Keeps the connection, and what was read in the last scan."""

    connect: ConnectOptions
    _connection: Connection | None = field(default=None, init=False)
    _read: dict[tuple[int, str], GrowingFile] = field(default_factory=dict, init=False)

    def scan(
        self,
        live: BackupFiles,
        older: Callable[[], Sequence[BackupFiles]],
        archived: Sequence[ArchivedFile],
        since: str,
        now: Callable[[], datetime],
    ) -> tuple[WrittenFile, ...]:
        read = now()
        connection = self._connected()
        alone = _require_member(connection, live.record)
        scan = _Scan(connection, server_key(live.record.server_uuid), sorted(archived, key=lambda f: f.file))
        files = scan.files(since)
        self._read = {(f.number, f.begin.name): f for f in files.files}
        complete_to = acknowledged = scan.reached(read)
        if alone and files.last and not scan.more:
            # What nobody else can have taken is acknowledged by this one alone.
            acknowledged = read
            if files.last.position == oplog_end(connection).at:
                complete_to = read
        return tuple(
            file.written(
                read,
                complete_to,
                acknowledged,
                same=scan.same.get(file.number),
                follows=scan.follows.get(file.number),
                more=scan.more,
            )
            for file in files.files
        )

    def read(self, file: WrittenFile, begin: int, end: int) -> LogBytes:
        try:
            return self._read[(file.number, file.name)].read(begin, end)
        except KeyError as gone:
            raise VerificationFailed(f"{file.name} was not read up to {end}: it is read again") from gone

    def forget(self) -> None:
        connection, self._connection = self._connection, None
        self._read = {}
        if connection:
            connection.close()

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self.connect)
        return self._connection


@dataclass(slots=True)
class _Scan:
    """One scan of the oplog, to go on from what is `archived` in the newest epoch.

    `same` says of a file's number whether the server's oplog goes on from it, and `follows` which epoch it
    continues where it begins again; `more`: not all was read.
    """

    connection: Connection
    server: str
    archived: Sequence[ArchivedFile]
    same: dict[int, bool] = field(default_factory=dict)
    follows: dict[int, int | None] = field(default_factory=dict)
    more: bool = False
    _entries: list[StoredEntry] = field(default_factory=list)

    def files(self, since: str) -> ArchiveFiles:
        """The files, with what is to be added to them."""
        if not self.archived:
            # From there on, if the oplog still has it; else all there is.
            self._ask(_recorded(since))
            return self._filled(ArchiveFiles(self.server))
        newest = self.archived[-1]
        end = _end(newest)
        self._ask(end)
        if not self._entries:
            # The member has not got that far, or what it has is not known to be the majority's yet.
            return self._unchanged(newest)
        if self._entries[0].position == end:
            if len(self._entries) > 1 and _is_giant(self._entries[1]):
                return self._behind_a_giant(newest)
            self.same[newest.file.number] = True
            return self._filled(ArchiveFiles(self.server, [GrowingFile.of(newest)]))
        if oplog_first(self.connection).at.cluster_time > end.cluster_time:
            return self._filled(ArchiveFiles(self.server, next_number=newest.file.number + 1))
        return self._after_rollback()

    def reached(self, read: datetime) -> datetime | None:
        """Up to when all that was written is there: the time of the last entry, if that can be right."""
        if self._entries:
            return min(self._entries[-1].wall, read)
        return self.archived[-1].complete_to if self.archived else None

    def _unchanged(self, newest: ArchivedFile) -> ArchiveFiles:
        self.same[newest.file.number] = True
        return ArchiveFiles(self.server, [GrowingFile.of(newest)])

    def _behind_a_giant(self, newest: ArchivedFile) -> ArchiveFiles:
        """No append can hold it, and nobody can write it into another oplog: there is a gap."""
        rest = list(dropwhile(_is_giant, self._entries[1:]))
        while not rest and self.more:
            self._ask(self._entries[-1].position)
            if len(self._entries) == 1:
                break
            rest = list(dropwhile(_is_giant, self._entries[1:]))
        self._entries = rest
        if not rest:
            self.more = False
            return self._unchanged(newest)
        return self._filled(ArchiveFiles(self.server, next_number=newest.file.number + 1))

    def _after_rollback(self) -> ArchiveFiles:
        """Go on from the newest file that ends with an entry that is still there; or begin the newest one
        again whose first is."""
        first = oplog_first(self.connection).at.cluster_time
        for index in range(len(self.archived) - 1, -1, -1):
            known = self.archived[index]
            begin, end = known.file.begin, _end(known)
            if known.closed and self._has(end):
                return self._again(known, end, known.file.number + 1)
            if begin and self._has(begin):
                front = self.archived[index - 1] if index else None
                goes_on = front is not None and known.continues(front)
                if front is None:
                    self.follows[known.file.number] = known.file.follows
                return self._again(front if goes_on else None, begin, known.file.number)
            if begin is None or begin.cluster_time < first:
                break
        return self._again(None, None, self.archived[0].file.number)

    def _again(self, before: ArchivedFile | None, begin: OplogPosition | None, number: int) -> ArchiveFiles:
        self._ask(begin)
        files = ArchiveFiles(self.server, next_number=number)
        if before is None:
            return self._filled(files)
        self.same[before.file.number] = True
        filled = self._filled(files)
        filled.files.insert(0, GrowingFile.of(before))
        return filled

    def _filled(self, files: ArchiveFiles) -> ArchiveFiles:
        for entry in self._entries:
            if _is_giant(entry):
                if files.files:
                    self.more = True
                    break
                continue
            files.add(entry, self._entries[-1])
        return files

    def _ask(self, since: OplogPosition | None) -> None:
        """Read what the majority has from a position on."""
        wanted = {"ts": {"$gte": timestamp(since)}} if since else {}
        batches, self.more = self.connection.committed_batches(OPLOG, wanted, MOST_LOOK)
        self._entries = [StoredEntry(each) for batch in batches for each in documents([batch])]

    def _has(self, position: OplogPosition) -> bool:
        found = self.connection.find(OPLOG, {"ts": timestamp(position)}, fields=("ts", "t"))
        return [OplogPosition.of(entry) for entry in found] == [position]


def _is_giant(entry: StoredEntry) -> bool:
    return len(entry.data) > MOST_CHUNK


def _recorded(since: str) -> OplogPosition | None:
    try:
        return OplogPosition.parse(since) if since else None
    except ValueError as damaged:
        raise VerificationFailed(
            f"the newest shipped backup's end cannot be understood: {damaged}"
        ) from damaged


def _end(known: ArchivedFile) -> OplogPosition:
    end = known.end_position
    if end is None:
        raise VerificationFailed(f"{known.file} is in the archive of an oplog, and is no file of one")
    return end


def _require_member(connection: Connection, record: Record) -> bool:
    """Whether this is the only member of its set that votes. Raise NotRecoverable when the set is not
    the one that the backups are of."""
    config = connection.command({"replSetGetConfig": 1})["config"]
    identity = str(config.get("settings", {}).get("replicaSetId", ""))
    if identity != record.server.get("set_id", ""):
        raise NotRecoverable(
            f"{connection.where} is of another replica set ({config.get('_id')}, {identity}) than the newest "
            "backup: take one of this set first (zbackup snapshot)"
        )
    voting = [m for m in config.get("members", ()) if m.get("votes", 1)]
    if not voting:
        raise DatabaseError(f"{connection.where} names no member of its set that votes")
    return len(voting) == 1
