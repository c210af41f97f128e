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

from zbackup.engines.mongodb.archive.files import ArchiveFiles, GrowingFile
from zbackup.engines.mongodb.oplog.stored import StoredEntry, documents
from zbackup.engines.mongodb.optime import OPLOG, OpTime
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import Connection, connect
from zbackup.engines.mongodb.server.status import oplog_end, oplog_first
from zbackup.model.archive import MOST_CHUNK, ArchivedFile, server_key
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import DatabaseError, NotRecoverable, VerificationFailed
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import Record
from zbackup.model.written_log import LogBytes, WrittenFile

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
            if OpTime.of_position(files.last.position) == oplog_end(connection).at:
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
        if oplog_first(self.connection).at.ts > OpTime.of_position(end).ts:
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
        first = oplog_first(self.connection).at.ts
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
            if begin is None or OpTime.of_position(begin).ts < first:
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
        wanted = {"ts": {"$gte": OpTime.of_position(since).ts}} if since else {}
        batches, self.more = self.connection.committed_batches(OPLOG, wanted, MOST_LOOK)
        self._entries = [StoredEntry(each) for batch in batches for each in documents([batch])]

    def _has(self, position: OplogPosition) -> bool:
        wanted = OpTime.of_position(position)
        found = self.connection.find(OPLOG, {"ts": wanted.ts}, fields=("ts", "t"))
        return [OpTime.of(entry) for entry in found] == [wanted]


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
